# SPDX-License-Identifier: Apache-2.0
"""The reflector against servers that misbehave: nothing is lost, nothing is repeated, nothing is hammered."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from support.clock import FakeClock, settle
from support.scripted import STAY, ScriptedSource, bookmark, event, obj, page
from trainsnap_api.transport.errors import Disconnected, Expired, Forbidden, InternalError, KindNotServed, Unauthorized
from trainsnap_api.transport.resources import JOB_SET
from trainsnap_controller.cache import CacheEvent, Informer
from trainsnap_controller.observe.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio


class Watcher:
    """An informer under test and what its handler saw."""

    def __init__(self, source: ScriptedSource, clock: FakeClock) -> None:
        self.events: list[CacheEvent] = []
        self.clock = clock
        self.source = source
        self.informer = Informer(
            source,
            JOB_SET,
            clock=clock,
            backoff=Backoff(uniform=lambda _, high: high),
            missing_backoff=Backoff(1.0, 10.0, uniform=lambda _, high: high),
        )
        self.informer.add_handler(self.events.append)

    @property
    def seen(self) -> list[str]:
        """Events as ``type name@version``; for updates ``@old>new``."""
        return [
            f"{e.type} {e.key.name}@"
            + ">".join(entry.resource_version for entry in (e.old, e.new) if entry is not None)
            for e in self.events
        ]

    @property
    def names(self) -> list[str]:
        return sorted(entry.name for entry in self.informer.store)


@asynccontextmanager
async def following(lists: list[Any], watches: list[list[Any]] | None = None) -> AsyncIterator[Watcher]:
    watcher = Watcher(ScriptedSource(lists, watches or []), FakeClock())
    task = asyncio.create_task(watcher.informer.run())
    await settle()
    try:
        yield watcher
    finally:
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert watcher.source.opened == watcher.source.closed, "a watch was left open"


async def test_objects_of_every_page_are_reported_once_and_then_the_watch_starts_at_the_lists_version() -> None:
    async with following([[page(10, obj("a", 3)), page(10, obj("b", 7))]]) as w:
        assert w.informer.synced.is_set()
        assert w.seen == ["added a@3", "added b@7"]
        assert w.source.watched == ["10"]


async def test_changes_are_reported_with_the_old_and_the_new_state() -> None:
    async with following([page(10, obj("a", 3))]) as w:
        w.source.push(event("MODIFIED", obj("a", 11, spec={"n": 1})), event("ADDED", obj("b", 12)))
        w.source.push(event("DELETED", obj("a", 13, spec={"n": 1}, status={"last": True})))
        await settle()
        assert w.seen == ["added a@3", "updated a@3>11", "added b@12", "deleted a@13"]
        assert w.events[-1].entry.object()["status"] == {"last": True}
        assert w.names == ["b"]


async def test_a_watch_that_ends_normally_goes_on_from_the_last_version() -> None:
    async with following([page(10)], [[event("ADDED", obj("a", 11))], [event("ADDED", obj("b", 12))]]) as w:
        await w.clock.advance(10)
        assert w.source.watched == ["10", "11", "12"]
        assert w.source.listed == 1
        assert w.seen == ["added a@11", "added b@12"]


async def test_a_watch_that_lived_a_while_is_reopened_at_once() -> None:
    clock_moves: list[Any] = [lambda: None]
    async with following([page(10)], [[lambda: clock_moves[0]()]]) as w:
        assert w.clock.slept == [0.8]
    w = Watcher(ScriptedSource([page(10)]), FakeClock())
    w.source.watches = [[lambda: w.clock.tick(6)], [STAY]]
    task = asyncio.create_task(w.informer.run())
    await settle()
    assert w.source.watched == ["10", "10"]
    assert w.clock.slept == []
    task.cancel()
    await asyncio.wait([task])


async def test_a_server_that_ends_every_watch_at_once_is_not_hammered() -> None:
    async with following([page(10)], [[] for _ in range(1000)]) as w:
        await w.clock.advance(300)
        assert w.source.opened <= 17
        assert w.clock.slept == sorted(w.clock.slept)
        assert max(w.clock.slept) == 30
        assert w.source.listed == 1


async def test_a_bookmark_moves_the_version_and_reaches_no_handler() -> None:
    async with following([page(10, obj("a", 3))], [[bookmark(500)], [STAY]]) as w:
        await w.clock.advance(1)
        assert w.source.watched == ["10", "500"]
        assert w.seen == ["added a@3"]


async def test_an_expired_version_means_a_new_list_and_the_difference_is_reported() -> None:
    lists = [
        page(10, obj("gone", 1, spec={"last": "state"}), obj("same", 2), obj("changed", 3), obj("replaced", 4)),
        page(90, obj("same", 2), obj("changed", 80), obj("replaced", 81, uid="another"), obj("new", 82)),
    ]
    async with following(lists, [[Expired("too old resource version")]]) as w:
        w.events.clear()
        await w.clock.advance(1)
        assert sorted(w.seen) == [
            "added new@82",
            "added replaced@81",
            "deleted gone@1",
            "deleted replaced@4",
            "updated changed@3>80",
        ]
        assert next(e for e in w.events if e.key.name == "gone").entry.object()["spec"] == {"last": "state"}
        assert w.seen.index("deleted replaced@4") < w.seen.index("added replaced@81")
        assert w.source.watched == ["10", "90"]


async def test_an_endless_410_is_answered_with_lists_that_get_rarer() -> None:
    async with following([page(10)], [[Expired("too old")] for _ in range(1000)]) as w:
        await w.clock.advance(300)
        assert w.source.listed <= 17
        assert max(w.clock.slept) == 30


async def test_an_expired_continue_token_starts_the_list_again_and_reports_nothing_of_the_half_list() -> None:
    async with following([[page(10, obj("a", 1)), Expired("continue expired")], page(20, obj("b", 2))]) as w:
        assert w.seen == []
        assert not w.informer.synced.is_set()
        await w.clock.advance(1)
        assert w.seen == ["added b@2"]


async def test_a_broken_connection_goes_on_from_the_last_version_without_a_list() -> None:
    script = [event("ADDED", obj("a", 11)), Disconnected("reset")]
    async with following([page(10)], [script, [Disconnected("refused")], [Disconnected("refused")], [STAY]]) as w:
        await w.clock.advance(10)
        assert w.source.watched == ["10", "11", "11", "11"]
        assert w.source.listed == 1
        assert w.clock.slept[:3] == [0.8, 1.6, 3.2]


async def test_a_server_that_cannot_serve_the_version_is_listed_after_a_few_tries() -> None:
    """After a restore of etcd the version lies in the future, which is answered with a timeout for ever."""
    errors: list[list[Any]] = [[InternalError("Too large resource version: 10, current: 5")] for _ in range(4)]
    async with following([page(10, obj("a", 9)), page(5, obj("a", 4))], [*errors, [STAY]]) as w:
        await w.clock.advance(60)
        assert w.source.watched == ["10", "10", "10", "10", "5"]
        assert w.seen == ["added a@9", "updated a@9>4"]


async def test_the_servers_wish_to_wait_longer_is_honoured() -> None:
    async with following([page(10)], [[InternalError("busy", retry_after=17.0)]]) as w:
        assert w.clock.slept == [17.0]


@pytest.mark.parametrize(
    ("error", "want"),
    [
        pytest.param(KindNotServed("404"), "is its CustomResourceDefinition installed?", id="kind not installed"),
        pytest.param(Forbidden("cannot list"), "refuses list and watch", id="no right to list"),
        pytest.param(Unauthorized("who are you"), "refuses list and watch", id="credentials refused"),
    ],
)
async def test_what_somebody_has_to_mend_is_said_once_and_retried_until_it_works(error: Exception, want: str) -> None:
    with capture_logs() as logs:
        async with following([error] * 30 + [page(10, obj("a", 1))]) as w:
            await w.clock.advance(120)
            assert not w.informer.synced.is_set()
            assert not w.informer.healthy
            assert w.informer.problem is not None
            assert want in w.informer.problem
            assert max(w.clock.slept) == 10
            await w.clock.advance(300)
            assert w.informer.synced.is_set()
            assert w.informer.healthy
            assert w.informer.problem is None
    assert [line["event"] for line in logs if want in line["event"]] != []
    assert len([line for line in logs if line["log_level"] == "warning"]) == 1
    assert all("\n" not in line["event"] for line in logs)


async def test_a_crd_that_is_removed_makes_the_kind_unhealthy_and_keeps_what_is_known() -> None:
    lists = [page(10, obj("a", 1)), *[KindNotServed("404")] * 40, page(20, obj("a", 1), obj("b", 15))]
    async with following(lists, [[KindNotServed("404")]]) as w:
        await w.clock.advance(100)
        assert not w.informer.healthy
        assert w.names == ["a"]
        await w.clock.advance(400)
        assert w.seen == ["added a@1", "added b@15"]


async def test_an_event_that_is_no_object_is_not_guessed_at_but_listed_anew() -> None:
    nonsense = event("MODIFIED", {"kind": "Status", "message": "what"})
    async with following([page(10), page(20, obj("a", 15))], [[nonsense]]) as w:
        await w.clock.advance(1)
        assert w.seen == ["added a@15"]
        assert w.source.watched == ["10", "20"]


async def test_an_event_that_comes_twice_is_reported_once() -> None:
    twice = event("MODIFIED", obj("a", 11))
    async with following([page(10, obj("a", 3))], [[twice, twice, event("DELETED", obj("x", 12)), STAY]]) as w:
        assert w.seen == ["added a@3", "updated a@3>11"]


async def test_health_is_lost_only_after_a_while_without_a_watch() -> None:
    async with following([page(10)], [[Disconnected("reset")] for _ in range(1000)]) as w:
        await w.clock.advance(50)
        assert w.informer.healthy
        await w.clock.advance(60)
        assert not w.informer.healthy
        assert w.informer.problem is not None
        assert "reset" in w.informer.problem


async def test_a_quiet_watch_is_healthy() -> None:
    async with following([page(10)]) as w:
        await w.clock.advance(1000)
        assert w.informer.healthy


async def test_a_handler_that_raises_stops_neither_the_watch_nor_the_others() -> None:
    source = ScriptedSource([page(10, obj("a", 1), obj("b", 2))])
    informer = Informer(source, JOB_SET, clock=FakeClock())
    seen: list[str] = []

    def broken(event: CacheEvent) -> None:
        raise ValueError("no")

    informer.add_handler(broken)
    informer.add_handler(lambda event: seen.append(event.key.name))
    task = asyncio.create_task(informer.run())
    with capture_logs() as logs:
        await settle()
    assert seen == ["a", "b"]
    assert [line["log_level"] for line in logs] == ["error", "error"]
    task.cancel()
    await asyncio.wait([task])


async def test_a_handler_that_comes_late_hears_of_everything_that_is_known() -> None:
    async with following([page(10, obj("a", 1))]) as w:
        late: list[str] = []
        w.informer.add_handler(lambda event: late.append(f"{event.type} {event.key.name}"))
        assert late == ["added a"]


async def test_a_resync_reports_every_object_without_a_change() -> None:
    source, clock = ScriptedSource([page(10, obj("a", 1))]), FakeClock()
    informer = Informer(source, JOB_SET, clock=clock, resync_seconds=1800)
    events: list[CacheEvent] = []
    informer.add_handler(events.append)
    task = asyncio.create_task(informer.run())
    await clock.advance(1801)
    assert [(e.type, e.old is e.new) for e in events] == [("added", False), ("updated", True)]
    assert source.listed == 1
    task.cancel()
    await asyncio.wait([task])
