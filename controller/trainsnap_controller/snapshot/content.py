# SPDX-License-Identifier: Apache-2.0
"""What blueprint a runtime object or a snapshot holds, and whether two of them are the same. Pure.

A snapshot is read with defaults that it was not captured with, some of them of a CRD that is newer than it. So it is
the same as another blueprint if it was captured from equal content, or if both are equal with the defaults of this
release's schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from trainsnap_api.validation.schema import root
from trainsnap_api.validation.values import prepared
from trainsnap_controller import constants as c
from trainsnap_controller.snapshot.digest import beyond_defaults, digest

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


def content_in(snapshot: JSON) -> Content:
    """The part of a snapshot that came from the runtime."""
    if "opaque" in snapshot:
        return Content("opaque", snapshot["opaque"].get("spec"))
    return Content("spec", snapshot.get("spec"))


def captured_from(snapshot: JSON, content: Content) -> bool:
    """Whether a snapshot was captured from equal content: what it shows beyond that are the API server's defaults."""
    return bool(snapshot["source"].get("digest") == digest(content.value))


def with_defaults(content: Content) -> Any:
    """The value as this release's schema completes it; that of other kinds has none."""
    return prepared(root("TrainingRuntimeSpec"), content.value) if content.field == "spec" else content.value


def other_content(snapshot: JSON, content: Content) -> list[str]:
    """Where a snapshot says something else than a blueprint does: one line each."""
    stored = content_in(snapshot)
    if stored.field != content.field or (stored.value is None) != (content.value is None):
        return [f"{content.field}: only one of them has it"]
    if captured_from(snapshot, content):
        return list(beyond_defaults(content.value, stored.value, content.field))
    return list(beyond_defaults(with_defaults(content), with_defaults(stored), content.field, exact=True))
