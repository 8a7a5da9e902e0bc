# SPDX-License-Identifier: Apache-2.0
"""How long creates take while the operator is asked about each: many at once, and one after the other.

    python tests/bench/bench_webhook.py --kubeconfig F [--jobs 200] [--rounds 3]

Needs a plane with ``trainsnap dev`` on it. Every create is a dry run, so that what is measured is admission and not
what the operator makes of the jobs; each goes through both webhooks and reads the runtime from the API server. The
same creates are then repeated for a kind of our group that no webhook is asked about, to show what the API server
takes by itself.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from trainsnap_api.transport import ApiError, Transport, TransportSettings
from trainsnap_api.transport.resources import CONFIG_MAP, NAMESPACE, TRAIN_JOB, TRAINING_RUNTIME

JSON = dict[str, Any]
API_VERSION = "trainer.kubeflow.org/v1alpha1"


def job(namespace: str, index: int) -> JSON:
    patch = {"manager": "acme.io/bench"}
    spec = {
        "runtimeRef": {"name": "rt", "kind": "TrainingRuntime"},
        "trainer": {"numNodes": 2},
        "runtimePatches": [patch],
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "TrainJob",
        "metadata": {"name": f"j{index}", "namespace": namespace},
        "spec": spec,
    }


def runtime(namespace: str) -> JSON:
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    pod = {"spec": {"containers": [{"name": "node", "image": "acme/train:1"}]}}
    jobs = [{"name": "node", "template": {"metadata": {"labels": labels}, "spec": {"template": pod}}}]
    spec = {"mlPolicy": {"torch": {}}, "template": {"spec": {"replicatedJobs": jobs}}}
    return {
        "apiVersion": API_VERSION,
        "kind": "TrainingRuntime",
        "metadata": {"name": "rt", "namespace": namespace},
        "spec": spec,
    }


async def timed(call: Awaitable[Any], failed: list[str]) -> float:
    began = time.perf_counter()
    try:
        await call
    except ApiError as error:
        failed.append(str(error))
    return time.perf_counter() - began


async def burst(make: Callable[[int], Awaitable[Any]], count: int) -> tuple[list[float], float, list[str]]:
    """Everything at once: the time of each, the time of all, and what failed."""
    failed: list[str] = []
    began = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(timed(make(index), failed)) for index in range(count)]
    return [task.result() for task in running], time.perf_counter() - began, failed


def report(title: str, times: list[float], whole: float, failed: list[str]) -> None:
    ordered = sorted(times)
    p50, p99 = statistics.median(ordered), ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    rate = len(times) / whole
    print(
        f"{title:34} p50 {p50 * 1e3:7.1f} ms   p99 {p99 * 1e3:7.1f} ms   max {ordered[-1] * 1e3:7.1f} ms   "
        f"{rate:6.1f}/s   failed {len(failed)}" + (f" ({failed[0][:120]})" if failed else "")
    )


async def main(kubeconfig: str, count: int, rounds: int) -> None:
    namespace = f"bench-{uuid.uuid4().hex[:8]}"
    settings = TransportSettings(max_concurrent_requests=count)
    async with await Transport.connect(kubeconfig=kubeconfig, settings=settings, probe=True) as api:
        await api.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        await api.create(TRAINING_RUNTIME, runtime(namespace))

        def train_job(index: int) -> Awaitable[Any]:
            return api.create(TRAIN_JOB, job(namespace, index), dry_run=True)

        def config_map(index: int) -> Awaitable[Any]:
            metadata = {"name": f"c{index}", "namespace": namespace}
            return api.create(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}, dry_run=True)

        for _ in range(rounds):
            report(f"{count} TrainJobs at once", *await burst(train_job, count))
        report(f"{count} ConfigMaps at once", *await burst(config_map, count))
        began, failed = time.perf_counter(), list[str]()
        alone = [await timed(train_job(index), failed) for index in range(50)]
        report("50 TrainJobs, one by one", alone, time.perf_counter() - began, failed)
        await api.delete(TRAINING_RUNTIME, "rt", namespace)
        await api.delete(NAMESPACE, namespace)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    asyncio.run(main(given.kubeconfig, given.jobs, given.rounds))
