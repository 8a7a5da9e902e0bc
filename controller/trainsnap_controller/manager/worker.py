# SPDX-License-Identifier: Apache-2.0
"""Runs a reconciler: takes keys from a queue, calls it, and decides what happens with the key next.

Started by the manager once caches are in sync and this process leads. It never looks at objects: what a key means is
the reconciler's. No error of a reconciler ends it.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Protocol

import structlog

from trainsnap_api.transport.errors import TransportError
from trainsnap_controller.observe.clock import Clock, SystemClock
from trainsnap_controller.observe.logging import bound
from trainsnap_controller.observe.tracing import Tracing
from trainsnap_controller.queue.result import Done, RequeueAfter, Result, RetryableError, TerminalError
from trainsnap_controller.queue.workqueue import ShutDown, WorkQueue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trainsnap_controller.cache.entry import Key

_log = structlog.stdlib.get_logger(__name__)


class ControllerMetrics(Protocol):
    """What is measured of a controller. `observe.metrics` has it under controller-runtime's names."""

    def started(self, workers: int) -> None: ...
    def busy(self, change: int) -> None: ...
    def reconciled(self, result: str, seconds: float) -> None:
        """``result`` is success, requeue_after or error."""

    def failed(self, kind: str) -> None:
        """``kind`` is terminal, panic or timeout; besides ``reconciled("error")``."""


class NoControllerMetrics:
    """Measures nothing."""

    def started(self, workers: int) -> None: ...
    def busy(self, change: int) -> None: ...
    def reconciled(self, result: str, seconds: float) -> None: ...
    def failed(self, kind: str) -> None: ...


class Controller:
    """A queue, a reconciler, and the workers between them.

    Args:
        name: in logs and metrics; the reference's names where the meaning is equal, such as ``trainjob_controller``.
        queue: where keys come from.
        reconcile: does what has to be done for a key; returns `Done` or `RequeueAfter`, raises anything.
        workers: keys reconciled at the same time, never one key twice.
        tracing: makes a span of every reconcile.
        connect: called when it starts, to let changes of objects fill the queue from then on.
        timeout: seconds that one reconcile may take; it is cancelled then, and tried again.
        allowed: asked before each reconcile; while it says no (the lease is lost), keys stay where they are.
        expected: exceptions that are logged as one line instead of with a traceback.
    """

    def __init__(
        self,
        name: str,
        queue: WorkQueue[Key],
        reconcile: Callable[[Key], Awaitable[Result]],
        workers: int = 1,
        *,
        connect: Callable[[], None] = lambda: None,
        timeout: float = 120.0,
        allowed: Callable[[], bool] = lambda: True,
        expected: tuple[type[Exception], ...] = (TransportError, RetryableError),
        clock: Clock | None = None,
        metrics: ControllerMetrics | None = None,
        tracing: Tracing | None = None,
        new_id: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        self.name = name
        self._queue = queue
        self._reconcile = reconcile
        self._workers = workers
        self._connect = connect
        self._timeout = timeout
        self._allowed = allowed
        self._expected = expected
        self._clock = clock or SystemClock()
        self._metrics = metrics or NoControllerMetrics()
        self._tracing = tracing or Tracing()
        self._new_id = new_id

    async def run(self) -> None:
        """Work until the queue is shut down and empty, or until cancelled."""
        self._metrics.started(self._workers)
        self._connect()
        async with asyncio.TaskGroup() as tasks:
            for number in range(self._workers):
                tasks.create_task(self._work(), name=f"{self.name} worker {number}")

    async def stop(self) -> None:
        """Begin nothing new; returns when what is being reconciled is finished. Keys that wait are dropped."""
        self._queue.shut_down(discard=True)
        await self._queue.drained()

    async def _work(self) -> None:
        while True:
            try:
                key = await self._queue.get()
            except ShutDown:
                return
            try:
                if self._allowed():
                    self._metrics.busy(+1)
                    try:
                        await self._process(key)
                    finally:
                        self._metrics.busy(-1)
                else:
                    self._queue.add_after(key, 1.0)
            finally:
                self._queue.done(key)
            # A reconcile that finds nothing to do never waits: without this, a resync of thousands of keys would keep
            # the lease from being renewed and health from being answered.
            await asyncio.sleep(0)

    async def _process(self, key: Key) -> None:
        started, reconcile_id = self._clock.now(), self._new_id()
        with (
            bound(controller=self.name, namespace=key.namespace, name=key.name, reconcile_id=reconcile_id),
            self._tracing.reconcile(self.name, key.namespace, key.name, reconcile_id) as ended,
        ):
            try:
                async with asyncio.timeout(self._timeout) as limit:
                    outcome: Result | Exception = await self._reconcile(key)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                # Not us, but something that the reconciler waited for: an error like any other.
                outcome = RuntimeError("the reconciler waited for something that was cancelled")
            except Exception as error:
                outcome = error
                if isinstance(error, TimeoutError) and limit.expired():
                    self._metrics.failed("timeout")
                    outcome = RetryableError(f"not finished after {self._timeout:g} s")
            self._settle(key, outcome)
            result = {Done: "success", RequeueAfter: "requeue_after"}.get(type(outcome), "error")
            ended(result)
        self._metrics.reconciled(result, self._clock.now() - started)

    def _settle(self, key: Key, outcome: Result | Exception) -> None:
        """The one place that decides what becomes of a key."""
        match outcome:
            case Done():
                self._queue.forget(key)
            case RequeueAfter(seconds):
                self._queue.forget(key)
                self._queue.add_after(key, seconds)
            case Exception() if _all_of(outcome, (TerminalError,)):
                self._metrics.failed("terminal")
                self._queue.forget(key)
                _log.error("reconcile failed for good", error=_one_line(outcome))
            case Exception() if _all_of(outcome, (*self._expected, TerminalError)):
                self._queue.add_rate_limited(key)
                _log.warning("reconcile failed, will be tried again", error=_one_line(outcome),
                             failures=self._queue.failures(key))  # fmt: skip
            case _:
                self._metrics.failed("panic")
                self._queue.add_rate_limited(key)
                error = outcome if isinstance(outcome, Exception) else None
                what = _one_line(outcome) if error else f"reconciler returned {outcome!r}"
                _log.error("reconcile broke, will be tried again", error=what, exc_info=error)


def _all_of(error: Exception, types: tuple[type[Exception], ...]) -> bool:
    """Whether an error, or everything in a group of errors, is of certain types."""
    if isinstance(error, ExceptionGroup):
        return all(_all_of(inner, types) for inner in error.exceptions)
    return isinstance(error, types)


def _one_line(error: object) -> str:
    if isinstance(error, ExceptionGroup):
        return "; ".join(_one_line(inner) for inner in error.exceptions)
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
