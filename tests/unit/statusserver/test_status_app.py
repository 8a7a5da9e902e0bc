# SPDX-License-Identifier: Apache-2.0
"""The status server's answers, in the order in which it decides: the whole table, with a scripted API server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from trainsnap_api.transport import (
    ApiError,
    BadRequest,
    Conflict,
    Disconnected,
    Invalid,
    InvalidName,
    NotFound,
    Resource,
)
from trainsnap_controller.statusserver import app as module
from trainsnap_controller.statusserver.app import AT_ONCE, LARGEST_BODY, StatusApp
from trainsnap_controller.statusserver.issuer import NotKnown

pytestmark = pytest.mark.anyio

JSON = dict[str, Any]
PATH = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/alpha/status"
NOW = "2026-05-06T07:08:09Z"
REPORT = {
    "progressPercentage": 42,
    "estimatedRemainingSeconds": 120,
    "metrics": [{"name": "loss", "value": "0.1"}],
    "lastUpdatedTime": NOW,
}


class Api:
    """Keeps what is applied, or raises."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.applied: list[JSON] = []

    async def apply(
        self, resource: Resource, obj: JSON, *, field_manager: str, force: bool, subresource: str | None = None
    ) -> JSON:
        if self.error is not None:
            raise self.error
        assert (resource.kind, field_manager, force, subresource) == ("TrainJob", "trainer-status", True, "status")
        self.applied.append(obj)
        return obj


class Everybody:
    """Lets everybody in, unless told otherwise, and remembers who came."""

    def __init__(self, answer: bool | Exception = True) -> None:
        self.answer = answer
        self.asked: list[tuple[str, str, str]] = []

    async def allows(self, header: str, namespace: str, name: str) -> bool:
        self.asked.append((header, namespace, name))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def call(app: StatusApp, content: Any, path: str = PATH, method: str = "POST", **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="https://status") as client:
        raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        return await client.request(method, path, content=content, headers=raw)


def body(report: Any) -> bytes:
    return json.dumps({"trainerStatus": report}).encode()


def failure(code: int, reason: str, message: str) -> JSON:
    return {"status": "Failure", "message": message, "reason": reason, "code": code}


async def test_a_report_is_written_and_sent_back() -> None:
    api, everybody = Api(), Everybody()
    got = await call(StatusApp(api, everybody), body({**REPORT, "other": 1}), Authorization="Bearer t")
    assert (got.status_code, got.headers["content-type"]) == (200, "application/json")
    assert got.json() == {"trainerStatus": REPORT}
    assert api.applied == [{"metadata": {"namespace": "team", "name": "alpha"}, "status": {"trainerStatus": REPORT}}], (
        "no more than this: what is left out of the next report goes away"
    )
    assert everybody.asked == [("Bearer t", "team", "alpha")]


@pytest.mark.parametrize("content", [b"{}", b"null", b'{"trainerStatus": null}'])
async def test_nothing_reported_is_nothing_written(content: bytes) -> None:
    api = Api()
    got = await call(StatusApp(api, Everybody()), content)
    assert (got.status_code, got.json(), api.applied) == (200, {}, [])


async def test_a_report_without_time_is_left_to_the_schema() -> None:
    api = Api()
    got = await call(StatusApp(api, Everybody()), body({}))
    assert got.json() == {"trainerStatus": {"lastUpdatedTime": None}}
    assert api.applied[0]["status"] == {"trainerStatus": {"lastUpdatedTime": None}}


NOT_FOUND = failure(404, "NotFound", "Not found")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", PATH),
        ("PUT", PATH),
        ("PATCH", PATH),
        ("POST", PATH + "/"),
        ("POST", PATH.removesuffix("/status")),
        ("POST", PATH.replace("v1alpha1", "v1")),
        ("POST", PATH.replace("alpha/", "/")),
        ("POST", PATH.replace("alpha/", "a%2Fb/")),
        ("POST", PATH.replace("trainer.kubeflow", "trainerxkubeflow")),
        ("POST", "/healthz"),
        ("POST", "/"),
    ],
)
async def test_there_is_one_path(method: str, path: str) -> None:
    everybody = Everybody()
    got = await call(StatusApp(Api(), everybody), b"{}", path, method)
    assert (got.status_code, got.json()) == (404, NOT_FOUND)
    assert everybody.asked == []


async def slowly(*parts: bytes) -> AsyncIterator[bytes]:
    for item in parts:
        yield item


async def test_size_comes_before_everything() -> None:
    everybody = Everybody(False)
    for path in (PATH, "/elsewhere"):
        got = await call(StatusApp(Api(), everybody), b" " * (LARGEST_BODY + 1), path)
        assert (got.status_code, got.json()) == (413, failure(413, "RequestEntityTooLarge", "Payload too large"))
    assert everybody.asked == []
    got = await call(StatusApp(Api(), Everybody()), b"{}" + b" " * (LARGEST_BODY - 2))
    assert got.status_code == 200


@pytest.mark.parametrize("declared", ["9" * 5000, "65537"])
async def test_a_declared_size_is_believed(declared: str) -> None:
    got = await call(StatusApp(Api(), Everybody()), slowly(b"{}"), **{"Content-Length": declared})
    assert got.status_code == 413


async def test_a_declared_size_that_is_no_number_counts_for_nothing() -> None:
    got = await call(StatusApp(Api(), Everybody()), slowly(b"{}"), **{"Content-Length": "\u00b2"})
    assert got.status_code == 200


async def test_authorization_comes_before_decoding() -> None:
    got = await call(StatusApp(Api(), Everybody(False)), b"rubbish")
    assert (got.status_code, got.json()) == (403, failure(403, "Forbidden", "Forbidden"))


INTERNAL = failure(500, "InternalError", "Internal error")


@pytest.mark.parametrize("error", [NotKnown("no keys yet"), RuntimeError("broken")], ids=["no keys", "a fault of ours"])
async def test_an_authorizer_that_cannot_decide(error: Exception) -> None:
    with capture_logs() as logs:
        got = await call(StatusApp(Api(), Everybody(error)), body(REPORT), Authorization="Bearer secret")
    assert (got.status_code, got.json()) == (500, INTERNAL)
    assert "secret" not in repr(logs)


@pytest.mark.parametrize(
    "content", [b"rubbish", b"", body({"progressPercentage": "a"}), slowly(b"{}", b" " * LARGEST_BODY, b" ")]
)
async def test_what_is_no_report(content: Any) -> None:
    got = await call(StatusApp(Api(), Everybody()), content)
    assert (got.status_code, got.json()) == (422, failure(422, "Invalid", "Invalid payload"))


@pytest.mark.parametrize(
    ("error", "want"),
    [
        (Invalid("TrainJob alpha is invalid"), failure(422, "Invalid", "TrainJob alpha is invalid")),
        (BadRequest("strict decoding error"), failure(422, "Invalid", "strict decoding error")),
        (NotFound("trainjobs alpha not found"), failure(404, "NotFound", "Train job not found")),
        (Conflict("changed meanwhile"), INTERNAL),
        (ApiError("boom", status=503), INTERNAL),
        (Disconnected("gone"), INTERNAL),
        (RuntimeError("broken"), INTERNAL),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
async def test_what_the_api_server_says(error: Exception, want: JSON) -> None:
    got = await call(StatusApp(Api(error), Everybody()), body(REPORT))
    assert (got.status_code, got.json()) == (want["code"], want)


async def test_names_that_no_object_can_have() -> None:
    got = await call(StatusApp(Api(InvalidName("..")), Everybody()), body(REPORT))
    assert got.json() == failure(404, "NotFound", "Train job not found")


async def test_an_api_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(Api):
        async def apply(self, *args: Any, **options: Any) -> JSON:
            await asyncio.Event().wait()
            return {}

    monkeypatch.setattr(module, "WRITE_SECONDS", 0.01)
    got = await call(StatusApp(Silent(), Everybody()), body(REPORT))
    assert (got.status_code, got.json()) == (500, INTERNAL)


async def test_a_body_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    monkeypatch.setattr(module, "READ_SECONDS", 0.01)
    got = await call(StatusApp(Api(), Everybody()), never())
    assert (got.status_code, got.json()["message"]) == (422, "Invalid payload")


class Slow(Api):
    """Writes once it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()
        self.come = asyncio.Semaphore(0)

    async def apply(self, resource: Resource, obj: JSON, **options: Any) -> JSON:
        self.come.release()
        await self.go.wait()
        return await super().apply(resource, obj, **options)


async def test_a_job_that_never_pauses_does_not_keep_others_waiting() -> None:
    api = Slow()
    app = StatusApp(api, Everybody())
    other = PATH.replace("/alpha/", "/beta/")
    async with asyncio.TaskGroup() as tasks:
        first = [tasks.create_task(call(app, body(REPORT))) for _ in range(AT_ONCE)]
        for _ in range(AT_ONCE):
            await api.come.acquire()
        refused = await call(app, body(REPORT))
        first.append(tasks.create_task(call(app, body(REPORT), other)))
        await api.come.acquire()
        api.go.set()
    assert refused.json() == failure(429, "TooManyRequests", "Reports of this train job are still being written")
    assert [task.result().status_code for task in first] == [200] * (AT_ONCE + 1)
    assert (await call(app, body(REPORT))).status_code == 200, "afterwards it may go on"
