# SPDX-License-Identifier: Apache-2.0
"""Free ports for any number of planes side by side. Called by the launcher before a start.

A port is chosen below the kernel's ephemeral range, so that no outgoing connection takes it meanwhile, tried by
binding it, and leased by a locked file whose descriptor the supervisor inherits: another plane does not choose it,
even while the component that uses it is being restarted. A foreign process still may; the launcher then starts anew
with other ports.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import PlaneError

if TYPE_CHECKING:
    from collections.abc import Iterable

# Linux hands out 32768-60999 for outgoing connections by default; Kubernetes NodePorts (30000-32767) do not matter
# here.
_FIRST, _LAST = 20_000, 32_000
_ATTEMPTS = 500


@dataclass(frozen=True, slots=True)
class Lease:
    """One port, ours as long as `descriptor` is open in some process."""

    port: int
    descriptor: int

    def release(self) -> None:
        os.close(self.descriptor)


def lease_folder() -> Path:
    """Per user, because another user's files could not be locked anyway."""
    return Path(tempfile.gettempdir()) / f"trainsnap-ports-{os.getuid()}"


def lease(
    names: Iterable[str], *, folder: Path | None = None, chooser: random.Random | None = None, host: str = "127.0.0.1"
) -> dict[str, Lease]:
    """Lease one free port for each name. Raises PlaneError when none is free."""
    folder = folder or lease_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    chooser = chooser or random.Random()
    leases: dict[str, Lease] = {}
    for name in names:
        leases[name] = _lease_one(name, folder, chooser, host)
    return leases


def _lease_one(name: str, folder: Path, chooser: random.Random, host: str) -> Lease:
    for _ in range(_ATTEMPTS):
        port = chooser.randint(_FIRST, _LAST)
        descriptor = os.open(folder / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        if is_free(port, host=host):
            return Lease(port, descriptor)
        os.close(descriptor)
    raise PlaneError(f"no free port for {name} between {_FIRST} and {_LAST} on {host}")


def is_free(port: int, *, host: str = "127.0.0.1") -> bool:
    """Whether a server could bind the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As Go's servers do, so that a connection in TIME_WAIT does not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
