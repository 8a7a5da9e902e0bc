# SPDX-License-Identifier: Apache-2.0
"""From the reference's ConfigMap snapshots to TrainingRuntimeSnapshots, and back.

``yaml_go`` and ``legacy`` read and judge a ConfigMap (pure); ``adopt`` does so for the operator, one job at a time;
``handback`` makes one from a snapshot (pure), and ``state`` keeps the moment that divides old jobs from new ones. The
rest is the command ``trainsnap migrate``: ``command`` is its table of contents, ``facts`` gathers, ``decide`` is pure,
``rehearse`` asks, ``act`` writes.
"""
