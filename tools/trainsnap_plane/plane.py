# SPDX-License-Identifier: Apache-2.0
"""One running control plane. Used by the command line, the test fixtures and the demo.

`Plane.start` returns when everything answers. Until `detach` the plane ends with the process that started it, whatever way
that process ends. `Plane.attach` finds a detached one again by its folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import ssl
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from . import bootstrap, control
from .api import ApiClient
from .binaries import cached_manifests, find
from .build import Builder
from .certs import Authority
from .components import PROFILES, Component, ProfileName
from .errors import ComponentDied, NotRunning, PlaneError
from .kubeconfigs import with_certificate, with_token
from .layout import Layout, tail
from .parts import PARTS, cache_folder
from .ports import Lease, lease
from .process import kill_if_same, start_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .control import Control

_ATTEMPTS = 3
_POLL = 0.05


@dataclass(frozen=True, slots=True)
class ComponentStatus:
    """State is running, paused, stopped (on request) or died. `log_tail` is filled for a dead one only."""

    name: str
    state: str
    pid: int
    exit_code: int | None
    log_tail: str = ""


def needed_parts(profile: ProfileName) -> list[str]:
    """The binaries of a profile; kubectl is always among them."""
    return [*(component.part for component in PROFILES[profile]), "kubectl"]


class Plane:
    """A control plane in a folder. Make one with `start` or `attach`, not directly."""

    def __init__(self, layout: Layout, connection: Control, state: dict[str, Any]) -> None:
        self._layout = layout
        self._control = connection
        self._state = state

    # Starting and finding.

    @classmethod
    def start(
        cls,
        directory: str | os.PathLike[str],
        profile: ProfileName = "api",
        *,
        build: bool = True,
        keep: bool = False,
        say: Callable[[str], None] = lambda _: None,
    ) -> Plane:
        """Start a plane in `directory` and return when everything answers.

        `build` false refuses to build what is missing. `keep` leaves the folder when the plane ends or does not come up.
        Raises PlaneError; then nothing is left running.
        """
        parts = needed_parts(profile)
        if build:
            Builder().ensure(parts)
        binaries = _binaries(parts)
        layout = Layout(Path(directory).absolute())
        for attempt in range(_ATTEMPTS):
            try:
                return cls._start_once(layout, profile, binaries, keep=keep, say=say)
            except ComponentDied as death:
                if not death.port_was_taken or attempt == _ATTEMPTS - 1:
                    raise
                say(f"{death.component}: its port was taken meanwhile; starting anew with other ports")
        raise AssertionError("unreachable")

    @classmethod
    def _start_once(
        cls, layout: Layout, profile: ProfileName, binaries: dict[str, Path], *, keep: bool, say: Callable[[str], None]
    ) -> Plane:
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
            connection, pid = control.spawn(layout, inherited, keep=keep)
            state["supervisor"] = {"pid": pid, "start_time": start_time(pid) or ""}
            layout.write_state(state)
        plane = cls(layout, connection, state)
        try:
            plane._bring_up(say)
        except BaseException:
            with contextlib.suppress(PlaneError):
                plane.stop()
            raise
        return plane

    @classmethod
    def attach(cls, directory: str | os.PathLike[str]) -> Plane:
        """The plane that runs in a folder. Raises NotRunning when its supervisor is gone, PlaneError when there never was one."""
        layout = Layout(Path(directory).absolute())
        state = layout.read_state()
        return cls(layout, control.attach(layout), state)

    def _bring_up(self, say: Callable[[str], None]) -> None:
        bootstrap.write_files(self._layout, self.ports)
        etcd, apiserver, *controllers = PROFILES[self.profile]
        for component in (etcd, apiserver):
            say(f"starting {component.name}")
            self._launch(component)
            self.wait_ready(component.name)
        client, modules = self.api(), cached_manifests(cache_folder())
        bootstrap.install_crds(client, modules, check=self.check)
        if not controllers:
            return
        bootstrap.install_controllers(client, self._layout, modules, self.ports)
        say(f"starting {', '.join(component.name for component in controllers)}")
        for component in controllers:
            self._launch(component)
        for component in controllers:
            self.wait_ready(component.name)
        bootstrap.install_webhooks(client, self._layout, modules, self.ports)
        self._wait_for_nodes(client)

    def _launch(self, component: Component) -> None:
        values = {
            "root": self._layout.root,
            "pki": self._layout.pki,
            "config": self._layout.config,
            **{name: str(port) for name, port in self.ports.items()},
        }
        argv = [self._state["binaries"][component.part], *(argument.format_map(values) for argument in component.args)]
        # A clean environment: no KUBECONFIG and no proxy of the user's reaches a component.
        environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self._layout.root)}
        log = str(self._layout.log(component.name))
        self._control.request("start", name=component.name, argv=argv, env=environment, log=log)

    def _wait_for_nodes(self, client: ApiClient, patience: float = 30.0) -> None:
        deadline = time.monotonic() + patience
        while True:
            nodes = client.request("GET", "/api/v1/nodes")["items"]
            ready = [n for n in nodes if any(c["type"] == "Ready" and c["status"] == "True" for c in _conditions(n))]
            # The taint that every new node carries is taken off a moment after it became ready.
            if len(ready) == len(nodes) and not any(n["spec"].get("taints") for n in nodes):
                return
            self.check()
            if time.monotonic() > deadline:
                raise PlaneError("the nodes did not become ready", detail=tail(self._layout.log("kwok")))
            time.sleep(_POLL)

    # What it is.

    @property
    def directory(self) -> Path:
        return self._layout.root

    @property
    def profile(self) -> ProfileName:
        profile: ProfileName = self._state["profile"]
        return profile

    @property
    def ports(self) -> dict[str, int]:
        ports: dict[str, int] = self._state["ports"]
        return ports

    @property
    def server(self) -> str:
        """The API server's URL."""
        return bootstrap.server_url(self.ports)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self._layout.kubeconfig

    @property
    def kubectl(self) -> Path:
        """A kubectl that fits this API server."""
        return Path(self._state["binaries"]["kubectl"])

    @property
    def supervisor_pid(self) -> int:
        pid: int = self._state["supervisor"]["pid"]
        return pid

    def api(self) -> ApiClient:
        """A small client with the administrator's rights."""
        return ApiClient.from_kubeconfig(self.kubeconfig)

    def user_kubeconfig(self, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig for any user by client certificate. RBAC decides what that user may do: nothing, to begin with."""
        name = _file_name("-".join([user, *groups]))
        pair = Authority(self._layout.pki, "ca").client(f"user-{name}", user, groups)
        path = self._layout.kubeconfigs / f"{name}.kubeconfig"
        return with_certificate(path, server=self.server, authority=self._layout.pki / "ca.crt", user=user, pair=pair)

    def service_account_kubeconfig(self, namespace: str, account: str, *, seconds: int = 24 * 3600) -> Path:
        """A kubeconfig with a token of a ServiceAccount that exists."""
        path = self._layout.kubeconfigs / f"{_file_name(f'{namespace}-{account}')}.token.kubeconfig"
        token = self.api().token(namespace, account, seconds=seconds)
        authority = self._layout.pki / "ca.crt"
        return with_token(path, server=self.server, authority=authority, user=account, token=token)

    # How it is.

    def status(self) -> list[ComponentStatus]:
        """Every component, in the order of their start. Raises NotRunning when the supervisor is gone."""
        children = self._control.request("status")["children"]
        return [
            ComponentStatus(
                child["name"],
                child["state"],
                child["pid"],
                child["exit_code"],
                tail(self._layout.log(child["name"])) if child["state"] == "died" else "",
            )
            for child in children
        ]

    def check(self) -> None:
        """Raises ComponentDied, with the tail of its log, when a component ended by itself."""
        for component in self.status():
            if component.state == "died":
                raise ComponentDied(component.name, component.exit_code or 0, detail=component.log_tail)

    def log(self, component: str) -> Path:
        return self._layout.log(component)

    def audit(self) -> list[dict[str, Any]]:
        """Every request that the API server has answered so far, as its audit log words it, oldest first.

        A watch appears when it has ended. Useful fields: verb, user.username, userAgent, objectRef, responseStatus.code.
        """
        with open(self._layout.audit_log) as stream:
            # The last line may be half written.
            return [json.loads(line) for line in stream if line.endswith("\n")]

    # What can be done to it.

    def restart(self, component: str, *, grace: float = 5.0) -> None:
        """Stop a component (killed after `grace` seconds), start it with the same arguments, wait until it answers."""
        self._control.request("restart", name=component, grace=grace)
        self.wait_ready(component)

    def stop_component(self, component: str, *, grace: float = 5.0) -> None:
        self._control.request("stop", name=component, grace=grace)

    def start_component(self, component: str) -> None:
        """Start a stopped or dead component again and wait until it answers."""
        self._launch(self._component(component))
        self.wait_ready(component)

    def kill(self, component: str) -> None:
        """SIGKILL; the component then counts as died."""
        self._control.request("signal", name=component, which="KILL")

    def pause(self, component: str) -> None:
        """SIGSTOP: the component keeps its connections and answers nobody."""
        self._control.request("signal", name=component, which="STOP")

    def resume(self, component: str) -> None:
        self._control.request("signal", name=component, which="CONT")

    def wait_ready(self, component: str) -> None:
        """Return when a component answers. Raises ComponentDied when any ended meanwhile, PlaneError after its patience."""
        wanted = self._component(component)
        deadline = time.monotonic() + wanted.patience
        while not self._answers(wanted):
            self.check()
            if time.monotonic() > deadline:
                raise PlaneError(
                    f"{component} does not answer after {wanted.patience:.0f} s",
                    detail=tail(self._layout.log(component)),
                )
            time.sleep(_POLL)

    def detach(self) -> None:
        """From now on the plane lives until `stop` (or `plane down`), whatever becomes of this process."""
        self._control.request("detach")

    def stop(self, *, keep: bool | None = None) -> None:
        """End everything and remove the data; `keep` true leaves the data, None does what was said at the start."""
        self._control.request("shutdown", keep=keep)
        self._control.wait_for_end()
        self._control.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(NotRunning):
            self.stop()

    def _component(self, name: str) -> Component:
        for component in PROFILES[self.profile]:
            if component.name == name:
                return component
        raise PlaneError(f"the profile {self.profile} has no {name}")

    def _answers(self, component: Component) -> bool:
        probe = component.ready
        context = None
        if probe.scheme == "https":
            context = ssl.create_default_context(cafile=str(self._layout.pki / f"{probe.authority}.crt"))
            if probe.client:
                pair = self._layout.pki / f"{probe.client}.crt", self._layout.pki / f"{probe.client}.key"
                context.load_cert_chain(*pair)
        url = f"{probe.scheme}://127.0.0.1:{self.ports[probe.port]}{probe.path}"
        # Without the user's proxies.
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), *([urllib.request.HTTPSHandler(context=context)] if context else [])
        )
        try:
            with opener.open(url, timeout=5) as response:
                return response.status == 200
        except (OSError, urllib.error.URLError):
            return False


def clear(directory: str | os.PathLike[str], *, keep: bool | None = None) -> bool:
    """End what runs in a folder, or remove what a killed supervisor left. Returns whether a plane was running."""
    layout = Layout(Path(directory).absolute())
    state = layout.read_state()
    keep = bool(state.get("keep")) if keep is None else keep
    try:
        Plane.attach(directory).stop(keep=keep)
        return True
    except NotRunning:
        pass
    # The supervisor is gone or does not answer. What it started is known by pid and start time, and only that is signalled.
    recorded = [state["supervisor"]] if "supervisor" in state else []
    with contextlib.suppress(OSError, ValueError):
        recorded += json.loads(layout.children.read_text())
    killed = [kill_if_same(one["pid"], one["start_time"]) for one in recorded]
    layout.remove_runtime_files()
    if not keep:
        layout.remove()
    return any(killed)


def _reserve(layout: Layout, profile: ProfileName) -> tuple[int, dict[str, Lease]]:
    if layout.root.is_dir() or not layout.root.exists():
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


def _file_name(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in text)


def _conditions(node: dict[str, Any]) -> list[dict[str, Any]]:
    conditions: list[dict[str, Any]] = node.get("status", {}).get("conditions", [])
    return conditions
