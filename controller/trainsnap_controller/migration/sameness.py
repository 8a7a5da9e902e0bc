# SPDX-License-Identifier: Apache-2.0
"""Whether a snapshot says the same as a blueprint from elsewhere. Pure; used by ``decide`` and ``act``.

A snapshot is read with defaults that it was not captured with, some of them of a CRD that is newer than it. So it is
the same as another blueprint if it was captured from equal content, or if both are equal with the defaults of this
release's schema.
"""

from __future__ import annotations

from typing import Any

from trainsnap_controller.snapshot.content import Content
from trainsnap_controller.snapshot.digest import beyond_defaults, digest

JSON = dict[str, Any]


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
    # Here, since an operator that only starts has no use for the schema, and would take the time to load it.
    from trainsnap_api.validation.schema import root
    from trainsnap_api.validation.values import prepared

    return prepared(root("TrainingRuntimeSpec"), content.value) if content.field == "spec" else content.value


def other_content(snapshot: JSON, content: Content) -> list[str]:
    """Where a snapshot says something else than a blueprint does: one line each."""
    stored = content_in(snapshot)
    if stored.field != content.field or (stored.value is None) != (content.value is None):
        return [f"{content.field}: only one of them has it"]
    if captured_from(snapshot, content):
        return list(beyond_defaults(content.value, stored.value, content.field))
    return list(beyond_defaults(with_defaults(content), with_defaults(stored), content.field, exact=True))
