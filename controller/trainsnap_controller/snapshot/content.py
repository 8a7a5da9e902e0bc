# SPDX-License-Identifier: Apache-2.0
"""What blueprint a runtime object holds. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from trainsnap_controller import constants as c

JSON = dict[str, Any]

KNOWN_RUNTIMES: Final = ("TrainingRuntime", "ClusterTrainingRuntime")
_NOT_CONTENT: Final = frozenset({"apiVersion", "kind", "metadata", "status"})


@dataclass(frozen=True, slots=True)
class Content:
    """A blueprint. ``field`` is ``spec`` or ``opaque``; value None: the runtime had no spec."""

    field: str
    value: JSON | None


def content_of(runtime: JSON) -> Content:
    """The part of a runtime object that a snapshot keeps.

    Known kinds keep their ``spec``. Kinds that trainsnap does not know are kept whole, less the envelope
    (apiVersion, kind, metadata, status), as ``opaque.spec``.
    """
    if runtime["kind"] in KNOWN_RUNTIMES and runtime["apiVersion"].partition("/")[0] == c.GROUP:
        return Content("spec", runtime.get("spec"))
    return Content("opaque", {key: value for key, value in runtime.items() if key not in _NOT_CONTENT})
