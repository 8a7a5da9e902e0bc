# SPDX-License-Identifier: Apache-2.0
"""What ``trainsnap migrate`` has done so far, one JSON object a line, appended as it happens.

The cluster decides what is left to do, never the journal: it is for people, and lets ``status`` say what was done
last. So a line that was lost with the process, or half written, costs nothing. One run at a time writes it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

JSON = dict[str, Any]


class JournalError(Exception):
    """The journal cannot be used; one line that says why."""


@dataclass(slots=True)
class Journal:
    """Appends to an open file. A line is handed to the operating system at once, so that it outlives the process."""

    stream: BinaryIO
    now: Callable[[], datetime]

    def write(self, event: str, **fields: Any) -> None:
        """Append one line. Raises ``JournalError``."""
        line = {"time": self.now().strftime("%Y-%m-%dT%H:%M:%SZ"), "event": event, **fields}
        try:
            self.stream.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
            self.stream.flush()
        except OSError as error:
            raise JournalError(f"journal {self.stream.name}: {error.strerror}") from error

    def sync(self) -> None:
        """Wait until it is on the disk. Raises ``JournalError``."""
        try:
            os.fsync(self.stream.fileno())
        except OSError as error:
            raise JournalError(f"journal {self.stream.name}: {error.strerror}") from error


@contextmanager
def opened(path: Path, cluster: str, now: Callable[[], datetime]) -> Iterator[Journal]:
    """The journal of a cluster, for one run. ``cluster`` is the UID of its kube-system namespace.

    Raises ``JournalError`` when it is another cluster's, in use, or cannot be written.
    """
    try:
        stream = path.open("a+b")
    except OSError as error:
        raise JournalError(f"journal {path}: {error.strerror or 'must be a file'}") from error
    if not path.is_file():
        stream.close()
        raise JournalError(f"journal {path}: must be a file")
    with _closing_quietly(stream):
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JournalError(f"journal {path} is in use by another run of trainsnap migrate") from None
        except OSError as error:
            raise JournalError(f"journal {path} cannot be locked: {error.strerror}") from error
        owner = _cluster(stream)
        if owner not in (None, cluster):
            raise JournalError(f"journal {path} is of another cluster; name another file with --journal")
        _end_line(stream)
        journal = Journal(stream, now)
        if owner is None:
            journal.write("opened", cluster=cluster)
        yield journal
        journal.sync()


@contextmanager
def _closing_quietly(stream: BinaryIO) -> Iterator[None]:
    """Close a file whose last write failed without failing again, which would hide the first error."""
    try:
        yield
    finally:
        with suppress(OSError):
            stream.close()


def _cluster(stream: BinaryIO) -> Any:
    """The cluster of a journal, by its first line that is whole enough to say; None when none is."""
    stream.seek(0)
    return next((line["cluster"] for raw in stream if (line := _line(raw)) is not None and "cluster" in line), None)


def last_run(path: Path, cluster: str) -> JSON | None:
    """The last line about a whole run, begun or ended, with its operation and time; None without a journal.

    Raises ``JournalError`` when it is another cluster's, or cannot be read.
    """
    found = None
    try:
        with path.open("rb") as stream:
            if _cluster(stream) not in (None, cluster):
                raise JournalError(f"journal {path} is of another cluster; name another file with --journal")
            stream.seek(0)
            for raw in stream:
                line = _line(raw)
                if (
                    line is not None
                    and line.get("event") in ("begun", "ended")
                    and all(isinstance(line.get(key), str) for key in ("operation", "time"))
                ):
                    found = line
    except FileNotFoundError:
        return None
    except OSError as error:
        raise JournalError(f"journal {path}: {error.strerror}") from error
    return found


def _end_line(stream: BinaryIO) -> None:
    """Close a line that a killed run left half written."""
    if stream.seek(0, os.SEEK_END) == 0:
        return
    stream.seek(-1, os.SEEK_END)
    if stream.read(1) != b"\n":
        stream.write(b"\n")


def _line(raw: bytes) -> JSON | None:
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) else None
