# SPDX-License-Identifier: Apache-2.0
"""Who may see metrics is asked of the API server, and its answer kept for a moment."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from support.clock import FakeClock
from trainsnap_api.transport import Disconnected
from trainsnap_controller.manager.guarded import ASK_AT_ONCE, KEEP_SECONDS, Guarded

pytestmark = pytest.mark.anyio

JSON = dict[str, Any]


@dataclass
class Reply:
    status: JSON

    def json(self) -> JSON:
        return {"status": self.status}


@dataclass
class Server:
    """Knows one token, and lets its user see ``/metrics``."""

    down: bool = False
    allowed: bool = True
    asked: list[JSON] = field(default_factory=list)
    go: asyncio.Event | None = None

    async def request(self, method: str, path: str, *, body: JSON, **options: Any) -> Reply:
        if self.down:
            raise Disconnected("connection refused")
        self.asked.append(body["spec"])
        if self.go is not None:
            await self.go.wait()
        if body["kind"] == "TokenReview":
            user = {"username": "scraper", "groups": ["g"], "extra": {"k": ["v"]}}
            return Reply({"authenticated": body["spec"]["token"] == "good", "user": user})
        return Reply({"allowed": self.allowed})


def guarded(server: Server, clock: FakeClock) -> Guarded:
    async def metrics(_request: Any) -> PlainTextResponse:
        return PlainTextResponse("numbers")

    return Guarded(Starlette(routes=[Route("/metrics", metrics)]), server, clock=clock)


async def status(app: Guarded, authorization: str | None, host: str = "localhost", path: str = "/metrics") -> int:
    sent: list[Any] = []
    headers = [(b"host", host.encode())]
    if authorization is not None:
        headers.append((b"authorization", authorization.encode()))
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "root_path": "",
        "query_string": b"",
        "headers": headers,
        "server": ("localhost", 80),
        "scheme": "http",
    }

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return int(sent[0]["status"])


@pytest.mark.parametrize(
    ("authorization", "server", "want"),
    [
        pytest.param("Bearer good", Server(), 200, id="allowed"),
        pytest.param("bearer good", Server(), 200, id="the scheme's case does not matter"),
        pytest.param("Bearer good", Server(allowed=False), 403, id="not allowed"),
        pytest.param("Bearer bad", Server(), 401, id="an unknown token"),
        pytest.param(None, Server(), 401, id="no token"),
        pytest.param("Bearer ", Server(), 401, id="an empty token"),
        pytest.param("Basic good", Server(), 401, id="another scheme"),
        pytest.param("Bearer good", Server(down=True), 503, id="nobody to ask"),
    ],
)
async def test_who_gets_what(authorization: str | None, server: Server, want: int) -> None:
    assert await status(guarded(server, FakeClock()), authorization) == want


async def test_the_right_is_asked_for_the_tokens_user() -> None:
    server = Server()
    await status(guarded(server, FakeClock()), "Bearer good")
    assert server.asked[1] == {
        "user": "scraper",
        "uid": "",
        "groups": ["g"],
        "extra": {"k": ["v"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


async def test_the_host_header_does_not_change_which_right_is_asked_for() -> None:
    server = Server()
    await status(guarded(server, FakeClock()), "Bearer good", host="localhost/healthz?")
    assert server.asked[1]["nonResourceAttributes"]["path"] == "/metrics"


async def test_an_answer_counts_for_a_while_and_then_is_asked_again() -> None:
    server, clock = Server(), FakeClock()
    app = guarded(server, clock)
    for _ in range(3):
        assert await status(app, "Bearer good") == 200
    assert len(server.asked) == 2
    server.allowed = False
    clock.tick(KEEP_SECONDS + 1)
    assert await status(app, "Bearer good") == 403


async def test_strangers_with_many_tokens_ask_the_api_server_little() -> None:
    server = Server(go=asyncio.Event())
    app = guarded(server, FakeClock())
    async with asyncio.TaskGroup() as tasks:
        first = [tasks.create_task(status(app, f"Bearer {number}")) for number in range(ASK_AT_ONCE)]
        await asyncio.sleep(0)
        assert [await status(app, f"Bearer more {number}") for number in range(50)] == [503] * 50
        assert len(server.asked) == ASK_AT_ONCE
        assert server.go is not None
        server.go.set()
    assert [task.result() for task in first] == [401] * ASK_AT_ONCE
    assert await status(app, "Bearer good") == 200


async def test_nobody_is_asked_about_other_paths() -> None:
    server = Server()
    assert await status(guarded(server, FakeClock()), "Bearer good", path="/x") == 404
    assert not server.asked


async def test_a_failure_is_not_kept() -> None:
    server = Server(down=True)
    app = guarded(server, FakeClock())
    assert await status(app, "Bearer good") == 503
    server.down = False
    assert await status(app, "Bearer good") == 200
