# SPDX-License-Identifier: Apache-2.0
"""The webhook server over HTTP: limits, time, failures inside, and what is counted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from trainsnap_controller.observe.metrics import Metrics
from trainsnap_controller.runtime.registry import standard
from trainsnap_controller.webhooks import paths
from trainsnap_controller.webhooks.app import LARGE, LARGE_BODIES, LARGEST_BODY, MARGIN_SECONDS, WebhookApp, handlers
from trainsnap_controller.webhooks.review import Answer, Review

pytestmark = pytest.mark.anyio

JSON = dict[str, Any]
PATH = paths.VALIDATE_TRAIN_JOB
Handler = Callable[[Review], Awaitable[Answer]]
HEADERS = {"content-type": "application/json"}


def body(kind: str = "TrainJob", operation: str = "CREATE", **obj: Any) -> bytes:
    request: JSON = {
        "uid": "u-1",
        "kind": {"group": "trainer.kubeflow.org", "version": "v1alpha1", "kind": kind},
        "operation": operation,
        "object": {"metadata": {"name": "a", "namespace": "team"}, **obj},
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


async def approve(question: Review) -> Answer:
    return Answer(warnings=[question.obj["metadata"]["name"]])


class Served:
    """The server with one handler, and its metrics."""

    def __init__(self, handler: Handler) -> None:
        self.metrics = Metrics()
        app = WebhookApp({PATH: handler}, self.metrics.webhooks([PATH]))
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self.client = httpx.AsyncClient(transport=transport, base_url="https://webhook")

    async def post(self, content: Any, path: str = PATH, **headers: str) -> httpx.Response:
        async with self.client:
            return await self.client.post(path, content=content, headers={**HEADERS, **headers})

    def counted(self, code: str) -> float:
        sample = "controller_runtime_webhook_requests_total"
        return self.metrics.registry.get_sample_value(sample, {"webhook": PATH, "code": code}) or 0.0

    def value(self, name: str) -> float:
        return self.metrics.registry.get_sample_value(name, {"webhook": PATH}) or 0.0


async def test_an_answer_and_what_is_counted() -> None:
    served = Served(approve)
    got = await served.post(body())
    assert (got.status_code, got.headers["content-type"]) == (200, "application/json")
    assert got.json()["response"] == {"uid": "u-1", "allowed": True, "warnings": ["a"]}
    assert served.counted("200") == 1
    assert served.value("controller_runtime_webhook_latency_seconds_count") == 1
    assert served.value("controller_runtime_webhook_requests_in_flight") == 0
    assert served.metrics.webhooks_reached() == [PATH]


async def chunks(size: int) -> AsyncIterator[bytes]:
    for _ in range(size // 65536 + 1):
        yield b" " * 65536


REFUSED = [
    pytest.param(b"{", {}, 400, "the body is not JSON", id="not JSON"),
    pytest.param(body(), {"content-type": "text/yaml"}, 400, "content-type must be application/json", id="YAML"),
    pytest.param(body(), {"content-type": ""}, 400, "not missing", id="no content type"),
    pytest.param(body("Pod"), {}, 400, "only TrainJob is reviewed here, not 'Pod'", id="another kind"),
    pytest.param(b" " * (LARGEST_BODY + 1), {}, 413, f"must not be larger than {LARGEST_BODY} bytes", id="too large"),
    pytest.param(chunks(LARGEST_BODY), {}, 413, "must not be larger than", id="too large, in chunks"),
]


@pytest.mark.parametrize(("content", "headers", "status", "want"), REFUSED)
async def test_what_is_refused_in_one_line(content: Any, headers: dict[str, str], status: int, want: str) -> None:
    served = Served(approve)
    got = await served.post(content, **headers)
    assert got.status_code == status
    assert want in got.text
    assert got.text.count("\n") == 1
    assert served.counted(str(status)) == 1


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON"])
async def test_other_ways_to_write_the_content_type(content_type: str) -> None:
    assert (await Served(approve).post(body(), **{"content-type": content_type})).status_code == 200


async def test_the_largest_body_is_read() -> None:
    whole = body(note="x")
    padded = whole + b" " * (LARGEST_BODY - len(whole))
    assert (await Served(approve).post(padded)).status_code == 200


async def test_few_large_bodies_are_read_at_a_time_and_small_ones_meanwhile() -> None:
    served, go, full, read = Served(approve), asyncio.Event(), asyncio.Event(), 0

    async def large() -> AsyncIterator[bytes]:
        nonlocal read
        yield b" " * (LARGE + 1)
        read += 1
        if read == LARGE_BODIES:
            full.set()
        await go.wait()
        yield body()

    async with served.client as client, asyncio.timeout(10):
        async with asyncio.TaskGroup() as tasks:
            sent = [
                tasks.create_task(client.post(PATH, content=large(), headers=HEADERS)) for _ in range(LARGE_BODIES + 2)
            ]
            await full.wait()
            assert (await client.post(PATH, content=body(), headers=HEADERS)).status_code == 200
            assert read == LARGE_BODIES
            go.set()
        assert [task.result().status_code for task in sent] == [200] * len(sent)


async def test_only_post_and_only_known_paths() -> None:
    served = Served(approve)
    async with served.client as client:
        assert (await client.get(PATH)).status_code == 405
        assert (await client.post("/validate-v1-pod", content=body())).status_code == 404


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
async def test_other_operations_are_none_of_its_business(operation: str) -> None:
    async def never(question: Review) -> Answer:
        raise AssertionError

    assert (await Served(never).post(body(operation=operation))).json()["response"]["allowed"] is True


async def test_what_breaks_inside_is_an_answer_and_a_log_line() -> None:
    async def broken(question: Review) -> Answer:
        raise KeyError("secret detail")

    with capture_logs() as logs:
        got = (await Served(broken).post(body())).json()["response"]
    assert got["status"]["code"] == 500
    assert got["status"]["message"] == "TrainJob 'a' could not be checked: an error in trainsnap, see its log"
    assert [line["event"] for line in logs] == ["the webhook failed"]


async def test_the_answer_comes_before_the_api_server_gives_up() -> None:
    async def slow(question: Review) -> Answer:
        await asyncio.Event().wait()
        raise AssertionError

    loop = asyncio.get_running_loop()
    began = loop.time()
    got = (await Served(slow).post(body(), f"{PATH}?timeout=0.6s")).json()["response"]
    assert loop.time() - began < 0.6
    assert got["status"]["code"] == 503
    assert got["status"]["message"] == "TrainJob 'a' could not be checked in time, try again"


async def test_a_body_that_does_not_arrive() -> None:
    async def stuck() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    served = Served(approve)
    got = await served.post(stuck(), f"{PATH}?timeout={2 * MARGIN_SECONDS / 10}s")
    assert (got.status_code, got.text) == (408, "the body did not arrive in time\n")


SHAPELESS: list[JSON] = [
    {"metadata": None},
    {"metadata": []},
    {"spec": "x"},
    {"spec": {"runtimeRef": "x"}},
    {"spec": {"runtimeRef": {"name": "a", "kind": 7}}},
    {"spec": {"runtimePatches": [1]}},
    {"spec": {"template": "x"}},
    {"spec": {"template": {"spec": {"replicatedJobs": "x"}}}},
    {"spec": {"template": {"spec": {"replicatedJobs": [{"template": {"metadata": {"labels": 1}}}]}}}},
]


@pytest.mark.parametrize("obj", SHAPELESS, ids=repr)
@pytest.mark.parametrize(("path", "kind"), list(paths.KINDS.items()), ids=lambda value: str(value)[:24])
async def test_an_object_of_any_shape_gets_an_answer(path: str, kind: str, obj: JSON) -> None:
    """The API server sends none of these: it checks the schema first, or afterwards where the defaulter is asked."""

    class Nothing:
        async def get(self, *_: Any) -> JSON:
            return {"metadata": {}}

    answering = handlers(Nothing(), standard(), opaque_kinds={})
    app = WebhookApp(answering, Metrics().webhooks(answering))
    with capture_logs():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://webhook") as client:
            got = await client.post(path, content=body(kind, **obj), headers=HEADERS)
    assert got.status_code == 200
    assert got.json()["response"]["uid"] == "u-1"


def test_there_is_a_handler_for_every_path() -> None:
    class Never:
        async def get(self, *_: Any) -> JSON:
            raise AssertionError

    assert handlers(Never(), standard(), opaque_kinds={}).keys() == paths.KINDS.keys()
