# SPDX-License-Identifier: Apache-2.0
"""The launcher's end of the supervisor's socket. Used by `Plane`; one request at a time.

The wire is one JSON object a line each way (see supervisor.py). No request outlives `timeout` seconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import NotRunning, PlaneError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .layout import Layout

_LONGEST_SOCKET_PATH = 100


class Control:
    """A connection to one supervisor. Thread-safe."""

    def __init__(self, stream: socket.socket, *, timeout: float = 30.0) -> None:
        stream.settimeout(timeout)
        self._stream = stream
        self._reader = stream.makefile("rb")
        self._lock = threading.Lock()

    def request(self, op: str, **arguments: Any) -> dict[str, Any]:
        """Ask, and wait for the answer. Raises NotRunning when nobody answers, PlaneError when the answer is no."""
        with self._lock:
            try:
                self._stream.sendall(json.dumps({"op": op, **arguments}).encode() + b"\n")
                line = self._reader.readline()
            except OSError as error:
                raise NotRunning(f"the supervisor does not answer: {error}") from error
        if not line:
            raise NotRunning("the supervisor is gone")
        answer: dict[str, Any] = json.loads(line)
        if not answer["ok"]:
            raise PlaneError(answer["error"])
        return answer

    def wait_for_end(self) -> None:
        """Return when the supervisor closed its end, which it does last of all."""
        with self._lock, contextlib.suppress(OSError):
            while self._stream.recv(4096):
                pass

    def close(self) -> None:
        self._reader.close()
        self._stream.close()


def attach(layout: Layout, *, timeout: float = 30.0) -> Control:
    """Connect to the supervisor of a running plane. Raises NotRunning when there is none."""
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.settimeout(timeout)
    try:
        _connect(stream, layout.socket)
    except OSError as error:
        stream.close()
        raise NotRunning(f"no plane is running in {layout.root}") from error
    return Control(stream, timeout=timeout)


def _connect(stream: socket.socket, path: Path) -> None:
    if len(os.fsencode(path)) <= _LONGEST_SOCKET_PATH:
        stream.connect(str(path))
        return
    # A path longer than the kernel takes is reached through the folder's open descriptor.
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        stream.connect(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


def spawn(layout: Layout, inherited: Iterable[int], *, keep: bool) -> tuple[Control, int]:
    """Start a supervisor that ends with this process unless told to detach; returns the connection and its pid.

    `inherited` are descriptors (locks) that it shall hold for as long as it lives.
    """
    ours, theirs = socket.socketpair()
    package_folder = str(Path(__file__).resolve().parents[1])
    environment = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "TMPDIR", "LANG")}
    with open(layout.log("supervisor"), "ab") as sink:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "trainsnap_plane.supervisor",
                str(layout.root),
                str(theirs.fileno()),
                "1" if keep else "0",
            ],
            env={**environment, "PYTHONPATH": package_folder},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            cwd="/",
            start_new_session=True,  # Ctrl-C in the terminal is for the launcher, which then ends this one in order.
            pass_fds=[theirs.fileno(), *inherited],
        )
    theirs.close()
    # The supervisor outlives this object on purpose; without this, Python would warn about a running child.
    threading.Thread(target=process.wait, name="reap-supervisor", daemon=True).start()
    return Control(ours), process.pid
