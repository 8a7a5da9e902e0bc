# SPDX-License-Identifier: Apache-2.0
"""Runs the operator as its users do: ``trainsnap dev`` in a process of its own, as its own ServiceAccount."""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import IO

from support.exposition import samples

START_SECONDS = 60.0
STOP_SECONDS = 5.0
"""What is promised for a stop after SIGTERM."""
WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})

# The command line as it is installed, in a process that the kernel ends with the one that started it (Linux only): a
# test session that is killed leaves nothing running.
_PROGRAM = """
import ctypes, signal, sys
if sys.platform.startswith("linux"):
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
from trainsnap_controller.cli import main
sys.exit(main())
"""
COMMAND = (sys.executable, "-c", _PROGRAM)


class Operator:
    """One operator on one plane, started and stopped as often as a test likes. ``log`` is a file that keeps growing."""

    def __init__(self, kubeconfig: Path, log: Path, *arguments: str) -> None:
        self.kubeconfig = kubeconfig
        self.log = log
        self._arguments = arguments
        self._process: subprocess.Popen[str] | None = None
        self._pump: threading.Thread | None = None
        self._urls: dict[str, str] = {}

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, and return when it has printed READY."""
        assert not self.running
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                [*COMMAND, "dev", "--kubeconfig", str(self.kubeconfig), "--log-format", "json", *self._arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        lines: queue.Queue[str] = queue.Queue()
        self._pump = threading.Thread(target=_pump, args=(self._process.stdout, lines), daemon=True)
        self._pump.start()
        self._urls = {}
        end = time.monotonic() + START_SECONDS
        while (line := _next(lines, end)) != "READY":
            if line is None:
                self.kill()
                raise AssertionError(f"the operator did not get ready:\n{self.tail()}")
            name, _, url = line.partition(" ")
            self._urls[name] = url

    def stop(self, within: float = 30.0) -> int:
        """SIGTERM; returns the exit code. Fails when it takes longer than ``within`` seconds."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(within)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"the operator did not stop within {within:g} s:\n{self.tail()}") from None
        finally:
            self._close()

    def kill(self) -> None:
        """SIGKILL: no chance to tidy up."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
            self._close()

    def _close(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        assert self._pump is not None
        self._pump.join()
        self._process.stdout.close()

    def pause(self) -> None:
        """SIGSTOP: it is there, but does nothing until ``resume``."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def url(self, server: str) -> str:
        """Where one of its servers listens: ``health``, ``metrics``, ``webhooks`` or ``status``."""
        return self._urls[server]

    def get(self, server: str, path: str) -> tuple[int, str]:
        """GET a path of its ``health`` or ``metrics`` server: the HTTP status and the text."""
        try:
            with urllib.request.urlopen(self._urls[server] + path, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that carry these labels."""
        return sum(s.value for s in samples(self.get("metrics", "/metrics")[1], name, **labels))

    def follows(self) -> bool:
        """Whether it has a watch on every kind that it follows, at this moment."""
        up = [s.value for s in samples(self.get("metrics", "/metrics")[1], "trainsnap_cache_watch_up")]
        return bool(up) and all(up)

    def writes(self) -> float:
        """How many writing requests it has sent so far, those for events apart (it takes no Lease here)."""
        sent = sum(self.metric("rest_client_requests_total", method=method) for method in WRITES)
        return sent - sum(self.metric("trainsnap_events_total", outcome=outcome) for outcome in ("created", "counted"))

    def tail(self, lines: int = 40) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text().splitlines()[-lines:])


def _pump(stream: IO[str], lines: queue.Queue[str]) -> None:
    for line in stream:
        lines.put(line.rstrip("\n"))
    lines.put("")


def _next(lines: queue.Queue[str], end: float) -> str | None:
    try:
        return lines.get(timeout=max(0.0, end - time.monotonic())) or None
    except queue.Empty:
        return None
