# SPDX-License-Identifier: Apache-2.0
"""The one thing that is defaulted by webhook: ``spec.runtimePatches[].time``, when an entry last changed.

A pure function of the old and the new object and the clock. Touches nothing but those times, so that applying a file
twice finds every other value as it was written. Runs before the schema was checked: whatever has not the right shape
is left for the schema to refuse.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from trainsnap_controller.runtime.patches import same_but_time

JSON = dict[str, Any]
_UNSET: Any = object()


def patch(obj: JSON, old: JSON | None, now: datetime) -> list[JSON]:
    """The JSON patch that sets the times.

    A new entry gets ``now`` unless it brings a time; one that changed gets ``now``, one that did not keeps its old
    time, whatever the request says.
    """
    before = {entry.get("manager"): entry for entry in _entries(old or {}) if isinstance(entry.get("manager"), str)}
    stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    operations = []
    for index, entry in enumerate(_entries(obj)):
        manager = entry.get("manager")
        wanted = _time(entry, before.get(manager) if isinstance(manager, str) else None, stamp)
        path = f"/spec/runtimePatches/{index}/time"
        if wanted is _UNSET:
            if "time" in entry:
                operations.append({"op": "remove", "path": path})
        elif entry.get("time", _UNSET) != wanted:
            operations.append({"op": "add", "path": path, "value": wanted})
    return operations


def _time(entry: JSON, old: JSON | None, stamp: str) -> Any:
    """The time that an entry is to have, or nothing."""
    if old is None:
        given = entry.get("time")
        return stamp if given is None else given
    return old.get("time", _UNSET) if _same(old, entry) else stamp


def _same(old: JSON, new: JSON) -> bool:
    try:
        return same_but_time(old, new)
    except (AttributeError, KeyError, TypeError):
        # The new entry has a list where an object belongs, or the like: the schema refuses it in a moment.
        return False


def _entries(obj: JSON) -> list[JSON]:
    """The entries, each an object; a list with anything else in it counts as none, since indexes would be wrong."""
    spec = obj.get("spec")
    entries = spec.get("runtimePatches") if isinstance(spec, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        return []
    return entries
