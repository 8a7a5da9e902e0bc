# SPDX-License-Identifier: Apache-2.0
"""Free ports for any number of planes side by side. Called by the launcher before a start.

A port is chosen below the kernel's ephemeral range, so that no outgoing connection takes it meanwhile, tried by
binding it, and leased by a locked file whose descriptor the supervisor inherits: another plane does not choose it,
even while the component that uses it is being restarted. A foreign process still may; the launcher then starts anew
with other ports. Files that nobody has locked are swept away, before a start and after an end.

A file is removed only by who holds its lock, and a lock counts only while its file is the one of that name: whoever
locked a file that was removed meanwhile notices, and tries again.
"""

from __future__ import annotations

import contextlib
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
    sweep(folder)
    chooser = chooser or random.Random()
    leases: dict[str, Lease] = {}
    for name in names:
        leases[name] = _lease_one(name, folder, chooser, host)
    return leases


def sweep(folder: Path | None = None) -> None:
    """Remove the files of ports that nobody leases any more, and the folder when none is left."""
    folder = folder or lease_folder()
    with contextlib.suppress(FileNotFoundError):
        for file in [path for path in folder.iterdir() if path.name.isdigit()]:
            with contextlib.suppress(FileNotFoundError):
                descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC)
                try:
                    if _locked(descriptor, file):
                        file.unlink()
                finally:
                    os.close(descriptor)
    with contextlib.suppress(OSError):
        folder.rmdir()


def _lease_one(name: str, folder: Path, chooser: random.Random, host: str) -> Lease:
    for _ in range(_ATTEMPTS):
        port = chooser.randint(_FIRST, _LAST)
        file = folder / str(port)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except (FileNotFoundError, FileExistsError):  # Swept away in between.
            if folder.exists() and not folder.is_dir():
                raise
            continue
        if _locked(descriptor, file) and is_free(port, host=host):
            return Lease(port, descriptor)
        os.close(descriptor)
    raise PlaneError(f"no free port for {name} between {_FIRST} and {_LAST} on {host}")


def _locked(descriptor: int, file: Path) -> bool:
    """Lock an open file; False when somebody else has, or when the file of that name is another one by now."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except (BlockingIOError, FileNotFoundError):
        return False


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
