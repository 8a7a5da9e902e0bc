# SPDX-License-Identifier: Apache-2.0
"""Named checks and the two endpoints that answer for them: is the process alive, is it ready.

Filled by the manager and the command line, asked by the kubelet and by people. Checks look at what is known in memory
and answer at once; none of them calls the API server.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse
from starlette.routing import Route

from trainsnap_controller.manager.http import application

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response


@dataclass(frozen=True, slots=True)
class Health:
    """What a check found. ``detail`` is one line for people: why not, or what there is to know though all is well."""

    ok: bool
    detail: str = ""


Check = Callable[[], Health]


class HealthChecks:
    """The checks of ``/healthz`` (restart me if not) and of ``/readyz`` (send me nothing until)."""

    def __init__(self) -> None:
        self._live: dict[str, Check] = {"ping": lambda: Health(True)}
        self._ready: dict[str, Check] = {}

    def add_live(self, name: str, check: Check) -> None:
        """Add a check to ``/healthz``; replaces one of that name."""
        self._live[name] = check

    def add_ready(self, name: str, check: Check) -> None:
        """Add a check to ``/readyz``; replaces one of that name."""
        self._ready[name] = check

    def live(self) -> dict[str, Health]:
        return {name: _ask(check) for name, check in self._live.items()}

    def ready(self) -> dict[str, Health]:
        return {name: _ask(check) for name, check in self._ready.items()}

    def app(self) -> Starlette:
        """An ASGI application with ``/healthz`` and ``/readyz``, each also as ``/…/CHECK`` for one check.

        200 or 500. The answer is ``ok``, or the list of checks with their details on failure and with ``?verbose``.
        """
        return application(
            Route("/healthz", self._answer_live),
            Route("/healthz/{check}", self._answer_live),
            Route("/readyz", self._answer_ready),
            Route("/readyz/{check}", self._answer_ready),
        )

    async def _answer_live(self, request: Request) -> Response:
        return _answer("healthz", self.live(), request)

    async def _answer_ready(self, request: Request) -> Response:
        return _answer("readyz", self.ready(), request)


def _ask(check: Check) -> Health:
    try:
        return check()
    except Exception as error:
        return Health(False, f"the check itself failed: {error}")


def _answer(title: str, found: dict[str, Health], request: Request) -> Response:
    only = request.path_params.get("check")
    if only is not None:
        if only not in found:
            return PlainTextResponse(f"no check {only!r}; there are: {', '.join(found)}\n", 404)
        found = {only: found[only]}
    passed = all(health.ok for health in found.values())
    if passed and "verbose" not in request.query_params:
        return PlainTextResponse("ok")
    lines = [
        f"[{'+' if health.ok else '-'}]{name} {'ok' if health.ok else 'failed'}"
        + (f": {health.detail}" if health.detail else "")
        for name, health in found.items()
    ]
    lines.append(f"{title} check {'passed' if passed else 'failed'}")
    return PlainTextResponse("\n".join(lines) + "\n", 200 if passed else 500)
