# SPDX-License-Identifier: Apache-2.0
"""The client's watch against a server that misbehaves: nothing is lost or repeated without the event saying so."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from support.loopback import Waits, pair
from support.misbehaving import Behaviour, event, hang_up, reply, reset, silence, status, stream, text
from trainsnap_api.client import (
    AsyncClient,
    Disconnected,
    Expired,
    Forbidden,
    KindNotServed,
    Listing,
    NotUnderstood,
    Unauthorized,
)
from trainsnap_api.models import TrainJob

pytestmark = pytest.mark.anyio

GONE = {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410, "message": "too old resource version"}
JSON = dict[str, Any]


def job(name: str, version: int, *, uid: str | None = None, **spec: Any) -> JSON:
    metadata = {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    kind = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}
    return {**kind, "metadata": metadata, **({"spec": spec} if spec else {})}


def listed(version: int, *items: JSON) -> Behaviour:
    return reply({"kind": "TrainJobList", "metadata": {"resourceVersion": str(version)}, "items": [*items]})


def bookmark(version: int) -> bytes:
    return event("BOOKMARK", {"kind": "TrainJob", "metadata": {"resourceVersion": str(version)}})


async def watched(
    *behaviours: Behaviour, want: int, since: Any = None, clock: Any = None, **options: Any
) -> tuple[list[str], list[str]]:
    """The first ``want`` events as text, and the requests: ``list`` or the version that was watched from."""
    async with pair() as (server, transport):
        server.then(*behaviours, silence)
        more = {"clock": clock} if clock else {}
        client = AsyncClient(transport, namespace="ns", sleep=Waits(), random=lambda: 0.5, **more)
        got = []
        async with asyncio.timeout(20), aclosing(client.jobs.watch(since=since, **options)) as events:
            async for seen in events:
                metadata = seen.object.metadata
                assert metadata is not None
                got.append(f"{seen.type} {metadata.name} {metadata.resource_version} {seen.origin}")
                if len(got) == want:
                    break
        return got, [seen.query.get("resourceVersion", "list") for seen in server.seen]


BREAKS: dict[str, list[Behaviour]] = {
    "the server ends it": [stream()],
    "the connection is reset": [stream(event("MODIFIED", job("a", 6)), end=reset)],
    "the stream stops inside an event": [stream(event("MODIFIED", job("a", 6))[:40], end=hang_up)],
    "no answer": [hang_up, reset],
    "503 without more": [status(503, "ServiceUnavailable")],
    "429 with Retry-After": [status(429, "TooManyRequests", "later", ("Retry-After", "1"))],
    "an error of the storage": [stream(event("ERROR", {"code": 500, "reason": "InternalError", "message": "etcd"}))],
    "html of a proxy": [text(502, "<html>bad gateway</html>")],
}


@pytest.mark.parametrize("name", BREAKS)
async def test_it_goes_on_from_the_last_version_that_was_seen(name: str) -> None:
    seen = BREAKS[name]
    got, asked = await watched(
        listed(5, job("a", 3)), *seen, stream(event("MODIFIED", job("a", 6)), event("ADDED", job("b", 7))), want=3
    )
    assert got == ["ADDED a 3 list", "MODIFIED a 6 watch", "ADDED b 7 watch"]
    assert asked.count("list") == 1
    assert asked[-1] == ("6" if name == "the connection is reset" else "5")


async def test_bookmarks_move_the_version_and_are_not_told() -> None:
    got, asked = await watched(listed(5), stream(bookmark(50), end=reset), stream(event("ADDED", job("b", 51))), want=1)
    assert got == ["ADDED b 51 watch"]
    assert asked == ["list", "5", "50"]


@pytest.mark.parametrize(
    "gone", [status(410, "Expired"), stream(event("ERROR", GONE))], ids=["as an answer", "in the stream"]
)
async def test_lost_history_becomes_the_difference(gone: Behaviour) -> None:
    got, asked = await watched(
        listed(5, job("same", 1), job("changed", 2), job("deleted", 3), job("replaced", 4)),
        gone,
        listed(90, job("same", 1), job("changed", 80), job("replaced", 81, uid="other"), job("new", 82)),
        stream(event("MODIFIED", job("new", 91))),
        want=4 + 5 + 1,
    )
    assert got[4:] == [
        "DELETED deleted 3 relist",
        "DELETED replaced 4 relist",
        "MODIFIED changed 80 relist",
        "ADDED replaced 81 relist",
        "ADDED new 82 relist",
        "MODIFIED new 91 watch",
    ]
    assert asked == ["list", "5", "list", "90"]


async def test_what_is_told_twice_is_passed_on_once() -> None:
    got, _ = await watched(
        listed(5, job("a", 3)),
        stream(event("ADDED", job("a", 3)), event("MODIFIED", job("a", 6)), event("MODIFIED", job("a", 6)), end=reset),
        stream(event("ADDED", job("a", 6)), event("DELETED", job("a", 7)), event("DELETED", job("a", 7))),
        stream(event("ADDED", job("a", 9, uid="new"))),
        want=4,
    )
    assert got == ["ADDED a 3 list", "MODIFIED a 6 watch", "DELETED a 7 watch", "ADDED a 9 watch"]


async def test_a_successor_without_the_end_of_its_predecessor() -> None:
    got, _ = await watched(listed(5, job("a", 3)), stream(event("MODIFIED", job("a", 9, uid="new"))), want=3)
    assert got == ["ADDED a 3 list", "DELETED a 3 relist", "ADDED a 9 watch"]


async def test_since_a_listing_there_is_no_list_and_410_is_healed() -> None:
    known = Listing([TrainJob.model_validate(job("a", 3))], "5")
    got, asked = await watched(stream(event("ERROR", GONE)), listed(9), since=known, want=1)
    assert got == ["DELETED a 3 relist"]
    assert asked == ["5", "list"]


async def test_since_a_bare_version_410_is_the_callers() -> None:
    got, asked = await watched(stream(event("MODIFIED", job("a", 6))), since="5", want=1)
    assert (got, asked) == (["MODIFIED a 6 watch"], ["5"])
    with pytest.raises(Expired, match="too old resource version"):
        await watched(stream(event("ERROR", GONE)), since="5", want=1)


async def test_a_server_that_never_serves_the_watch_is_listed_again() -> None:
    broken = [stream(event("ERROR", {"code": 500, "reason": "InternalError", "message": "x"}))] * 4
    got, asked = await watched(listed(5, job("a", 3)), *broken, listed(8, job("a", 7)), want=2)
    assert got == ["ADDED a 3 list", "MODIFIED a 7 relist"]
    assert asked == ["list", "5", "5", "5", "5", "list"]


@pytest.mark.parametrize(
    ("answer", "want"),
    [
        (status(403, "Forbidden", "not you"), Forbidden),
        (status(401, "Unauthorized", "who?"), Unauthorized),
        (text(404, "404 page not found"), KindNotServed),
        (listed(5, {**job("a", 3), "spec": {"suspend": "yes"}}), NotUnderstood),
    ],
)
async def test_what_waiting_cannot_heal_is_raised(answer: Behaviour, want: type[Exception]) -> None:
    with pytest.raises(want):
        await watched(answer, answer, want=1)


async def test_an_object_that_is_not_understood_names_its_field() -> None:
    with pytest.raises(NotUnderstood, match=r"TrainJob: spec\.suspend: Input should be a valid boolean"):
        await watched(listed(5), stream(event("ADDED", {**job("a", 6), "spec": {"suspend": "yes"}})), want=1)


async def test_it_gives_up_after_the_time_that_is_given() -> None:
    now = iter(range(0, 100_000, 10))
    with pytest.raises(Disconnected):
        await watched(listed(5), *[hang_up] * 10, want=1, clock=lambda: float(next(now)), give_up_after=25)


async def test_it_ends_normally_when_its_time_is_over() -> None:
    async with pair() as (server, transport):
        server.then(listed(5, job("a", 3)), silence)
        client = AsyncClient(transport, namespace="ns")
        got = [seen.type async for seen in client.jobs.watch(timeout=0.2, label_selector="a=b")]
        assert got == ["ADDED"]
        assert server.seen[-1].query["timeoutSeconds"] == "1"
        assert server.seen[-1].query["labelSelector"] == "a=b"
        await server.wait_for_open(1)
