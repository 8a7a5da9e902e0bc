# SPDX-License-Identifier: Apache-2.0
"""The Python types of the API: the public face of the generated models.

Needs pydantic and nothing else. The kinds are TrainJob, TrainingRuntime, ClusterTrainingRuntime and
TrainingRuntimeSnapshot; every object inside them has one class, shared by all kinds, under its Kubernetes name where
it has one (Container, EnvVar, Volume). Each is a ``Model``: ``model_validate`` reads what the API server returned or a
user wrote, ``dump`` gives exactly that back with what was changed since; ``from_yaml`` and ``to_yaml`` do both for
text.

Objects inside another one are built at their first use (``trainsnap_api.lazy`` says how and why). This does not show,
but for ``type(x)`` before it: ask with ``isinstance``.

Classes are imported when they are first named, or there is an object of them, in four modules.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from trainsnap_api._generated import MODULES as _MODULES
from trainsnap_api.base import JSON, IntOrString, Kind, Model, Quantity

__all__: list[str] = ["JSON", "IntOrString", "Kind", "Model", "Quantity"]
if TYPE_CHECKING:
    from trainsnap_api._generated import details as _details
    from trainsnap_api._generated import kinds as _kinds
    from trainsnap_api._generated import models as _models
    from trainsnap_api._generated import pods as _pods
    from trainsnap_api._generated.details import *  # noqa: F403 - the names are generated, and checked by a test
    from trainsnap_api._generated.kinds import *  # noqa: F403
    from trainsnap_api._generated.models import *  # noqa: F403
    from trainsnap_api._generated.pods import *  # noqa: F403

    __all__ += _kinds.__all__
    __all__ += _models.__all__
    __all__ += _pods.__all__
    __all__ += _details.__all__
else:
    __all__ += sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"trainsnap_api._generated.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
