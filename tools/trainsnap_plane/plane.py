# SPDX-License-Identifier: Apache-2.0
"""One running control plane. Used by the command line, the test fixtures and the demo.

`Plane.start` returns when everything answers. Until `detach` the plane ends with the process that started it, whatever
way that process ends. `Plane.attach` finds a detached one again by its folder.
"""

from __future__ import annotations

import contextlib
import hashlib
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
from .certs import Authority
from .components import PROFILES, Component, ProfileName
from .errors import ComponentDied, NotRunning, PlaneError
from .kubeconfigs import with_certificate, with_token
from .layout import Layout, tail
from .ports import sweep
from .process import is_same, kill_if_same

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .control import Control

_POLL = 0.05


@dataclass(frozen=True, slots=True)
class ComponentStatus:
    """State is running, paused, stopped (on request) or died. `log_tail` is filled for a dead one only."""

    name: str
    state: str
    pid: int
    exit_code: int | None
    log_tail: str = ""


class Plane:
    """A control plane in a folder. Make one with `start` or `attach`, not directly."""

    def __init__(self, layout: Layout, connection: Control, state: dict[str, Any]) -> None:
        self._layout = layout
        self._control = connection
        self._state = state

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

        `build` false refuses to build what is missing. `keep` leaves the folder when the plane ends or does not come
        up. Raises PlaneError; then nothing is left running.
        """
        from .launch import start  # It needs this class.

        return start(Path(directory), profile, build=build, keep=keep, say=say)

    @classmethod
    def attach(cls, directory: str | os.PathLike[str]) -> Plane:
        """The plane that runs in a folder. Raises NotRunning when its supervisor is gone, PlaneError when there never
        was one.
        """
        layout = Layout(Path(directory).absolute())
        state = layout.read_state()
        return cls(layout, control.attach(layout), state)

    def launch(self, component: Component) -> None:
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

    def api(self) -> ApiClient:
        """A small client with the administrator's rights."""
        return ApiClient.from_kubeconfig(self.kubeconfig)

    def user_kubeconfig(self, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig for any user, by client certificate. What that user may do is up to RBAC: at first nothing."""
        name = _file_name(user, *groups)
        pair = Authority(self._layout.pki, "ca").client(f"user-{name}", user, groups)
        path = self._layout.kubeconfigs / f"{name}.kubeconfig"
        return with_certificate(path, server=self.server, authority=self._layout.pki / "ca.crt", user=user, pair=pair)

    def service_account_kubeconfig(self, namespace: str, account: str, *, seconds: int = 24 * 3600) -> Path:
        """A kubeconfig with a token of a ServiceAccount that exists."""
        path = self._layout.kubeconfigs / f"{_file_name(namespace, account)}.token.kubeconfig"
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

        A watch appears when it has ended. Useful fields: verb, user.username, userAgent, objectRef,
        responseStatus.code.
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
        self.launch(self._component(component))
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
        """Return when a component answers. Raises ComponentDied when any ended meanwhile, PlaneError after its
        patience.
        """
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
        keep = bool(self._state["keep"]) if keep is None else keep
        try:
            self._control.request("shutdown", keep=keep)
            self._control.wait_for_end()
            self._wait_for_supervisor()
        except NotRunning:
            clear_remains(self._layout, self._state, keep=keep)
        else:
            _sweep_ports()
        finally:
            self._control.close()

    def _wait_for_supervisor(self, patience: float = 5.0) -> None:
        """Its locks are free only when the process is gone, a moment after it closed the connection."""
        deadline = time.monotonic() + patience
        supervisor = self._state["supervisor"]
        while is_same(supervisor["pid"], supervisor["start_time"]) and time.monotonic() < deadline:
            time.sleep(0.01)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
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
                status: int = response.status
                return status == 200
        except (OSError, urllib.error.URLError):
            return False


def _file_name(*names: str) -> str:
    """Readable, and another one for every other list of names: a certificate that is there is used again."""
    readable = "".join(c if c.isalnum() or c in "-_." else "_" for c in "-".join(names))
    return f"{readable[:100]}-{hashlib.sha256(json.dumps(names).encode()).hexdigest()[:8]}"


def clear(directory: str | os.PathLike[str], *, keep: bool | None = None) -> bool:
    """End what runs in a folder, or remove what a killed supervisor left. Returns whether a plane was running."""
    layout = Layout(Path(directory).absolute())
    state = layout.read_state()
    try:
        Plane.attach(directory).stop(keep=keep)
    except NotRunning:
        return clear_remains(layout, state, keep=bool(state["keep"]) if keep is None else keep)
    return True


def clear_remains(layout: Layout, state: dict[str, Any], *, keep: bool) -> bool:
    """For a supervisor that is gone or does not answer. Returns whether anything of it was still alive.

    What it started is known by pid and start time, and only that is signalled.
    """
    recorded = [state["supervisor"]] if "supervisor" in state else []
    with contextlib.suppress(OSError, ValueError):
        recorded += json.loads(layout.children.read_text())
    killed = [kill_if_same(one["pid"], one["start_time"]) for one in recorded]
    layout.remove_runtime_files()
    if not keep:
        layout.remove()
    _sweep_ports()
    return any(killed)


def _sweep_ports() -> None:
    with contextlib.suppress(OSError):  # It is only tidying up; the next start says what is wrong.
        sweep()
