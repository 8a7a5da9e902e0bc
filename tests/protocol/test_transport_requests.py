# SPDX-License-Identifier: Apache-2.0
"""Requests against a server that misbehaves: typed errors, retries, verbs and their parameters, torn answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from support.loopback import Waits, connected, pair
from support.misbehaving import Behaviour, Server, hang_up, reply, reset, serving, silence, status, text, torn
from trainsnap_api.transport import (
    ApiError,
    BadRequest,
    Cause,
    Conflict,
    Disconnected,
    Forbidden,
    InternalError,
    Invalid,
    InvalidName,
    KindNotServed,
    MalformedResponse,
    NotFound,
    ResponseTooLarge,
    RetryPolicy,
    TimedOut,
    TooManyRequests,
    Transport,
    TransportSettings,
    Unavailable,
)
from trainsnap_api.transport.resources import CLUSTER_ROLE, CLUSTER_TRAINING_RUNTIME, CONFIG_MAP, JOB_SET, TRAIN_JOB

pytestmark = pytest.mark.anyio

JOB: dict[str, Any] = {"metadata": {"name": "a", "namespace": "ns"}, "spec": {"x": 1}}
TYPED = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", **JOB}
JOBS = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/ns/trainjobs"

Do = Callable[[Transport], Awaitable[Any]]


def get(transport: Transport) -> Awaitable[Any]:
    return transport.get(TRAIN_JOB, "a", "ns")


def create(transport: Transport) -> Awaitable[Any]:
    return transport.create(TRAIN_JOB, JOB)


def apply(transport: Transport) -> Awaitable[Any]:
    return transport.apply(TRAIN_JOB, JOB, field_manager="trainer")


def merge(transport: Transport) -> Awaitable[Any]:
    return transport.merge_patch(TRAIN_JOB, "a", "ns", {"spec": None})


def json_patch(transport: Transport) -> Awaitable[Any]:
    return transport.json_patch(TRAIN_JOB, "a", "ns", [{"op": "add", "path": "/x/-", "value": 1}])


def replace(transport: Transport) -> Awaitable[Any]:
    return transport.replace(TRAIN_JOB, JOB)


def delete(transport: Transport) -> Awaitable[Any]:
    return transport.delete(TRAIN_JOB, "a", "ns")


def delete_this_one(transport: Transport) -> Awaitable[Any]:
    return transport.delete(TRAIN_JOB, "a", "ns", uid="u")


# -- what is sent -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("do", "method", "path", "query", "content_type", "body"),
    [
        pytest.param(get, "GET", JOBS + "/a", {}, None, None, id="get is one request by name, not a list"),
        pytest.param(
            create, "POST", JOBS, {"fieldValidation": "Strict"}, "application/json", TYPED, id="create is strict"
        ),
        pytest.param(
            lambda t: t.create(TRAIN_JOB, JOB, field_validation=None, field_manager="m", dry_run=True),
            "POST", JOBS, {"fieldManager": "m", "dryRun": "All"}, "application/json", TYPED, id="create, dry",
        ),
        pytest.param(
            apply, "PATCH", JOBS + "/a", {"fieldManager": "trainer", "force": "true", "fieldValidation": "Strict"},
            "application/apply-patch+yaml", TYPED, id="apply",
        ),
        pytest.param(
            lambda t: t.apply(TRAIN_JOB, JOB, field_manager="m", force=False, subresource="status", dry_run=True),
            "PATCH", JOBS + "/a/status",
            {"fieldManager": "m", "force": "false", "fieldValidation": "Strict", "dryRun": "All"},
            "application/apply-patch+yaml", TYPED, id="apply of the status, not forced",
        ),
        pytest.param(
            merge, "PATCH", JOBS + "/a", {}, "application/merge-patch+json", {"spec": None}, id="merge patch keeps null"
        ),
        pytest.param(
            lambda t: t.merge_patch(TRAIN_JOB, "a", "ns", {"status": {}}, subresource="status", field_manager="m"),
            "PATCH", JOBS + "/a/status", {"fieldManager": "m"}, "application/merge-patch+json", {"status": {}},
            id="merge patch of the status",
        ),
        pytest.param(
            json_patch, "PATCH", JOBS + "/a", {}, "application/json-patch+json",
            [{"op": "add", "path": "/x/-", "value": 1}], id="json patch",
        ),
        pytest.param(replace, "PUT", JOBS + "/a", {}, "application/json", TYPED, id="replace"),
        pytest.param(
            lambda t: t.replace(TRAIN_JOB, JOB, subresource="status"), "PUT", JOBS + "/a/status", {},
            "application/json", TYPED, id="replace of the status",
        ),
        pytest.param(
            lambda t: t.delete(TRAIN_JOB, "a", "ns", uid="u", resource_version="7", propagation="Foreground",
                               grace_period=0),
            "DELETE", JOBS + "/a", {}, "application/json",
            {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u", "resourceVersion": "7"},
             "propagationPolicy": "Foreground", "gracePeriodSeconds": 0},
            id="delete with preconditions and a grace period of zero",
        ),
        pytest.param(
            lambda t: t.get(CLUSTER_TRAINING_RUNTIME, "torch", "ignored"), "GET",
            "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes/torch", {}, None, None, id="cluster-scoped",
        ),
        pytest.param(
            lambda t: t.get(CLUSTER_ROLE, "system:node x?y#z", None), "GET",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node%20x%3Fy%23z", {}, None, None,
            id="names are escaped",
        ),
        pytest.param(
            lambda t: t.get(CONFIG_MAP, "é", "ns"), "GET", "/api/v1/namespaces/ns/configmaps/%C3%A9", {}, None, None,
            id="names are UTF-8",
        ),
    ],
)  # fmt: skip
async def test_what_is_sent(do: Do, method: str, path: str, query: Any, content_type: str | None, body: Any) -> None:
    async with pair(user_agent="trainsnap/9") as (server, transport):
        server.then(reply({"kind": "TrainJob"}))
        await do(transport)
        (seen,) = server.seen
        assert (seen.method, seen.path, seen.query) == (method, path, query)
        assert seen.headers.get("content-type") == content_type
        assert (seen.json() if seen.body else None) == body
        assert seen.headers["user-agent"] == "trainsnap/9"
        assert seen.headers["accept"] == "application/json"
        assert seen.headers["accept-encoding"] == "identity"
        assert seen.headers["authorization"] == "Bearer secret"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../../secrets/x", "a%2fb", "/"])
async def test_a_name_that_is_no_path_segment_is_refused_before_sending(name: str) -> None:
    async with pair() as (server, transport):
        for attempt in (
            transport.get(CONFIG_MAP, name, "ns"),
            transport.get(CONFIG_MAP, "x", name),
            transport.delete(CONFIG_MAP, name, "ns"),
            transport.apply(CONFIG_MAP, {"metadata": {"name": name, "namespace": "ns"}}, field_manager="m"),
        ):
            with pytest.raises((InvalidName, ValueError)):
                await attempt
        assert not server.seen


@pytest.mark.parametrize("path", ["api/v1", "/a b", "/a?x=1", "/a#b", "/a/../b", "//a\r\nX: y", "http://x/y", "/é", ""])
async def test_a_path_that_is_not_one_is_refused(path: str) -> None:
    async with pair() as (server, transport):
        with pytest.raises(ValueError, match="not an absolute"):
            await transport.request("GET", path)
        assert not server.seen


@pytest.mark.parametrize("verb", ["get", "delete", "merge_patch", "json_patch"])
async def test_without_a_name_no_request_for_one_object_reaches_all_of_them(verb: str) -> None:
    rest: dict[str, tuple[Any, ...]] = {"merge_patch": ({},), "json_patch": ([],)}
    async with pair() as (server, transport):
        with pytest.raises(TypeError, match="the name of a TrainJob is needed: a text, not NoneType"):
            await getattr(transport, verb)(TRAIN_JOB, None, "ns", *rest.get(verb, ()))
        assert server.seen == []


async def test_namespaces_are_not_guessed() -> None:
    async with pair() as (_, transport):
        with pytest.raises(ValueError, match="namespace"):
            await transport.create(TRAIN_JOB, {"metadata": {"name": "a"}})
        with pytest.raises(ValueError, match="namespace"):
            await transport.get(TRAIN_JOB, "a")
        with pytest.raises(ValueError, match="name"):
            await transport.apply(TRAIN_JOB, {"metadata": {"namespace": "ns"}}, field_manager="m")


async def test_a_server_behind_a_path_prefix() -> None:
    async with serving() as server:
        server.then(reply({"gitVersion": "v1"}))
        server.url += "/k8s/clusters/c-1/"
        async with connected(server) as transport:
            assert await transport.server_version() == {"gitVersion": "v1"}
        assert server.seen[0].path == "/k8s/clusters/c-1/version"


async def test_bodies_over_a_mebibyte_arrive_whole() -> None:
    async with pair() as (server, transport):
        server.then(reply({}))
        big = {"metadata": {"name": "a", "namespace": "ns"}, "data": {"x": "y" * 2_500_000}}
        await transport.create(CONFIG_MAP, big)
        assert server.seen[0].json()["data"] == big["data"]


# -- what comes back --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "want", "reason", "message"),
    [
        pytest.param(status(404, "NotFound", 'trainjobs "a" not found', details={"name": "a"}), NotFound, "NotFound",
                     'trainjobs "a" not found', id="missing object"),
        pytest.param(text(404, "404 page not found\n"), KindNotServed, "NotFound",
                     f"the server does not serve {JOBS}/a", id="missing kind"),
        pytest.param(status(400, "BadRequest", None), BadRequest, "BadRequest",
                     f"the server answered 400 BadRequest to GET {JOBS}/a", id="4xx without message"),
        pytest.param(reply({}, status=409), Conflict, "Conflict", f"the server answered 409 to GET {JOBS}/a",
                     id="empty object"),
        pytest.param(reply([1], status=403), Forbidden, "Forbidden",
                     f"the server answered 403 to GET {JOBS}/a: [1]", id="JSON that is no object"),
        pytest.param(status(500, "InternalError", "etcdserver: no leader"), InternalError, "InternalError",
                     "etcdserver: no leader", id="5xx keeps its Status"),
        pytest.param(text(500, "<html>\n <h1>oops\x00</h1>\n"), InternalError, "InternalError",
                     f"the server answered 500 to GET {JOBS}/a: <html> <h1>oops</h1>", id="HTML of a proxy"),
        pytest.param(text(302, "", ("Location", "/elsewhere")), ApiError, "",
                     f"the server answered 302 to GET {JOBS}/a", id="a redirect is not followed"),
        pytest.param(text(418, b"\xff\xfe"), ApiError, "", f"the server answered 418 to GET {JOBS}/a: \ufffd\ufffd",
                     id="bytes that are no text"),
    ],
)  # fmt: skip
async def test_error_answers(answer: Behaviour, want: type[ApiError], reason: str, message: str) -> None:
    async with pair(retry=RetryPolicy(attempts=1)) as (server, transport):
        server.then(answer)
        with pytest.raises(ApiError) as caught:
            await get(transport)
        assert type(caught.value) is want
        assert (caught.value.reason, str(caught.value)) == (reason, message)
        assert (caught.value.method, caught.value.path) == ("GET", JOBS + "/a")


async def test_causes_details_and_retry_after_are_kept() -> None:
    details = {
        "kind": "TrainJob",
        "causes": [{"field": "spec.x", "reason": "FieldValueInvalid", "message": "too big"}, "junk"],
        "retryAfterSeconds": 7,
    }
    async with pair() as (server, transport):
        server.then(status(422, "Invalid", "is invalid", details=details))
        with pytest.raises(Invalid) as caught:
            await create(transport)
        assert caught.value.causes == (Cause("spec.x", "FieldValueInvalid", "too big"),)
        assert caught.value.retry_after == 7
        assert caught.value.details == details


async def test_warnings_are_handed_on() -> None:
    async with pair() as (server, transport):
        server.then(reply({}, ("Warning", '299 - "unknown field \\"spec.y\\""'), ("Warning", "299 - odd")))
        response = await transport.request("POST", JOBS, body={})
        assert response.warnings == ('unknown field "spec.y"', "299 - odd")
        assert response.status == 200


async def test_warnings_are_logged_the_first_time_that_they_come(caplog: pytest.LogCaptureFixture) -> None:
    old, new = ("Warning", '299 - "v1 is old"'), ("Warning", '299 - "v2 is new"')
    async with pair() as (server, transport):
        server.then(reply({}, old), reply({}, old, new))
        await transport.request("POST", JOBS, body={})
        await transport.request("POST", JOBS, body={})
    assert [record.message for record in caplog.records] == [
        "the server warns: v1 is old",
        "the server warns: v2 is new",
    ]


async def test_whoever_asks_hears_every_warning_and_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[str] = []

    def hear(text: str) -> None:
        heard.append(text)
        raise ValueError("cannot")

    async with pair(on_warning=hear) as (server, transport):
        server.then(*[reply({}, ("Warning", '299 - "v1 is old"'))] * 2)
        for _ in range(2):
            assert (await transport.request("POST", JOBS, body={})).status == 200
    assert heard == ["v1 is old"] * 2
    assert [record.message for record in caplog.records] == [
        "the hook for warnings failed; the request is not affected"
    ] * 2


NESTED = '{"a":' * 9000 + "1" + "}" * 9000


@pytest.mark.parametrize(
    "body",
    ["", "{", "[1]", '"x"', "nope", '{"a":1}x', b'{"a":"\xff"}', pytest.param(NESTED, id="nested too deeply")],
)
async def test_an_answer_that_is_no_json_object_is_malformed(body: str | bytes) -> None:
    async with pair() as (server, transport):
        server.then(text(200, body))
        with pytest.raises(MalformedResponse, match=f"GET {JOBS}/a"):
            await get(transport)
        assert len(server.seen) == 1


@pytest.mark.parametrize("announced", [True, False])
async def test_an_answer_over_the_limit_is_refused(announced: bool) -> None:
    async def chunked(exchange: Any) -> None:
        await exchange.head(200, ("Transfer-Encoding", "chunked"))
        await exchange.chunk(b"x" * 3000)
        await exchange.gone()

    async with pair(max_response_bytes=2000) as (server, transport):
        server.then(torn(b"", 3000, silence) if announced else chunked, reply({"ok": 1}))
        with pytest.raises(ResponseTooLarge, match="2000 bytes"):
            await get(transport)
        assert await get(transport) == {"ok": 1}


@pytest.mark.parametrize(
    ("answer", "want"),
    [
        pytest.param(reset, "the connection broke: Connection reset by peer", id="reset"),
        pytest.param(hang_up, "the connection broke: closed without an answer", id="closed"),
        pytest.param(torn(b"{", 9), "the connection broke: closed in the middle of the answer", id="torn"),
        pytest.param(torn(b"{", 9, reset), "the connection broke: ", id="torn and reset"),
        pytest.param(
            text(200, "not compressed at all", ("Content-Encoding", "gzip")),
            "the connection broke: ",
            id="broken compression",
        ),
    ],
)
async def test_a_broken_connection_is_said_in_words(answer: Behaviour, want: str) -> None:
    async with pair(retry=RetryPolicy(attempts=1)) as (server, transport):
        server.then(answer)
        with pytest.raises(Disconnected) as caught:
            await get(transport)
        assert str(caught.value).startswith(f"GET {JOBS}/a: {want}")
        assert "\n" not in str(caught.value)


async def test_a_host_that_does_not_exist_is_said_in_words() -> None:
    config = Server("http://no-such-host.invalid:1").kubeconfig(token="t")
    async with await Transport.connect(
        kubeconfig=config, environ={}, settings=TransportSettings(retry=RetryPolicy(attempts=1))
    ) as transport:
        with pytest.raises(Disconnected, match=r"cannot connect to http://no-such-host.invalid:1: ") as caught:
            await get(transport)
    assert not caught.value.sent


# -- retries ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("do", [get, create, apply, merge, json_patch, replace, delete])
@pytest.mark.parametrize("code", [429, 503])
async def test_retry_after_is_honoured_for_every_verb(do: Do, code: int) -> None:
    waits = Waits()
    async with pair(sleep=waits) as (server, transport):
        server.then(status(code, "", "later", ("Retry-After", "2")), reply({"ok": 1}))
        await do(transport)
        assert len(server.seen) == 2
        assert [*waits] == [pytest.approx(2.125)]


@pytest.mark.parametrize(
    ("do", "answer", "want"),
    [
        pytest.param(get, reset, 2, id="get, reset"),
        pytest.param(get, hang_up, 2, id="get, closed"),
        pytest.param(get, torn(b'{"a"', 100), 2, id="get, torn body"),
        pytest.param(get, torn(b'{"a"', 100, reset), 2, id="get, body reset"),
        pytest.param(get, status(503), 2, id="get, 503"),
        pytest.param(get, status(504, "Timeout"), 2, id="get, 504"),
        pytest.param(get, status(500, "InternalError"), 1, id="get, 500"),
        pytest.param(apply, reset, 2, id="apply, reset"),
        pytest.param(merge, reset, 2, id="merge patch, reset"),
        pytest.param(delete_this_one, reset, 2, id="delete with uid, reset"),
        pytest.param(delete, reset, 1, id="delete, reset"),
        pytest.param(create, reset, 1, id="create, reset"),
        pytest.param(create, hang_up, 1, id="create, closed"),
        pytest.param(create, torn(b'{"a"', 100), 1, id="create, torn body"),
        pytest.param(create, status(503), 1, id="create, 503 without Retry-After"),
        pytest.param(create, status(504, "Timeout"), 1, id="create, 504"),
        pytest.param(replace, reset, 1, id="replace, reset"),
        pytest.param(json_patch, reset, 1, id="json patch, reset"),
        pytest.param(lambda t: t.create(TRAIN_JOB, JOB, dry_run=True), reset, 2, id="create as a dry run, reset"),
        pytest.param(lambda t: t.replace(TRAIN_JOB, JOB, dry_run=True), reset, 2, id="replace as a dry run, reset"),
        pytest.param(
            lambda t: t.json_patch(TRAIN_JOB, "a", "ns", [], dry_run=True), status(503), 2, id="json patch, dry, 503"
        ),
        pytest.param(lambda t: t.delete(TRAIN_JOB, "a", "ns", dry_run=True), reset, 2, id="delete, dry, reset"),
    ],
)
async def test_which_failures_are_repeated(do: Do, answer: Behaviour, want: int) -> None:
    async with pair(sleep=Waits()) as (server, transport):
        server.then(answer, reply({"ok": 1}))
        if want == 2:
            await do(transport)
        else:
            with pytest.raises((Disconnected, ApiError)) as caught:
                await do(transport)
            if isinstance(caught.value, Disconnected):
                assert caught.value.sent, "the server may have acted on it"
        assert len(server.seen) == want


@pytest.mark.parametrize("do", [replace, delete, create])
async def test_a_kept_connection_that_breaks_is_not_retried_by_the_http_library(do: Do) -> None:
    async with pair(sleep=Waits()) as (server, transport):
        server.then(reply({}), reset)
        await get(transport)
        with pytest.raises(Disconnected):
            await do(transport)
        assert len(server.seen) == 2
        assert {seen.connection for seen in server.seen} == {1}


async def test_an_unreachable_server_is_retried_for_every_verb_and_then_said() -> None:
    waits = Waits()
    async with serving() as server:
        pass
    async with connected(server, sleep=waits, retry=RetryPolicy(attempts=3)) as transport:
        with pytest.raises(Disconnected, match=f"cannot connect to {server.url}: Connection refused") as caught:
            await create(transport)
        assert not caught.value.sent
        assert len(waits) == 2


async def test_retries_are_bounded_in_number_and_back_off() -> None:
    waits = Waits()
    policy = RetryPolicy(attempts=4, base=1, cap=3)
    async with pair(sleep=waits, retry=policy) as (server, transport):
        server.then(status(503))
        with pytest.raises(Unavailable):
            await get(transport)
        assert len(server.seen) == 4
        assert waits == [0.5, 1.0, 1.5]  # half of 1, 2, and 3 (the cap), by the fixed random of the test


async def test_a_wait_that_is_too_long_is_given_to_the_caller() -> None:
    waits = Waits()
    async with pair(sleep=waits) as (server, transport):
        server.then(status(429, "TooManyRequests", "later", ("Retry-After", "3600")))
        with pytest.raises(TooManyRequests) as caught:
            await get(transport)
        assert caught.value.retry_after == 3600
        assert (len(server.seen), waits) == (1, [])


async def test_no_retries_when_none_are_wanted() -> None:
    async with pair(sleep=Waits()) as (server, transport):
        server.then(status(503, "", "later", ("Retry-After", "1")))
        with pytest.raises(Unavailable):
            await transport.request("GET", JOBS, retry=False)
        assert len(server.seen) == 1


# -- time -------------------------------------------------------------------------------------------------------------


async def test_silence_times_out_per_attempt() -> None:
    async with pair(request_timeout=0.1, sleep=Waits(), retry=RetryPolicy(attempts=2)) as (server, transport):
        server.then(silence)
        with pytest.raises(TimedOut):
            await get(transport)
        assert len(server.seen) == 2


async def test_slow_bytes_time_out_as_a_whole() -> None:
    async def slow(exchange: Any) -> None:
        await exchange.head(200, ("Content-Length", "1000"))
        for _ in range(1000):
            await exchange.write(b" ")
            await asyncio.sleep(0.02)

    async with pair(request_timeout=0.2, retry=RetryPolicy(attempts=1)) as (server, transport):
        server.then(slow)
        async with asyncio.timeout(5):
            with pytest.raises(TimedOut):
                await get(transport)


async def test_slow_bytes_within_the_time_are_fine() -> None:
    async def slow(exchange: Any) -> None:
        body = b'{"a":"\xc3\xa9"}'
        await exchange.head(200, ("Content-Length", str(len(body))))
        for i in range(len(body)):
            await exchange.write(body[i : i + 1])
            await asyncio.sleep(0.002)

    async with pair() as (server, transport):
        server.then(slow)
        assert await get(transport) == {"a": "é"}


async def test_the_callers_timeout_covers_retries_and_waits() -> None:
    async with pair(retry=RetryPolicy(base=60, cap=60, max_wait=1000)) as (server, transport):
        server.then(status(503))
        async with asyncio.timeout(5):
            with pytest.raises(TimedOut, match=r"within 0.1 s"):
                await transport.request("GET", JOBS, timeout=0.1)
        assert len(server.seen) == 1


async def test_a_callers_own_cancellation_is_not_taken_for_a_timeout() -> None:
    async with pair() as (server, transport):
        server.then(silence)
        task = asyncio.ensure_future(transport.request("GET", JOBS, timeout=30))
        await server.wait_for(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


# -- helpers and metrics ----------------------------------------------------------------------------------------------


async def test_served_asks_the_group_version() -> None:
    path = "/apis/jobset.x-k8s.io/v1alpha2"
    async with pair() as (server, transport):
        listed = {"resources": [{"name": "jobsets"}, {"name": "jobsets/status"}]}
        server.on(path, reply(listed), reply({"resources": None}), text(404, "404 page not found"))
        assert [await transport.served(JOB_SET) for _ in range(3)] == [True, False, False]


async def test_every_attempt_is_reported_with_a_template() -> None:
    seen: list[tuple[str, str, int]] = []

    def hook(method: str, path: str, code: int, seconds: float) -> None:
        assert seconds >= 0
        seen.append((method, path, code))
        raise RuntimeError("a faulty hook changes nothing")

    async with pair(on_request=hook, sleep=Waits()) as (server, transport):
        server.then(reset, status(503), reply({}), status(404, "NotFound"))
        await get(transport)
        with pytest.raises(NotFound):
            await transport.merge_patch(TRAIN_JOB, "a", "ns", {}, subresource="status")
    template = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/{namespace}/trainjobs/{name}"
    assert seen == [
        ("GET", template, 0),
        ("GET", template, 503),
        ("GET", template, 200),
        ("PATCH", template + "/status", 404),
    ]


async def test_the_client_side_limit_delays_requests() -> None:
    waits = Waits()
    async with pair(sleep=waits, qps=10, burst=2, connect={"clock": lambda: 0.0}) as (server, transport):
        server.then(reply({}))
        for _ in range(4):
            await get(transport)
        assert [*waits] == [pytest.approx(0.1), pytest.approx(0.2)]
