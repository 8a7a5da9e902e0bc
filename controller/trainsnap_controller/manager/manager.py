# SPDX-License-Identifier: Apache-2.0
"""Starts the parts of the process in order, watches over them, and stops them in the opposite order.

Built and run by the command line. Parts come in groups: servers, caches, services, the leader election, controllers.
A group is started when the one before it is ready: nothing is reconciled before the caches are in sync and this
process leads. On the way down controllers finish what they have in hand, the lease is given back, events are sent,
watches are closed, and health is answered to the last.

A part that ends or breaks while it should run stops the process with exit code 1 and one line that names it; losing
the lease stops controllers at once, without letting them finish.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import structlog

from trainsnap_controller.manager.health import Health, HealthChecks
from trainsnap_controller.manager.leader import LeaseLostError

if TYPE_CHECKING:
    from trainsnap_controller.cache import Cache
    from trainsnap_controller.manager.http import HttpServer
    from trainsnap_controller.manager.leader import LeaderElector
    from trainsnap_controller.manager.worker import Controller

_log = structlog.stdlib.get_logger(__name__)


class ExpectedFailure(Exception):
    """Something around the process is not as it must be. The text says all that a user needs, in one line; where in
    the code it was noticed helps nobody."""


class Group(IntEnum):
    """Groups in the order in which they are started."""

    SERVERS = 0
    CACHES = 1
    SERVICES = 2
    """Parts that every replica runs and that may read the cache, such as the event recorder."""
    LEADER = 3
    CONTROLLERS = 4


@dataclass(slots=True)
class Part:
    """One runnable: what runs it, and optionally when it is ready and how it is asked to end."""

    name: str
    run: Callable[[], Awaitable[None]]
    ready: Callable[[], Awaitable[Any]] | None = None
    stop: Callable[[], Awaitable[None]] | None = None
    cancel: bool = False
    """Whether ``run`` has to be cancelled once ``stop`` has returned, rather than end by itself."""
    task: asyncio.Task[None] | None = field(default=None, init=False)


class Manager:
    """The parts of one process.

    Args:
        health: gets the manager's own checks: running, caches, leader election.
        stop_seconds: how long stopping may take altogether; what is not done by then is cancelled.
        on_ready: called once when the last group runs.
        signals: which signals stop the process; a second one stops it without waiting. SIGHUP, that the terminal was
            closed, never hurries, since a shell and the kernel both send it; under ``nohup`` it stays ignored.
    """

    def __init__(
        self,
        *,
        health: HealthChecks | None = None,
        stop_seconds: float = 3.5,
        on_ready: Callable[[], None] = lambda: None,
        signals: tuple[signal.Signals, ...] = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP),
    ) -> None:
        self.health = health or HealthChecks()
        self._parts: dict[Group, list[Part]] = {group: [] for group in Group}
        self._stop_seconds = stop_seconds
        self._on_ready = on_ready
        self._signals = signals
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._failed = False
        self._state = "starting"
        self.health.add_ready("running", lambda: Health(self._state != "stopping", self._state))

    def add(self, group: Group, part: Part) -> None:
        """Add a part of any sort to a group, before `run`."""
        self._parts[group].append(part)

    def add_server(self, server: HttpServer) -> None:
        self.add(Group.SERVERS, Part(server.name, server.run, server.wait_ready, server.stop))

    def add_cache(self, cache: Cache) -> None:
        """Run a cache; readiness needs all its kinds to be synced and followed."""
        self.add(Group.CACHES, Part("cache", cache.run, cache.wait_synced))

        def check() -> Health:
            problems = cache.problems()
            return Health(not problems, "; ".join(problems))

        self.health.add_ready("caches", check)

    def add_leader(self, elector: LeaderElector) -> None:
        """Run controllers only while this process holds the lease."""
        self.add(Group.LEADER, Part("leader election", elector.run, elector.elected.wait, elector.stop, True))
        self.health.add_ready("leader-election", elector.ready)
        self.health.add_live("leader-election", elector.live)

    def add_controller(self, controller: Controller) -> None:
        self.add(Group.CONTROLLERS, Part(controller.name, controller.run, stop=controller.stop))

    def stop(self) -> None:
        """Begin to stop, as a signal does. Again: do not wait for anything."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()

    async def run(self) -> int:
        """Run everything until a signal, `stop`, or a failure. Returns the exit code: 0, or 1 after a failure."""
        with self._signal_handlers():
            async with asyncio.TaskGroup() as tasks:
                for group in Group:
                    if not await self._start(group, tasks):
                        break
                else:
                    self._state = "running"
                    self._on_ready()
                    await self._stopping.wait()
                await self._stop_all(tasks)
        return 1 if self._failed else 0

    async def _start(self, group: Group, tasks: asyncio.TaskGroup) -> bool:
        """Start a group and wait until it is ready. False if the process is to stop instead."""
        for part in self._parts[group]:
            part.task = tasks.create_task(self._supervise(part), name=part.name)
        for part in self._parts[group]:
            if part.ready is not None and not await self._race(tasks, part.ready, self._stopping):
                return False
        return not self._stopping.is_set()

    async def _supervise(self, part: Part) -> None:
        """Run a part. Its end is a failure, unless the process is stopping."""
        try:
            await part.run()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and not task.cancelling():
                self._fail(f"{part.name} ended because something that it waited for was cancelled")
            raise
        except LeaseLostError as error:
            # First of all: everything that might still write ends here and now.
            self._cancel(Group.CONTROLLERS)
            self._fail(str(error))
        except BaseException as error:
            self._fail(f"{part.name} failed: {_innermost(error)}", error)
        else:
            if not self._stopping.is_set():
                self._fail(f"{part.name} ended though it should run for as long as the process")

    def _fail(self, text: str, error: BaseException | None = None) -> None:
        if isinstance(error, ExpectedFailure):
            text, error = str(error), None
        if self._stopping.is_set() and not self._failed:
            # Breaking on the way down does not change that the process was asked to stop.
            _log.warning(text, exc_info=error)
            return
        _log.error(f"{text}; stopping", exc_info=error)
        self._failed = True
        self._stopping.set()

    async def _stop_all(self, tasks: asyncio.TaskGroup) -> None:
        self._state = "stopping"
        _log.info("stopping")
        deadline = asyncio.get_running_loop().time() + self._stop_seconds
        for group in sorted(Group, reverse=True):
            # A share for each group that is still to come, so that one that hangs does not take all the time.
            left = max(0.0, deadline - asyncio.get_running_loop().time())
            await self._stop_group(group, tasks, left * (0.6 if group > Group.SERVERS else 1.0))
        _log.info("stopped")

    async def _stop_group(self, group: Group, tasks: asyncio.TaskGroup, seconds: float) -> None:
        running = [part for part in self._parts[group] if part.task is not None and not part.task.done()]
        if not running:
            return

        async def all_ended() -> None:
            await asyncio.gather(*(self._end(part) for part in running))

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                if not await self._race(tasks, all_ended, self._hurry):
                    _log.warning("not waiting any longer", group=group.name.lower())
        self._cancel(group)
        late = [part.task for part in running if part.task is not None and not part.task.done()]
        if late:
            await asyncio.wait(late, timeout=1.0)

    async def _end(self, part: Part) -> None:
        """Ask a part to end, or cancel it if it cannot be asked, and wait until it has."""
        assert part.task is not None
        if part.stop is None:
            part.task.cancel()
        else:
            try:
                await part.stop()
            except Exception as error:
                _log.warning(f"{part.name} could not be stopped in order", exc_info=error)
                part.task.cancel()
            if part.cancel:
                part.task.cancel()
        await asyncio.wait([part.task])

    def _cancel(self, group: Group) -> None:
        for part in self._parts[group]:
            if part.task is not None:
                part.task.cancel()

    async def _race(self, tasks: asyncio.TaskGroup, what: Callable[[], Awaitable[Any]], event: asyncio.Event) -> bool:
        """Wait for something, or for an event; True if the event did not come first."""

        async def wait() -> None:
            try:
                await what()
            except Exception as error:
                self._fail(f"{getattr(what, '__qualname__', what)} failed: {_innermost(error)}", error)

        waiting = tasks.create_task(wait())
        interrupt = tasks.create_task(_wait(event))
        try:
            await asyncio.wait({waiting, interrupt}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            interrupt.cancel()
        return not event.is_set()

    @contextlib.contextmanager
    def _signal_handlers(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        signals = [number for number in self._signals if number != signal.SIGHUP or not _ignored(number)]
        for number in signals:
            loop.add_signal_handler(number, self._signalled, number)
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)

    def _signalled(self, number: signal.Signals) -> None:
        _log.info("signal received", signal=number.name)
        if number == signal.SIGHUP and self._stopping.is_set():
            return
        self.stop()


def _ignored(number: signal.Signals) -> bool:
    return signal.getsignal(number) is signal.SIG_IGN


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


def _innermost(error: BaseException) -> str:
    """One line for what really happened, without the groups around it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
