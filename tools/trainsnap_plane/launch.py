# SPDX-License-Identifier: Apache-2.0
"""Starts a plane: binaries, ports, supervisor, components in their order, objects. Called by `Plane.start` only.

Whatever goes wrong on the way, nothing is left running, and nothing is left on disk unless it was asked for.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any

from . import bootstrap, control
from .binaries import cached_manifests, find
from .build import Builder
from .components import PROFILES, ProfileName
from .errors import ComponentDied, PlaneError
from .layout import Layout, tail
from .parts import PARTS, cache_folder
from .plane import Plane
from .ports import Lease, lease
from .process import start_time

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .api import ApiClient

_ATTEMPTS = 3
_POLL = 0.05


def needed_parts(profile: ProfileName) -> list[str]:
    """The binaries of a profile; kubectl is always among them."""
    return [*(component.part for component in PROFILES[profile]), "kubectl"]


def start(directory: Path, profile: ProfileName, *, build: bool, keep: bool, say: Callable[[str], None]) -> Plane:
    """See `Plane.start`."""
    parts = needed_parts(profile)
    if build:
        Builder().ensure(parts)
    binaries = _binaries(parts)
    layout = Layout(directory.absolute())
    for attempt in range(_ATTEMPTS):
        try:
            return _start_once(layout, profile, binaries, keep=keep, say=say)
        except ComponentDied as death:
            if not death.port_was_taken or attempt == _ATTEMPTS - 1:
                raise
            say(f"{death.component}: its port was taken meanwhile; starting anew with other ports")
    raise AssertionError("unreachable")


def _start_once(
    layout: Layout, profile: ProfileName, binaries: dict[str, Path], *, keep: bool, say: Callable[[str], None]
) -> Plane:
    # What an earlier plane kept here is not ours to remove when this one does not come up.
    keep_on_failure = keep or (layout.root / "etcd" / "member").exists()
    with contextlib.ExitStack() as cleanup:
        lock, leases = _reserve(layout, profile)
        for descriptor in (lock, *(one.descriptor for one in leases.values())):
            cleanup.callback(os.close, descriptor)  # The supervisor has them by then, or nobody needs them.
        inherited = [lock, *(one.descriptor for one in leases.values())]
        state: dict[str, Any] = {
            "profile": profile,
            "keep": keep,
            "ports": {name: one.port for name, one in leases.items()},
            "binaries": {name: str(path) for name, path in binaries.items()},
        }
        layout.write_state(state)
        connection, pid = control.spawn(layout, inherited, keep=keep_on_failure)
        state["supervisor"] = {"pid": pid, "start_time": start_time(pid) or ""}
        layout.write_state(state)
    plane = Plane(layout, connection, state)
    try:
        _bring_up(plane, layout, say)
    except BaseException:
        plane.stop(keep=keep_on_failure)
        raise
    return plane


def _bring_up(plane: Plane, layout: Layout, say: Callable[[str], None]) -> None:
    bootstrap.write_files(layout, plane.ports)
    etcd, apiserver, *controllers = PROFILES[plane.profile]
    for component in (etcd, apiserver):
        say(f"starting {component.name}")
        plane.launch(component)
        plane.wait_ready(component.name)
    client, modules = plane.api(), cached_manifests(cache_folder())
    bootstrap.install_crds(client, modules, check=plane.check)
    if not controllers:
        return
    bootstrap.install_controllers(client, layout, modules, plane.ports)
    say(f"starting {', '.join(component.name for component in controllers)}")
    for component in controllers:
        plane.launch(component)
    for component in controllers:
        plane.wait_ready(component.name)
    bootstrap.install_webhooks(client, layout, modules, plane.ports)
    _wait_for_nodes(plane, client)


def _wait_for_nodes(plane: Plane, client: ApiClient, patience: float = 30.0) -> None:
    deadline = time.monotonic() + patience
    while True:
        nodes = client.request("GET", "/api/v1/nodes")["items"]
        ready = [n for n in nodes if any(c["type"] == "Ready" and c["status"] == "True" for c in _conditions(n))]
        # The taint that every new node carries is taken off a moment after it became ready.
        if len(ready) == len(nodes) and not any(n["spec"].get("taints") for n in nodes):
            return
        plane.check()
        if time.monotonic() > deadline:
            raise PlaneError("the nodes did not become ready", detail=tail(plane.log("kwok")))
        time.sleep(_POLL)


def _reserve(layout: Layout, profile: ProfileName) -> tuple[int, dict[str, Lease]]:
    layout.create()
    lock = layout.acquire()
    if lock is None:
        raise PlaneError(f"a plane is running in {layout.root} already: run `down` first, or choose another --dir")
    try:
        layout.remove_runtime_files()
        return lock, lease(name for component in PROFILES[profile] for name in component.ports)
    except BaseException:
        os.close(lock)
        raise


def _binaries(parts: list[str]) -> dict[str, Path]:
    found = {name: find(PARTS[name]) for name in parts}
    lacking = [name for name, one in found.items() if one is None]
    if lacking or not cached_manifests(cache_folder()).is_dir():
        raise PlaneError(f"not built yet ({', '.join(lacking) or 'manifests'}): run `tools/plane build`")
    return {name: one.path for name, one in found.items() if one is not None}


def _conditions(node: dict[str, Any]) -> list[dict[str, Any]]:
    conditions: list[dict[str, Any]] = node.get("status", {}).get("conditions", [])
    return conditions
