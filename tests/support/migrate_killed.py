# SPDX-License-Identifier: Apache-2.0
"""Runs ``trainsnap migrate`` again and again, and kills it with SIGKILL at every write boundary there is, each once.

A program of its own: ``python -P migrate_killed.py KUBECONFIG NAMESPACE OPERATION JOURNAL``. It imports everything once
and forks for every run. A boundary is the moment before and after every writing request, and before, in the middle of
and after every line of the journal. It prints the number of kills when a run has ended by itself.
"""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trainsnap_api.transport import Transport
from trainsnap_controller.cli.tokens import TokenSource
from trainsnap_controller.migration import journal as journal_module
from trainsnap_controller.migration.command import Migration, Operation, Options
from trainsnap_controller.migration.report import Format, Progress, report

WRITES = ("create", "apply", "merge_patch", "delete")


class Boundaries:
    """Kills the process at the first boundary at which no earlier run was killed, after telling its parent which."""

    def __init__(self, seen: frozenset[str], pipe: int) -> None:
        self._seen, self._pipe = seen, pipe

    def reach(self, name: str) -> None:
        if name not in self._seen:
            os.write(self._pipe, name.encode())
            os.kill(os.getpid(), signal.SIGKILL)


class Watched:
    """A transport with boundaries around its writes; dry runs write nothing."""

    def __init__(self, transport: Transport, boundaries: Boundaries) -> None:
        self._transport, self._boundaries = transport, boundaries

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._transport, name)
        if name not in WRITES:
            return found

        async def write(*args: Any, **options: Any) -> Any:
            if options.get("dry_run"):
                return await found(*args, **options)
            target = args[1] if isinstance(args[1], str) else args[1]["metadata"]["name"]
            title = f"{name} {args[0].kind} {target}"
            self._boundaries.reach(f"before {title}")
            answer = await found(*args, **options)
            self._boundaries.reach(f"after {title}")
            return answer

        return write


def watch_journal(boundaries: Boundaries) -> None:
    """Put boundaries around and into every line, in this process only."""

    def write(self: journal_module.Journal, event: str, **fields: Any) -> None:
        title = f"line {event} {fields.get('name', '')}"
        boundaries.reach(f"before {title}")
        whole = io.BytesIO()
        original(journal_module.Journal(whole, self.now), event, **fields)
        half = len(whole.getvalue()) // 2
        self.stream.write(whole.getvalue()[:half])
        self.stream.flush()
        boundaries.reach(f"within {title}")
        self.stream.write(whole.getvalue()[half:])
        self.stream.flush()
        boundaries.reach(f"after {title}")

    original = journal_module.Journal.write
    journal_module.Journal.write = write  # type: ignore[method-assign]


async def migrate(kubeconfig: str, namespace: str, operation: str, path: str, boundaries: Boundaries) -> int:
    """One run, as the command line makes it."""
    async with await Transport.connect(kubeconfig=kubeconfig) as caller:
        tokens = TokenSource(caller)
        async with await Transport.connect(kubeconfig=kubeconfig, token_provider=tokens) as operator:
            watched: Any = Watched(caller, boundaries)
            writer: Any = Watched(operator, boundaries)
            sink = io.StringIO()
            migration = Migration(
                caller=watched,
                operator=writer,
                options=Options(namespace=namespace, journal=Path(path), parallel=4),
                report=report(Format.TABLE, sink, everything=True),
                progress=Progress(sink, time.monotonic),
                now=lambda: datetime.now(UTC),
            )
            code = await migration.run(Operation(operation))
            if code:
                print(sink.getvalue(), file=sys.stderr)
            return code


def main(kubeconfig: str, namespace: str, operation: str, path: str) -> int:
    """Fork until a run ends by itself. Returns its exit code."""
    seen: set[str] = set()
    while True:
        end, pipe = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(end)
            boundaries = Boundaries(frozenset(seen), pipe)
            watch_journal(boundaries)
            code = 1
            try:
                code = asyncio.run(migrate(kubeconfig, namespace, operation, path, boundaries))
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        os.close(pipe)
        with os.fdopen(end, "rb") as stream:
            name = stream.read().decode()
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            print(len(seen))
            return os.waitstatus_to_exitcode(status)
        assert name
        assert name not in seen
        seen.add(name)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
