# SPDX-License-Identifier: Apache-2.0
"""How fast ``trainsnap migrate apply`` is, beside bare creates of the same snapshots in the same run.

Run by ``make bench-migrate``, on a plane of its own. Both write as the operator's ServiceAccount, past the guard, with
as many requests at once. They take turns in rounds, so that a machine whose speed changes treats both alike. Memory is
that of the migrating process, by round. ``--distinct`` gives every job content of its own, which no two jobs of one
runtime have.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from support.identity import service_account
from support.legacy import config_map
from support.objects import runtime, train_job
from trainsnap_api.transport import Transport
from trainsnap_api.transport import resources as r
from trainsnap_controller.cli import manifests
from trainsnap_controller.cli.install import install
from trainsnap_controller.migration.command import Migration, Operation, Options
from trainsnap_controller.migration.report import Format, Progress, report
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.snapshot.document import Origin, snapshot_of
from trainsnap_plane import Plane

JSON = dict[str, Any]
AT_ONCE = 16
RUNTIMES = 5
"""In each round, so that 5,000 jobs run on 50."""
WANTED_RATIO = 0.8
WANTED_GROWTH_MIB = 16.0


async def main(jobs: int, rounds: int, distinct: bool) -> int:
    """Measure with that many jobs. Returns 1 when a promise is not kept."""
    with tempfile.TemporaryDirectory() as folder, Plane.start(Path(folder) / "plane", "api") as plane:
        kubeconfig = str(plane.kubeconfig)
        async with await Transport.connect(kubeconfig=kubeconfig, probe=True) as admin:
            wanted = [obj for obj in manifests.base() if "Webhook" not in obj["kind"]]
            await install(admin, wanted, pause=asyncio.sleep)
            async with service_account(kubeconfig, admin, "kubeflow-system", "trainsnap") as operator:
                return await _measure(admin, operator, Path(folder), jobs, rounds, distinct)


async def _measure(admin: Transport, operator: Transport, folder: Path, jobs: int, rounds: int, distinct: bool) -> int:
    size, bare, migrated, memory = jobs // rounds, 0.0, 0.0, []
    for number in range(rounds):
        namespace = f"round-{number}"
        await admin.create(r.NAMESPACE, {"metadata": {"name": namespace}})
        snapshots = await _left_by_reference(admin, namespace, size, distinct)
        # Whoever comes second finds a larger database: they take turns in being that.
        for kind in ("bare", "migrate") if number % 2 else ("migrate", "bare"):
            if kind == "bare":
                bare += await _bare(admin, operator, namespace, snapshots)
            else:
                migrated += await _migrate(admin, operator, folder, namespace, size)
        del snapshots
        memory.append(_resident_mib())
        print(f"round {number + 1} of {rounds}: {memory[-1]:.0f} MiB", flush=True)
    ratio = bare / migrated
    growth = memory[-1] - memory[0]
    print(f"bare creates   {jobs / bare:8.1f} a second")
    print(f"migrate apply  {jobs / migrated:8.1f} a second, {ratio:.0%} of it (promised: {WANTED_RATIO:.0%})")
    print(f"memory         {growth:+8.1f} MiB from the first round to the last")
    started, before = time.monotonic(), _resident_mib()
    await _run(admin, operator, Operation.VERIFY, Options(parallel=AT_ONCE))
    seconds, whole = time.monotonic() - started, _resident_mib() - before
    print(f"verify         {jobs / seconds:8.1f} a second, {whole:+.1f} MiB for all {jobs} in one run")
    kept = ratio >= WANTED_RATIO and max(growth, whole) <= WANTED_GROWTH_MIB
    return 0 if kept else 1


async def _left_by_reference(admin: Transport, namespace: str, size: int, distinct: bool) -> list[JSON]:
    """Jobs with their ConfigMaps. Returns the snapshots that they will get."""
    stored = []
    for number in range(size if distinct else RUNTIMES):
        env = [{"name": f"SETTING_{n}", "value": f"value {n} of {number}"} for n in range(25)]
        stored.append(await admin.create(r.TRAINING_RUNTIME, runtime(f"rt-{number}", namespace, torch=True, env=env)))
    snapshots: list[JSON] = [{}] * size

    async def make(number: int) -> None:
        kept = stored[number % len(stored)]
        job = await admin.create(r.TRAIN_JOB, train_job(f"job-{number:05}", namespace, kept["metadata"]["name"]))
        await admin.create(r.CONFIG_MAP, config_map(job, kept))
        snapshots[number] = snapshot_of(
            Job.from_json(job), kept, origin=Origin.CONFIG_MAP, captured_at=datetime.now(UTC)
        )

    await _side_by_side(size, make)
    return snapshots


async def _bare(admin: Transport, operator: Transport, namespace: str, snapshots: list[JSON]) -> float:
    """Seconds for creates of the same objects, under other names, by a client that does nothing else."""

    async def create(number: int) -> None:
        snapshot = snapshots[number]
        metadata = {**snapshot["metadata"], "name": f"bare-{number:05}"}
        await operator.create(
            r.TRAINING_RUNTIME_SNAPSHOT, {**snapshot, "metadata": metadata}, field_validation="Strict"
        )

    started = time.monotonic()
    await _side_by_side(len(snapshots), create)
    return time.monotonic() - started


async def _migrate(admin: Transport, operator: Transport, folder: Path, namespace: str, size: int) -> float:
    """Seconds of ``trainsnap migrate apply`` from connected to done."""
    options = Options(
        namespace=namespace,
        parallel=AT_ONCE,
        journal=folder / "journal.jsonl",
        legacy_before=datetime(2100, 1, 1, tzinfo=UTC),
    )
    started = time.monotonic()
    done = await _run(admin, operator, Operation.APPLY, options)
    assert done == size
    return time.monotonic() - started


async def _run(admin: Transport, operator: Transport, operation: Operation, options: Options) -> int:
    """One run of the command; its report goes nowhere. Returns the number of jobs."""
    caller: Any = admin
    with Path(os.devnull).open("w") as nowhere:  # noqa: ASYNC230
        migration = Migration(
            caller=caller,
            operator=operator,
            options=options,
            report=report(Format.TABLE, nowhere, everything=False),
            progress=Progress(nowhere, time.monotonic),
        )
        assert await migration.run(operation) == 0
    return migration.sums.jobs


async def _side_by_side(count: int, work: Callable[[int], Awaitable[None]]) -> None:
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await work(number)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(worker())


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--distinct", action="store_true")
    arguments = parser.parse_args()
    sys.exit(asyncio.run(main(arguments.jobs, arguments.rounds, arguments.distinct)))
