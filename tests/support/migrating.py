# SPDX-License-Identifier: Apache-2.0
"""``trainsnap migrate`` as its users call it, by its command line; in a thread, since a process costs seconds."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from trainsnap_controller.cli import main

JSON = dict[str, Any]


@dataclass(frozen=True)
class Ran:
    """What a run said."""

    code: int
    out: str
    err: str

    @property
    def jobs(self) -> dict[str, JSON]:
        """The rows of a JSON report by job."""
        return {row["name"]: row for row in self.report["jobs"]}

    @property
    def report(self) -> JSON:
        """The JSON report."""
        found: JSON = json.loads(self.out)
        return found

    def result(self, job: str) -> tuple[str, str]:
        """Result and detail of one job."""
        return self.jobs[job]["result"], self.jobs[job]["detail"]


@dataclass(frozen=True)
class Migrate:
    """Runs the command against one cluster, on one namespace."""

    kubeconfig: Path
    namespace: str
    folder: Path

    async def __call__(self, operation: str, *arguments: str, output: str = "json") -> Ran:
        """Run it to its end."""
        wanted = ["--kubeconfig", str(self.kubeconfig), "-n", self.namespace, "-o", output, *arguments]
        if operation in ("apply", "finalize", "rollback", "status"):
            wanted += ["--journal", str(self.folder / "journal.jsonl")]
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = await anyio.to_thread.run_sync(main, ["migrate", operation, *wanted])
        return Ran(code, out.getvalue(), err.getvalue())
