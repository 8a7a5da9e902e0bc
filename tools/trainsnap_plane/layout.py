# SPDX-License-Identifier: Apache-2.0
"""What lies where in a plane's folder, and how it is removed.

Used by the launcher, the supervisor and `down`. Standard library only, because the supervisor is kept small.
Only the names below are ever removed: a folder that also holds files of somebody else keeps them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .errors import PlaneError

if TYPE_CHECKING:
    from pathlib import Path

MARKER = "plane.json"
_FOLDERS = ("pki", "etcd", "config", "kubeconfigs", "logs")
# The lock goes last: as long as it is there and held, the folder is in use.
_FILES = ("kubeconfig", "control.sock", "children.json", MARKER, "lock")


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of one plane. `root` is absolute."""

    root: Path

    @property
    def marker(self) -> Path:
        return self.root / MARKER

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def socket(self) -> Path:
        return self.root / "control.sock"

    @property
    def children(self) -> Path:
        return self.root / "children.json"

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def kubeconfigs(self) -> Path:
        return self.root / "kubeconfigs"

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    @property
    def config(self) -> Path:
        return self.root / "config"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def audit_log(self) -> Path:
        return self.logs / "audit.jsonl"

    def log(self, component: str) -> Path:
        return self.logs / f"{component}.log"

    def create(self) -> None:
        """Make the folders. Raises PlaneError when the folder holds files of somebody else."""
        if self.root.exists() and not self.root.is_dir():
            raise PlaneError(f"{self.root} is not a folder")
        if self.root.is_dir() and not self.marker.exists():
            foreign = sorted(p.name for p in self.root.iterdir() if p.name != "lock")
            if foreign:
                raise PlaneError(
                    f"{self.root} is not empty and no plane made it (it holds {foreign[0]!r}): choose another --dir"
                )
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            for name in _FOLDERS:
                (self.root / name).mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise PlaneError(f"cannot make the folder {self.root}: {error.strerror}") from error

    def read_state(self) -> dict[str, Any]:
        """What `up` recorded. Raises PlaneError when the folder is no plane's."""
        try:
            state = json.loads(self.marker.read_text())
            if not isinstance(state, dict):
                raise ValueError
        except (FileNotFoundError, NotADirectoryError):
            raise PlaneError(f"no plane in {self.root}") from None
        except OSError as error:
            raise PlaneError(f"{self.marker} cannot be read: {error.strerror}") from None
        except ValueError:
            raise PlaneError(f"{self.marker} is damaged: remove the folder by hand") from None
        return state

    def write_state(self, state: dict[str, Any]) -> None:
        write_atomically(self.marker, json.dumps(state, indent=2) + "\n")

    def acquire(self) -> int | None:
        """Take the folder's lock and return its file descriptor, or None when a living plane holds it.

        The lock belongs to the open file, so it lives on in the supervisor, which inherits the descriptor.
        """
        descriptor = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor

    def remove(self) -> None:
        """Remove everything that a plane put here, and the folder itself when nothing else is in it."""
        for name in _FOLDERS:
            shutil.rmtree(self.root / name, ignore_errors=True)
        for name in _FILES:
            (self.root / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.root.rmdir()

    def remove_runtime_files(self) -> None:
        """Remove what only a running plane has, keeping its data (`--keep`)."""
        self.socket.unlink(missing_ok=True)
        self.children.unlink(missing_ok=True)


def write_atomically(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write a file so that a reader sees the old or the new text, never half of it."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
    fresh.replace(path)


def tail(path: Path, *, lines: int = 15, limit: int = 16_384) -> str:
    """The last lines of a log, at most `limit` bytes of it; an empty string when there is none."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - limit))
            text = stream.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
