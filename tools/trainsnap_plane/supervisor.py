# SPDX-License-Identifier: Apache-2.0
"""The process that owns a plane's components: `python -m trainsnap_plane.supervisor`, started by the launcher only.

It is deliberately dumb: it starts, signals and reaps what the launcher asks for over a socket, one JSON object a line,
and knows nothing about Kubernetes. Three rules make sure that nothing is left behind:

- until the launcher says `detach`, the end of the launcher's connection ends everything (Ctrl-C, a crash, SIGKILL);
- every child asks the kernel to be killed when this process dies (`die_with_parent`);
- the folder's lock and the port leases are inherited descriptors, so they end with this process and not earlier.

Single-threaded on purpose: forking is then safe, and the kernel counts the thread that forked as the parent.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .layout import Layout, write_atomically
from .process import die_with_parent, start_time

if TYPE_CHECKING:
    from collections.abc import Callable

_SIGNALS = {"STOP": signal.SIGSTOP, "CONT": signal.SIGCONT, "KILL": signal.SIGKILL, "TERM": signal.SIGTERM}


@dataclass(slots=True)
class Child:
    """One component: what was asked for, and what became of it."""

    name: str
    argv: list[str]
    env: dict[str, str]
    log: Path
    process: subprocess.Popen[bytes]
    started: str
    stopped: bool = False  # By us, on request: no death to report.
    paused: bool = False

    def describe(self) -> dict[str, Any]:
        code = self.process.poll()
        state = "running" if code is None else "stopped" if self.stopped else "died"
        if state == "running" and self.paused:
            state = "paused"
        return {
            "name": self.name,
            "pid": self.process.pid,
            "start_time": self.started,
            "state": state,
            "exit_code": code,
        }


@dataclass(slots=True, eq=False)
class Connection:
    """One client. `owner` is the launcher, whose end is the end of all until it detaches."""

    stream: socket.socket
    owner: bool
    buffer: bytearray = field(default_factory=bytearray)


class Supervisor:
    """Runs until told to shut down, or until the owner goes away."""

    def __init__(self, layout: Layout, owner: socket.socket, *, keep: bool) -> None:
        self._layout = layout
        self._children: dict[str, Child] = {}
        self._selector = selectors.DefaultSelector()
        self._detached = False
        self._keep = keep
        self._done = False
        self._prepare = die_with_parent()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._add(owner, owner=True)

    def run(self) -> None:
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_read, False)
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: self._end(keep=self._keep))
        # Relative, because the path of a Unix socket may have at most 107 bytes and a folder's path may have more.
        os.chdir(self._layout.root)
        self._layout.socket.unlink(missing_ok=True)
        self._listener.bind(self._layout.socket.name)
        self._listener.listen(8)
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._selector.register(wake_read, selectors.EVENT_READ, None)
        try:
            while not self._done:
                for key, _ in self._selector.select():
                    if key.fileobj is self._listener:
                        self._add(self._listener.accept()[0], owner=False)
                    elif key.fd == wake_read:
                        os.read(wake_read, 512)
                        self._reap()
                    elif isinstance(key.data, Connection):
                        self._read(key.data)
        finally:
            self._end(keep=self._keep)

    def _add(self, stream: socket.socket, *, owner: bool) -> None:
        stream.setblocking(True)
        self._selector.register(stream, selectors.EVENT_READ, Connection(stream, owner))

    def _read(self, connection: Connection) -> None:
        try:
            data = connection.stream.recv(65_536)
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(connection.stream)
            connection.stream.close()
            if connection.owner and not self._detached:
                _log("the launcher is gone: ending everything")
                self._end(keep=self._keep)
            return
        connection.buffer += data
        while not self._done and (end := connection.buffer.find(b"\n")) >= 0:
            line = bytes(connection.buffer[:end])
            del connection.buffer[: end + 1]
            answer = self._answer(json.loads(line))
            try:
                connection.stream.sendall(json.dumps(answer).encode() + b"\n")
            except OSError:
                return

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        operations: dict[str, Callable[..., dict[str, Any]]] = {
            "start": self._start,
            "stop": self._stop,
            "restart": self._restart,
            "signal": self._signal,
            "status": self._status,
            "detach": self._detach,
            "shutdown": self._shutdown,
        }
        operation = request.pop("op")
        try:
            return {"ok": True, **operations[operation](**request)}
        except Exception as error:  # The answer carries it; a request must not end the supervisor.
            _log(f"{operation}: {error!r}")
            return {"ok": False, "error": str(error) or repr(error)}

    def _start(self, name: str, argv: list[str], env: dict[str, str], log: str) -> dict[str, Any]:
        old = self._children.get(name)
        if old is not None and old.process.poll() is None:
            raise RuntimeError(f"{name} is running already")
        with open(log, "ab") as sink:
            process = subprocess.Popen(
                argv,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                cwd=self._layout.root,
                preexec_fn=self._prepare,
            )
        started = start_time(process.pid) or ""
        self._children[name] = Child(name, argv, env, Path(log), process, started)
        self._record()
        return {"pid": process.pid}

    def _stop(self, name: str, grace: float = 5.0) -> dict[str, Any]:
        child = self._child(name)
        child.stopped = True
        _terminate([child], grace)
        self._record()
        return {"exit_code": child.process.returncode}

    def _restart(self, name: str, grace: float = 5.0) -> dict[str, Any]:
        child = self._child(name)
        self._stop(name, grace)
        return self._start(name, child.argv, child.env, str(child.log))

    def _signal(self, name: str, which: str) -> dict[str, Any]:
        child = self._child(name)
        if child.process.poll() is not None:
            raise RuntimeError(f"{name} is not running")
        child.process.send_signal(_SIGNALS[which])
        if which in ("STOP", "CONT"):
            child.paused = which == "STOP"
        return {}

    def _status(self) -> dict[str, Any]:
        return {"children": [child.describe() for child in self._children.values()], "detached": self._detached}

    def _detach(self) -> dict[str, Any]:
        self._detached = True
        return {}

    def _shutdown(self, keep: bool | None = None) -> dict[str, Any]:
        self._end(keep=self._keep if keep is None else keep)
        return {}

    def _child(self, name: str) -> Child:
        if name not in self._children:
            raise RuntimeError(f"there is no {name} in this plane")
        return self._children[name]

    def _reap(self) -> None:
        for child in self._children.values():
            code = child.process.returncode
            if code is None and (code := child.process.poll()) is not None and not child.stopped:
                _log(f"{child.name} ended by itself with code {code}")

    def _record(self) -> None:
        """For `down`, should this process be killed where the kernel cannot take the children with it."""
        running = [child.describe() for child in self._children.values() if child.process.poll() is None]
        write_atomically(self._layout.children, json.dumps(running))

    def _end(self, *, keep: bool) -> None:
        if self._done:
            return
        self._done = True
        # Last started, first stopped: controllers before the API server, the API server before its store.
        # Where the data goes anyway, nobody needs a clean end, and killing is instant.
        children = list(reversed(self._children.values()))
        if keep:
            for child in children:
                _terminate([child], 3.0)
        else:
            _terminate(children, 0.0)
        self._listener.close()
        self._layout.remove_runtime_files()
        if not keep:
            self._layout.remove()


def _terminate(children: list[Child], grace: float, *, clock: Callable[[], float] = time.monotonic) -> None:
    alive = [child for child in children if child.process.poll() is None]
    deadline = clock() + grace
    for child in alive:
        child.stopped = True
        if grace > 0:
            child.process.terminate()
            child.process.send_signal(signal.SIGCONT)  # A paused process would not see the request.
    for child in alive:
        try:
            child.process.wait(max(0.0, deadline - clock()) if grace > 0 else 0.0)
        except subprocess.TimeoutExpired:
            child.process.kill()
    for child in alive:
        child.process.wait()


def _log(text: str) -> None:
    print(f"supervisor: {text}", file=sys.stderr, flush=True)


def main() -> None:
    """`supervisor DIR OWNER_FD KEEP`: further inherited descriptors (lock, port leases) need no name, only to stay
    open.
    """
    folder, owner, keep = sys.argv[1:4]
    Supervisor(Layout(Path(folder)), socket.socket(fileno=int(owner)), keep=keep == "1").run()


if __name__ == "__main__":
    main()
