# SPDX-License-Identifier: Apache-2.0
"""The operator of the demo: `trainsnap dev` in a process of its own, as a developer runs it. Used by tools/demo.py."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from trainsnap_plane.process import die_with_parent

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 10.0


LOG_LINES: Final = 12


class OperatorFailed(Exception):
    """The operator did not become ready. One line; ``detail`` is the end of its log."""

    def __init__(self, message: str, detail: str) -> None:
        super().__init__(message)
        self.detail = detail


@contextlib.contextmanager
def operator(kubeconfig: Path, log: Path, say: Callable[[str], None]) -> Iterator[subprocess.Popen[bytes]]:
    """Start it, yield when it is ready, and stop it in order. Raises OperatorFailed."""
    command = [str(Path(sys.executable).with_name("trainsnap")), "dev", "--kubeconfig", str(kubeconfig)]
    with (
        log.open("wb") as sink,
        # A session of its own: on Ctrl-C it is ended here, after what still needs it. When the demo is killed, so is
        # the operator: the plane ends then as well, with the webhooks.
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=sink, start_new_session=True, preexec_fn=die_with_parent()
        ) as process,
    ):
        try:
            for line in _lines(process, START_SECONDS):
                say(line)
                if line == "READY":
                    break
            else:
                tail = log.read_text(errors="replace").splitlines()[-LOG_LINES:]
                raise OperatorFailed("the operator did not become ready", "\n".join(tail))
            yield process
        finally:
            _stop(process)


def _lines(process: subprocess.Popen[bytes], seconds: float) -> Iterator[str]:
    """What it prints, line by line, until its end or the deadline."""
    assert process.stdout is not None
    deadline = time.monotonic() + seconds
    text = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select(max(0.0, deadline - time.monotonic())):
            chunk = os.read(process.stdout.fileno(), 4096)
            if not chunk:
                return
            *lines, text = (text + chunk).split(b"\n")
            yield from (line.decode(errors="replace") for line in lines)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
