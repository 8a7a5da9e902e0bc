# SPDX-License-Identifier: Apache-2.0
"""Watches against a server that misbehaves. The first words of each test name the fault that kr8s 0.20.15 has there."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest

from support.loopback import Waits, pair
from support.misbehaving import event, hang_up, reply, reset, silence, status, stream, text, torn
from trainsnap_api.transport import (
    ApiError,
    Disconnected,
    Expired,
    Forbidden,
    InternalError,
    KindNotServed,
    MalformedResponse,
    ResponseTooLarge,
    TimedOut,
    Transport,
    TransportClosed,
    TransportSettings,
    Unavailable,
    WatchEvent,
)
from trainsnap_api.transport.resources import TRAIN_JOB

pytestmark = pytest.mark.anyio

GONE = {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410, "message": "too old resource version"}


def job(name: str = "a", **annotations: str) -> dict[str, Any]:
    return {"kind": "TrainJob", "metadata": {"name": name, "resourceVersion": "7", "annotations": annotations}}


async def collect(transport: Transport, got: list[WatchEvent] | None = None, **arguments: Any) -> list[WatchEvent]:
    got = [] if got is None else got
    async with aclosing(transport.watch(TRAIN_JOB, **{"resource_version": "5", **arguments})) as events:
        async for item in events:
            got.append(item)
    return got


async def test_bookmarks_are_asked_for_and_delivered() -> None:
    async with pair() as (server, transport):
        bookmark = {"kind": "TrainJob", "metadata": {"resourceVersion": "99"}}
        server.then(stream(event("BOOKMARK", bookmark)))
        got = await collect(transport, label_selector="a=b,c", field_selector="metadata.name=x", namespace="ns")
        assert [(item.type, item.json()) for item in got] == [("BOOKMARK", bookmark)]
        (seen,) = server.seen
        assert seen.path == "/apis/trainer.kubeflow.org/v1alpha1/namespaces/ns/trainjobs"
        assert seen.query == {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": "5",
            "timeoutSeconds": "435",  # 290 s and half of it again, by the fixed random of the test
            "labelSelector": "a=b,c",
            "fieldSelector": "metadata.name=x",
        }


async def test_events_keep_the_bytes_of_the_object() -> None:
    async with pair() as (server, transport):
        server.then(stream(b'{"type":"ADDED","object":{"b": 1,  "a":1.0, "c":"\\u0041"}}\n'))
        assert [item.raw for item in await collect(transport)] == [b'{"b": 1,  "a":1.0, "c":"\\u0041"}']


async def test_a_watch_that_the_server_ends_ends_normally_without_another_request() -> None:
    async with pair() as (server, transport):
        server.then(stream(event("ADDED", job())))
        assert len(await collect(transport)) == 1
        assert len(server.seen) == 1


async def test_410_in_the_stream_is_raised_once_and_never_repeated_by_itself() -> None:
    async with pair() as (server, transport):
        server.then(stream(event("ADDED", job()), event("ERROR", GONE)))
        got: list[WatchEvent] = []
        with pytest.raises(Expired, match="too old resource version"):
            await collect(transport, got)
        assert [item.type for item in got] == ["ADDED"]
        await asyncio.sleep(0.05)
        assert len(server.seen) == 1


@pytest.mark.parametrize("reason", ["Expired", "Gone", ""])
async def test_410_as_http_status_is_the_same_error(reason: str) -> None:
    async with pair() as (server, transport):
        server.then(status(410, reason))
        with pytest.raises(Expired):
            await collect(transport)
        assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("body", "want", "want_status", "want_text"),
    [
        pytest.param(
            {"kind": "Status", "code": 500, "reason": "InternalError", "message": "etcdserver: leader changed"},
            InternalError, 500, "leader changed", id="etcd trouble",
        ),
        pytest.param({"kind": "Status", "code": 503, "message": "shutting down"}, Unavailable, 503, "shutting",
                     id="no reason"),
        pytest.param({"kind": "Status", "code": 403, "reason": "Forbidden"}, Forbidden, 403, "403", id="no message"),
        pytest.param({"kind": "Status"}, InternalError, 500, "500", id="empty Status"),
        pytest.param("what?", InternalError, 500, "without a Status", id="no Status at all"),
    ],
)  # fmt: skip
async def test_other_error_events_are_typed(body: Any, want: type[ApiError], want_status: int, want_text: str) -> None:
    async with pair() as (server, transport):
        server.then(stream(event("ERROR", body)))
        with pytest.raises(want, match=want_text) as caught:
            await collect(transport)
        assert caught.value.status == want_status


@pytest.mark.parametrize("end", [pytest.param(reset, id="reset"), pytest.param(hang_up, id="closed")])
async def test_a_broken_stream_is_a_disconnect_after_the_events_before_it(end: Any) -> None:
    async with pair() as (server, transport):
        gate = asyncio.Event()

        async def later(exchange: Any) -> None:
            await gate.wait()
            await end(exchange)

        server.then(stream(event("ADDED", job()), end=later))
        got: list[WatchEvent] = []
        with pytest.raises(Disconnected):
            async with aclosing(transport.watch(TRAIN_JOB, resource_version="5")) as events:
                async for item in events:
                    got.append(item)
                    gate.set()
        assert [item.type for item in got] == ["ADDED"]


async def test_a_stream_that_ends_inside_an_event_is_a_disconnect() -> None:
    async with pair() as (server, transport):
        server.then(stream(event("ADDED", job()), b'{"type":"MODIFIED","object":{"metad'))
        got: list[WatchEvent] = []
        with pytest.raises(Disconnected, match="inside an event"):
            await collect(transport, got)
        assert len(got) == 1


async def test_a_blackholed_watch_is_given_up_a_little_after_its_time() -> None:
    async with pair(watch_grace=-0.7) as (server, transport):
        server.then(stream(event("ADDED", job()), end=silence))
        got: list[WatchEvent] = []
        with pytest.raises(TimedOut):
            await collect(transport, got, timeout_seconds=1)
        assert len(got) == 1


async def test_a_watch_that_is_never_answered_is_given_up_too() -> None:
    async with pair(request_timeout=0.1) as (server, transport):
        server.then(silence)
        with pytest.raises(TimedOut):
            await collect(transport)


async def test_unicode_line_ends_inside_strings_do_not_split_events() -> None:
    nasty = "a\x85b\u2028c\u2029d\x0b\x0c\x1c\re"
    async with pair() as (server, transport):
        server.then(stream(event("ADDED", job(note=nasty)), event("DELETED", job())))
        got = await collect(transport)
        assert [item.type for item in got] == ["ADDED", "DELETED"]
        assert got[0].json()["metadata"]["annotations"]["note"] == nasty


@pytest.mark.parametrize("size", [1, 7, 4096])
async def test_long_lines_and_characters_cut_by_chunks_are_put_together(size: int) -> None:
    value = "ж🙂" * (20 if size == 1 else 40_000)
    data = event("ADDED", job(note=value)) + event("MODIFIED", job("b"))
    async with pair() as (server, transport):
        step = size if len(data) // size < 5000 else len(data) // 5000
        server.then(stream(*(data[i : i + step] for i in range(0, len(data), step))))
        got = await collect(transport)
        assert got[0].json()["metadata"]["annotations"]["note"] == value
        assert [item.type for item in got] == ["ADDED", "MODIFIED"]


async def test_an_endless_line_is_refused_before_it_fills_the_memory() -> None:
    async with pair(max_event_bytes=10_000) as (server, transport):
        server.then(stream(b'{"type":"ADDED","object":"' + b"x" * 20_000, end=silence))
        with pytest.raises(ResponseTooLarge, match="10000 bytes"):
            await collect(transport)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"<html>502</html>\n", id="not JSON"),
        pytest.param(b'{"type":"ADDED"}\n', id="no object"),
        pytest.param(b'{"type":3,"object":{}}\n', id="type is no string"),
        pytest.param(b'{"type":"SURPRISE","object":{}}\n', id="unknown type"),
        pytest.param(b'{"type":"ADDED","object":{"a":"\xff\xfe"}} x\n', id="bytes after the event"),
    ],
)
async def test_an_unreadable_event_is_a_malformed_response(line: bytes) -> None:
    async with pair() as (server, transport):
        server.then(stream(line, end=silence))
        with pytest.raises(MalformedResponse):
            await collect(transport)


async def test_empty_lines_are_skipped() -> None:
    async with pair() as (server, transport):
        server.then(stream(b"\n\r\n" + event("ADDED", job()) + b"\n"))
        assert len(await collect(transport)) == 1


async def test_leaving_a_watch_closes_its_connection_and_no_other() -> None:
    async with pair() as (server, transport):
        first, second = (stream(event("ADDED", job(name)), end=silence) for name in "ab")
        server.then(first, second)
        async with aclosing(transport.watch(TRAIN_JOB, resource_version="1")) as kept:
            await anext(kept)
            async with aclosing(transport.watch(TRAIN_JOB, resource_version="1")) as left:
                await anext(left)
                assert server.open_connections == 2
            await server.wait_for_open(1)
        assert server.connections == 2


async def test_cancelling_a_watch_closes_its_connection() -> None:
    async with pair() as (server, transport):
        server.then(stream(event("ADDED", job()), end=silence))
        opened = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            task = group.create_task(collect(transport, on_open=opened.set))
            await opened.wait()
            task.cancel()
        await server.wait_for_open(0)


async def test_closing_the_transport_ends_running_watches() -> None:
    async with pair() as (server, transport):
        server.then(stream(event("ADDED", job()), end=silence))
        got: list[WatchEvent] = []
        with pytest.raises(Disconnected):
            async with asyncio.timeout(5), aclosing(transport.watch(TRAIN_JOB, resource_version="5")) as events:
                async for item in events:
                    got.append(item)
                    await transport.aclose()
        with pytest.raises(TransportClosed) as caught:
            await transport.get(TRAIN_JOB, "a", "b")
        assert not caught.value.sent


async def test_a_forbidden_request_leaves_a_running_watch_alone() -> None:
    path = "/apis/trainer.kubeflow.org/v1alpha1/trainjobs"
    async with pair() as (server, transport):
        gate = asyncio.Event()

        async def rest(exchange: Any) -> None:
            await gate.wait()
            await exchange.chunk(event("MODIFIED", job()))
            await exchange.end()

        server.on(path, stream(event("ADDED", job()), end=rest))
        server.then(status(403, "Forbidden", "trainjobs is forbidden"))
        async with aclosing(transport.watch(TRAIN_JOB, resource_version="5")) as events:
            assert (await anext(events)).type == "ADDED"
            for _ in range(3):
                with pytest.raises(Forbidden):
                    await transport.get(TRAIN_JOB, "a", "b")
            gate.set()
            assert [item.type async for item in events] == ["MODIFIED"]
        assert len(server.seen) == 4, "each forbidden request was sent once"


async def test_a_kind_that_is_not_served_says_so() -> None:
    async with pair() as (server, transport):
        server.then(text(404, "404 page not found\n"))
        with pytest.raises(KindNotServed, match="does not serve /apis/trainer"):
            await collect(transport)


async def test_a_refused_watch_is_not_repeated_by_itself() -> None:
    waits = Waits()
    async with pair(sleep=waits) as (server, transport):
        server.then(status(429, "TooManyRequests", "later", ("Retry-After", "3")))
        with pytest.raises(ApiError) as caught:
            await collect(transport)
        assert caught.value.retry_after == 3
        assert (len(server.seen), waits) == (1, [])


async def test_the_status_of_a_refused_watch_is_read_whole() -> None:
    async def slowly(exchange: Any) -> None:
        body = json.dumps({**GONE, "message": "too old " * 50}).encode()
        await exchange.head(410, ("Content-Length", str(len(body))))
        for start in range(0, len(body), 100):
            await exchange.write(body[start : start + 100])
            await asyncio.sleep(0.005)

    async with pair() as (server, transport):
        server.then(slowly)
        with pytest.raises(Expired) as caught:
            await collect(transport)
        assert caught.value.message == "too old " * 50


async def test_a_refused_watch_whose_status_never_comes_is_given_up() -> None:
    async with pair(request_timeout=0.1) as (server, transport):
        server.then(torn(b"", 100, silence, code=410), torn(b"{", 100, code=410))
        with pytest.raises(TimedOut):
            await collect(transport)
        with pytest.raises(Disconnected):
            await collect(transport)


async def test_an_accepted_watch_is_announced_before_its_first_event() -> None:
    async with pair() as (server, transport):
        opened = asyncio.Event()
        server.then(stream(end=silence))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(collect(transport, on_open=opened.set))
            async with asyncio.timeout(5):
                await opened.wait()
            task.cancel()


async def test_watches_do_not_use_up_the_connections_of_requests() -> None:
    path = "/apis/trainer.kubeflow.org/v1alpha1/trainjobs"
    async with pair(max_concurrent_requests=1, max_watches=20) as (server, transport):
        server.on(path, stream(event("ADDED", job()), end=silence))
        server.then(reply(job()))
        watches = [transport.watch(TRAIN_JOB, resource_version="1") for _ in range(20)]
        for item in watches:
            await anext(item)
        assert await transport.get(TRAIN_JOB, "a", "b") == job()
        for item in watches:
            await item.aclose()


async def test_too_many_watches_are_told_instead_of_waiting_for_ever() -> None:
    async with pair(max_watches=1, connect_timeout=0.1) as (server, transport):
        server.then(stream(event("ADDED", job()), end=silence))
        async with aclosing(transport.watch(TRAIN_JOB, resource_version="1")) as first:
            await anext(first)
            with pytest.raises(TimedOut) as caught:
                await collect(transport)
            assert not caught.value.sent


async def test_watches_are_spread_over_time_by_default() -> None:
    numbers = iter([0.0, 0.99])
    async with pair(connect={"random": lambda: next(numbers)}) as (server, transport):
        server.then(stream())
        await collect(transport)
        await collect(transport)
        base = TransportSettings().watch_timeout
        assert [int(seen.query["timeoutSeconds"]) for seen in server.seen] == [int(base), int(base * 1.99)]
