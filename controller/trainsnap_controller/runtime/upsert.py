# SPDX-License-Identifier: Apache-2.0
"""Setting entries of pod lists: in place where a match exists, else at the end; the whole entry is replaced.

Used by every plugin that adds variables, volumes, mounts or ports. Never changes what it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

JSON = dict[str, Any]


def env(existing: Sequence[JSON] | None, wanted: Iterable[JSON]) -> list[JSON]:
    """Environment variables, by name."""
    return _upsert(existing, wanted, lambda a, b: a["name"] == b["name"])


def volumes(existing: Sequence[JSON] | None, wanted: Iterable[JSON]) -> list[JSON]:
    """Pod volumes, by name."""
    return _upsert(existing, wanted, lambda a, b: a["name"] == b["name"])


def mounts(existing: Sequence[JSON] | None, wanted: Iterable[JSON]) -> list[JSON]:
    """Volume mounts, by the place where they are mounted."""
    return _upsert(existing, wanted, lambda a, b: a["mountPath"] == b["mountPath"])


def ports(existing: Sequence[JSON] | None, wanted: Iterable[JSON]) -> list[JSON]:
    """Container ports: the same number and protocol, or the same name where both have one.

    Two ports without a name are two ports (the reference takes them for one and loses the first).
    """
    return _upsert(existing, wanted, _same_port)


def on_container(
    *, env_vars: Iterable[JSON] = (), port_list: Iterable[JSON] = (), volume_mounts: Iterable[JSON] = ()
) -> Callable[[JSON], JSON]:
    """A change of one container that sets variables, ports and mounts. Empty lists leave their key as it is."""
    variables, numbered, mounted = tuple(env_vars), tuple(port_list), tuple(volume_mounts)

    def change(container: JSON) -> JSON:
        result = dict(container)
        if variables:
            result["env"] = env(container.get("env"), variables)
        if numbered:
            result["ports"] = ports(container.get("ports"), numbered)
        if mounted:
            result["volumeMounts"] = mounts(container.get("volumeMounts"), mounted)
        return result

    return change


def _same_port(a: JSON, b: JSON) -> bool:
    if a["containerPort"] == b["containerPort"]:
        return bool(a.get("protocol", "TCP") == b.get("protocol", "TCP"))
    return "name" in a and a.get("name") == b.get("name")


def _upsert(existing: Sequence[JSON] | None, wanted: Iterable[JSON], same: Callable[[JSON, JSON], bool]) -> list[JSON]:
    result = list(existing or ())
    for entry in wanted:
        index = next((i for i, item in enumerate(result) if same(item, entry)), None)
        if index is None:
            result.append(entry)
        else:
            result[index] = entry
    return result
