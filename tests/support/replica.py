# SPDX-License-Identifier: Apache-2.0
"""Operators whose start does not end in READY at once: those that stand by, or wait for something to be installed.

``Operator`` starts one and awaits its READY. Here the addresses are chosen beforehand and the process is only launched.
"""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.cluster import eventually
from support.exposition import samples
from support.operator import COMMAND
from trainsnap_plane.ports import Lease, lease

JSON = dict[str, Any]
QUICK = {"leaderElect": True, "leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "500ms"}


class Replica:
    """One operator process. ``log`` holds its standard error."""

    def __init__(self, folder: Path, ports: dict[str, Lease], arguments: tuple[str, ...], config: JSON) -> None:
        self.log, self._out = folder / "log", folder / "out"
        self._ports = ports
        file = folder / "config.yaml"
        file.write_text(json.dumps(config))
        with self.log.open("ab") as log, self._out.open("ab") as out:
            self._process = subprocess.Popen(
                [*COMMAND, *arguments, "--config", str(file), "--log-format", "json"], stdout=out, stderr=log
            )

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process.poll() is None

    def lines(self) -> list[JSON]:
        """What it has logged so far."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    async def said(self) -> str:
        """What it has printed so far."""
        return self._out.read_text()

    def get(self, server: str, path: str) -> tuple[int, str]:
        """GET a path of its ``health`` or ``metrics`` server: HTTP status and text; 0 when nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._ports[server].port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    async def until(self, path: str, status: int, text: str = "", *, seconds: float = 30.0) -> str:
        """Await that its health server answers a path like that; returns the text of the answer."""

        async def look() -> tuple[int, str]:
            assert self.running, self.log.read_text()
            return self.get("health", path)

        what = f"{path} answers {status} {text!r}"
        return (await eventually(look, lambda a: a[0] == status and text in a[1], what=what, seconds=seconds))[1]

    def leads(self) -> bool:
        """Whether it says that it leads."""
        return self.metric("leader_election_master_status") == 1

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that carry these labels; 0 while nobody answers."""
        status, text = self.get("metrics", "/metrics")
        return sum(s.value for s in samples(text, name, **labels)) if status == 200 else 0.0

    def stop(self, within: float = 5.0) -> int:
        """SIGTERM; returns the exit code. Fails when it takes longer than ``within`` seconds."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(within)

    async def exit_code(self) -> int | None:
        """The exit code, once it has ended by itself."""
        return self._process.poll()

    def pause(self) -> None:
        """SIGSTOP: it is there, but does nothing until ``resume``."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, if it is still there."""
        self._process.kill()
        self._process.wait()


@contextmanager
def replica(folder: Path, *arguments: str, **config: JSON) -> Iterator[Replica]:
    """Launch ``trainsnap`` with these arguments and sections of the configuration; killed at the end of the block.

    ``folder`` must not exist yet.
    """
    folder.mkdir()
    ports = lease(["health", "metrics", "webhook", "status"])
    here = {name: f"127.0.0.1:{lent.port}" for name, lent in ports.items()}
    whole = {
        "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": here["health"]},
        "metrics": {"bindAddress": here["metrics"], "secureServing": False},
        "webhook": {"host": "127.0.0.1", "port": ports["webhook"].port},
        "statusServer": {"port": ports["status"].port},
        "clientConnection": {"qps": 0, "burst": 0},
        **config,
    }
    launched = Replica(folder, ports, arguments, whole)
    try:
        yield launched
    finally:
        launched.kill()
        for lent in ports.values():
            lent.release()
