# SPDX-License-Identifier: Apache-2.0
"""From the reference's ConfigMap snapshots to TrainingRuntimeSnapshots, and back.

``yaml_go`` and ``legacy`` read and judge a ConfigMap (pure); ``adopt`` does so for the operator, one job at a time;
the rest is the command ``trainsnap migrate``: ``facts`` gathers, ``decide`` is pure, ``rehearse`` asks, ``act`` writes.
"""
