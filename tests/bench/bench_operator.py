# SPDX-License-Identifier: Apache-2.0
"""How fast the operator makes JobSets: many TrainJobs at once on a plane of its own.

Run by ``make bench``. Prints jobs per second from the first create to the last JobSet, the CPU time per job of
everybody who shares the machine, the operator's memory and requests per job, and the time of a restart until the
caches are in sync again. Beside them stands the bare limit of the same control plane: as many jobs' writes by a lean
client in the same run. How far the operator is, is asked with a list of one: whole lists cost more than the operator.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from support.objects import runtime, train_job
from support.operator import Operator
from trainsnap_api.transport import Transport
from trainsnap_api.transport import resources as r
from trainsnap_plane import Plane

JSON = dict[str, Any]
NAMESPACE, BARE = "bench", "bare"
AT_ONCE = 16


async def main(jobs: int) -> None:
    """Measure with that many jobs."""
    with tempfile.TemporaryDirectory() as folder, Plane.start(Path(folder) / "plane", "api") as plane:
        operator = Operator(plane.kubeconfig, Path(folder) / "log")
        operator.start()
        try:
            async with await Transport.connect(kubeconfig=str(plane.kubeconfig), probe=True) as api:
                for namespace in (NAMESPACE, BARE):
                    await api.create(r.NAMESPACE, {"metadata": {"name": namespace}})
                    await api.create(r.TRAINING_RUNTIME, runtime("rt", namespace, torch=True, num_nodes=2))
                bare = await _bare_rate(api, jobs)
                pids = {component.name: component.pid for component in plane.status() if component.pid}
                await _measure(api, operator, jobs, bare, pids)
        finally:
            operator.stop()


async def _bare_rate(api: Transport, jobs: int) -> float:
    """Jobs per second when a client does nothing but the two writes of a job, as creates of the same objects."""
    runtime_object = await api.get(r.TRAINING_RUNTIME, "rt", BARE)

    async def writes(number: int) -> None:
        name = f"bare-{number}"
        await api.create(r.TRAIN_JOB, train_job(name, BARE, managedBy="kueue.x-k8s.io/multikueue"))
        # Two objects of the size of a snapshot and a JobSet.
        for suffix in ("", "-2"):
            metadata = {"name": name + suffix, "namespace": BARE}
            await api.create(r.JOB_SET, {"metadata": metadata, "spec": runtime_object["spec"]["template"]["spec"]})

    started = time.monotonic()
    await _side_by_side(jobs, writes)
    return jobs / (time.monotonic() - started)


async def _measure(api: Transport, operator: Operator, jobs: int, bare: float, pids: dict[str, int]) -> None:
    cpu = operator.metric("process_cpu_seconds_total")
    requests = operator.metric("rest_client_requests_total")
    others = {name: _cpu_seconds(pid) for name, pid in pids.items()}

    async def create(number: int) -> None:
        await api.create(r.TRAIN_JOB, train_job(f"job-{number}", NAMESPACE))

    started = time.monotonic()
    await _side_by_side(jobs, create)
    while await _job_sets(api) < jobs:  # noqa: ASYNC110 - what is waited for is in another process
        await asyncio.sleep(0.1)
    seconds = time.monotonic() - started
    spent = {name: (_cpu_seconds(pid) - others[name]) / jobs * 1000 for name, pid in pids.items()}
    spent["operator"] = (operator.metric("process_cpu_seconds_total") - cpu) / jobs * 1000
    sent = operator.metric("rest_client_requests_total") - requests
    memory = operator.metric("process_resident_memory_bytes") / 2**20
    operator.stop()
    restarted = time.monotonic()
    operator.start()
    print(f"jobs: {jobs}")
    print(f"rate: {jobs / seconds:.1f} jobs/s (bare writes of the same objects, {AT_ONCE} at once: {bare:.1f} jobs/s)")
    print("CPU, ms per job: " + ", ".join(f"{name} {value:.2f}" for name, value in spent.items()))
    print(f"operator: {sent / jobs:.2f} requests per job, {memory:.0f} MB resident")
    print(f"restart until ready: {time.monotonic() - restarted:.1f} s")


async def _job_sets(api: Transport) -> int:
    """How many there are."""
    found = (await api.request("GET", r.JOB_SET.path(NAMESPACE), params={"limit": 1})).json()
    return len(found["items"]) + (found["metadata"].get("remainingItemCount") or 0)


def _cpu_seconds(pid: int) -> float:
    """What a process has used so far, itself and in the kernel (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _side_by_side(count: int, what: Any) -> None:
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with limit:
            await what(number)

    async with asyncio.TaskGroup() as tasks:
        for number in range(count):
            tasks.create_task(one(number))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=500)
    asyncio.run(main(parser.parse_args().jobs))
