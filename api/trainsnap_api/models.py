# SPDX-License-Identifier: Apache-2.0
"""The Python types of the API: the public face of the generated models.

Needs pydantic and nothing else. The kinds are TrainJob, TrainingRuntime, ClusterTrainingRuntime and
TrainingRuntimeSnapshot; every object inside them has one class, shared by all kinds, under its Kubernetes name where
it has one (Container, EnvVar, Volume). Each is a ``Model``: ``model_validate`` reads what the API server returned or a
user wrote, ``dump`` gives exactly that back with what was changed since.
"""

from __future__ import annotations

from trainsnap_api import _generated
from trainsnap_api._generated.models import *  # noqa: F403 - the list of names is generated, and checked by a test
from trainsnap_api.base import JSON, IntOrString, Model, Quantity

__all__ = ["JSON", "IntOrString", "Model", "Quantity"]
__all__ += _generated.models.__all__
