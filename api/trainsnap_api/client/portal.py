# SPDX-License-Identifier: Apache-2.0
"""Runs the async client for callers that are not async: an event loop of its own, in a thread of its own.

Used by the generated sync face only. Works under a loop that is already running (notebooks), from several threads at a
time, and when interrupted: what was being awaited is then cancelled. Callbacks run in the caller's thread.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import inspect
import os
import queue
import threading
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from trainsnap_api.transport.errors import TransportClosed

if TYPE_CHECKING:
    from types import TracebackType

R = TypeVar("R")
_STOP_SECONDS = 5.0
_END: Any = object()


class Portal:
    """The loop and its thread. Stopped by ``stop``, by the garbage collector, or at the end of the program."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._inside = _Inside()
        self._thread = threading.Thread(target=self._inside.work, name="trainsnap-client", daemon=True)
        self._thread.start()
        self._inside.ready.wait()
        self._finalizer = weakref.finalize(self, _stop, self._inside, self._thread)

    def at_stop(self, cleanup: Callable[[], Awaitable[None]]) -> None:
        """Await this in the loop before it ends."""
        self._inside.cleanups.append(cleanup)

    def stop(self) -> None:
        """Ends everything that runs in the loop, then the thread. May be called twice."""
        self._finalizer()

    def run(self, function: Callable[..., Coroutine[Any, Any, R]], /, *args: Any, **kwargs: Any) -> R:
        """The result of an async function. Arguments that begin with ``on_`` are functions to call in this thread."""
        self._check()
        inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        for name, value in kwargs.items():
            if name.startswith("on_") and value is not None:
                kwargs[name] = self._called_here(value, inbox)
        future = asyncio.run_coroutine_threadsafe(function(*args, **kwargs), self._inside.loop)
        future.add_done_callback(lambda _: inbox.put(None))
        try:
            while (call := inbox.get()) is not None:
                call()
        except BaseException:
            future.cancel()
            raise
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise TransportClosed("the client was closed meanwhile") from None

    def iterate(self, stream: AsyncGenerator[R, None]) -> Stream[R]:
        """The same items, for a ``for`` loop."""
        self._check()
        return Stream(self, self._inside.loop, stream)

    def _called_here(
        self, function: Callable[..., object], inbox: queue.SimpleQueue[Callable[[], None] | None]
    ) -> Callable[..., Awaitable[object]]:
        loop = self._inside.loop

        async def called(*args: Any) -> object:
            answer: asyncio.Future[object] = loop.create_future()

            def settle(result: object) -> None:
                if not answer.done():
                    answer.set_result(result)

            # What it raises ends the caller's ``run``, which cancels this wait.
            inbox.put(lambda: _post(loop, settle, function(*args)))
            result = await answer
            return await result if inspect.isawaitable(result) else result

        return called

    def check_process(self) -> None:
        """Raises RuntimeError after a fork: the thread is not there, and waiting for it would never end."""
        if os.getpid() != self._pid:
            raise RuntimeError("the client was made before a fork; connect again in the child process")

    def _check(self) -> None:
        self.check_process()
        if not self._finalizer.alive:
            raise TransportClosed("the client is closed", sent=False)
        if threading.current_thread() is self._thread:
            raise RuntimeError("the sync client cannot be used in its own thread (a token provider, a request hook)")


class Stream(Generic[R], Iterator[R]):
    """Items as they come. Ended by ``close``, at the end of a ``with`` block, or when nobody holds it any more."""

    def __init__(self, portal: Portal, loop: asyncio.AbstractEventLoop, stream: AsyncGenerator[R, None]) -> None:
        # Held, so that the portal lives as long as its streams.
        self._portal = portal
        self._loop = loop
        self._requests: asyncio.Queue[concurrent.futures.Future[R]] = asyncio.Queue()
        # One task runs the stream from its first step to its last: time limits inside it belong to a task.
        self._task = asyncio.run_coroutine_threadsafe(_drive(stream, self._requests), loop)
        self._finalizer = weakref.finalize(self, self._task.cancel)

    def __next__(self) -> R:
        self._portal.check_process()
        if not self._finalizer.alive:
            raise StopIteration
        answer: concurrent.futures.Future[R] = concurrent.futures.Future()
        _post(self._loop, self._requests.put_nowait, answer)
        try:
            waited: list[concurrent.futures.Future[Any]] = [answer, self._task]
            concurrent.futures.wait(waited, return_when=concurrent.futures.FIRST_COMPLETED)
        except BaseException:
            self.close()
            raise
        if not answer.done() and self._finalizer.alive and self._task.cancelled():
            # Not by our ``close``. Who reads a list must not take this for its end.
            self.close()
            raise TransportClosed("the client was closed meanwhile")
        item = answer.result() if answer.done() else _END
        if item is _END:
            self.close()
            raise StopIteration
        return item

    def close(self) -> None:
        """Ends it; a request that runs is closed. May be called twice, also while another thread waits."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class Face:
    """Base of the generated classes: an object of the async face, and the portal to it."""

    __slots__ = ("_inner", "_portal")

    def __init__(self, portal: Portal, inner: Any) -> None:
        self._portal = portal
        self._inner = inner


class ClientFace(Face):
    """What the sync client has instead of ``async with`` and ``aclose``."""

    __slots__ = ()

    @classmethod
    def _opened(cls, function: Callable[..., Coroutine[Any, Any, Any]], /, **kwargs: Any) -> Self:
        portal = Portal()
        try:
            inner = portal.run(function, **kwargs)
        except BaseException:
            portal.stop()
            raise
        portal.at_stop(inner.aclose)
        return cls(portal, inner)

    def close(self) -> None:
        """Closes all connections; calls and watches that run end with TransportClosed. May be called twice."""
        self._portal.stop()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._inner.server}, namespace {self._inner.namespace}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class _Inside:
    """What the thread works on; it must not hold the portal, which would then never be collected."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.cleanups: list[Callable[[], Awaitable[None]]] = []
        self.loop: asyncio.AbstractEventLoop
        self.ended: asyncio.Event

    def work(self) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._until_ended())

    async def _until_ended(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.ended = asyncio.Event()
        self.ready.set()
        await self.ended.wait()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for cleanup in self.cleanups:
            await cleanup()


def _stop(inside: _Inside, thread: threading.Thread) -> None:
    _post(inside.loop, inside.ended.set)
    # The garbage collector may run this in the thread itself, which then ends right after.
    if threading.current_thread() is not thread:
        thread.join(_STOP_SECONDS)


def _post(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: Any) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(function, *args)


async def _drive(stream: AsyncGenerator[R, None], requests: asyncio.Queue[concurrent.futures.Future[R]]) -> None:
    async with aclosing(stream):
        while True:
            answer = await requests.get()
            try:
                item = await anext(stream, _END)
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                answer.set_exception(error)
                return
            answer.set_result(item)
            if item is _END:
                return
