# SPDX-License-Identifier: Apache-2.0
"""What an SDK author imports to work with TrainJobs, runtimes and snapshots.

``from trainsnap_api import Client, TrainJob``: every name is imported when it is first used, so that importing this
package costs next to nothing. Models need pydantic only; the client needs the extra ``client``, CEL rules in
``validate`` the extra ``validation``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainsnap_api.client import (
        AlreadyExists,
        ApiError,
        AsyncClient,
        Client,
        ConfigurationError,
        Conflict,
        Disconnected,
        Expired,
        Forbidden,
        Invalid,
        JobDeleted,
        JobEnded,
        JobFailed,
        KindNotServed,
        NotFound,
        TimedOut,
        TransportError,
        Unauthorized,
        UnknownFields,
        WaitTimedOut,
    )
    from trainsnap_api.models import (
        ClusterTrainingRuntime,
        Kind,
        Model,
        TrainingRuntime,
        TrainingRuntimeSnapshot,
        TrainJob,
    )
    from trainsnap_api.reading import read_yaml
    from trainsnap_api.state import state_of
    from trainsnap_api.validation import Problem, Report, ValidationFailed, validate

_CLIENT, _MODELS, _CHECKS = "trainsnap_api.client", "trainsnap_api.models", "trainsnap_api.validation"
_WHERE = {
    "AlreadyExists": _CLIENT,
    "ApiError": _CLIENT,
    "AsyncClient": _CLIENT,
    "Client": _CLIENT,
    "ClusterTrainingRuntime": _MODELS,
    "ConfigurationError": _CLIENT,
    "Conflict": _CLIENT,
    "Disconnected": _CLIENT,
    "Expired": _CLIENT,
    "Forbidden": _CLIENT,
    "Invalid": _CLIENT,
    "JobDeleted": _CLIENT,
    "JobEnded": _CLIENT,
    "JobFailed": _CLIENT,
    "Kind": _MODELS,
    "KindNotServed": _CLIENT,
    "Model": _MODELS,
    "NotFound": _CLIENT,
    "Problem": _CHECKS,
    "Report": _CHECKS,
    "TimedOut": _CLIENT,
    "TrainJob": _MODELS,
    "TrainingRuntime": _MODELS,
    "TrainingRuntimeSnapshot": _MODELS,
    "TransportError": _CLIENT,
    "Unauthorized": _CLIENT,
    "UnknownFields": _CLIENT,
    "ValidationFailed": _CHECKS,
    "WaitTimedOut": _CLIENT,
    "read_yaml": "trainsnap_api.reading",
    "state_of": "trainsnap_api.state",
    "validate": _CHECKS,
}

__all__ = [
    "AlreadyExists",
    "ApiError",
    "AsyncClient",
    "Client",
    "ClusterTrainingRuntime",
    "ConfigurationError",
    "Conflict",
    "Disconnected",
    "Expired",
    "Forbidden",
    "Invalid",
    "JobDeleted",
    "JobEnded",
    "JobFailed",
    "Kind",
    "KindNotServed",
    "Model",
    "NotFound",
    "Problem",
    "Report",
    "TimedOut",
    "TrainJob",
    "TrainingRuntime",
    "TrainingRuntimeSnapshot",
    "TransportError",
    "Unauthorized",
    "UnknownFields",
    "ValidationFailed",
    "WaitTimedOut",
    "read_yaml",
    "state_of",
    "validate",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(_WHERE[name])
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == __name__:
            raise
        raise ModuleNotFoundError(
            f"{name} needs the package {error.name}: pip install 'trainsnap[client]'", name=error.name
        ) from error
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
