# SPDX-License-Identifier: Apache-2.0
"""Processes told apart by pid and start time, children that cannot outlive their parent, and orderly ends.

Used by the supervisor (which starts children), by `down` (which may find a supervisor that does not answer), and by the
command lines.
Standard library only. Nothing here ever looks a process up by its name.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
ENDING = (signal.SIGTERM, signal.SIGHUP)
"""What asks a process to end beside Ctrl-C; SIGHUP comes when its terminal is closed."""


def start_time(pid: int) -> str | None:
    """When the process with this pid started, as the kernel words it; None when there is none, or only a zombie.

    A pid alone is not an identity, since the kernel hands it out again; pid and start time together are.
    """
    stat = Path(f"/proc/{pid}/stat")
    if stat.parent.parent.joinpath("self").exists():
        try:
            # The second field is the command in parentheses and may itself hold spaces and parentheses.
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else fields[19]
    shown = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return shown.stdout.strip() or None


def is_same(pid: int, started: str) -> bool:
    """True when the process that had this pid at that start time is still alive."""
    return start_time(pid) == started


def kill_if_same(pid: int, started: str, number: signal.Signals = signal.SIGKILL) -> bool:
    """Signal a process only if it is still the one that was recorded. Returns whether it was."""
    if not is_same(pid, started):
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def die_with_parent() -> Callable[[], None] | None:
    """What a child runs between fork and exec so that the kernel kills it when its parent dies, however that dies.

    Linux only (PR_SET_PDEATHSIG); elsewhere None, and a killed supervisor leaves its children to `down`.
    """
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def prepare() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # The parent died before the request was in place.
            os._exit(127)

    return prepare


def end_as_on_ctrl_c() -> None:
    """Take every request to end as cleanly as Ctrl-C, by KeyboardInterrupt. Under `nohup` SIGHUP stays ignored."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)
