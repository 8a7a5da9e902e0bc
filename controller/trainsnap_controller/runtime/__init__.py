# SPDX-License-Identifier: Apache-2.0
"""The pure part of the operator: a TrainJob, its runtime's spec and observed objects in, documents to write out.

``registry.standard()`` gives the ``Framework``; ``framework`` is the pipeline; ``plugins`` hold one framework or
policy each; ``status`` maps a JobSet's status to the TrainJob's. Nothing in here talks to anything.
"""
