# SPDX-License-Identifier: Apache-2.0
"""JobSets that vanish as soon as they are done (ttlSecondsAfterFinished): the result is kept, nothing runs twice."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from support.cluster import Cluster
from support.history import events_about, following
from support.objects import condition, runtime, runtime_spec, train_job
from support.operator import Operator
from support.pods import FINISH, Pods
from support.quiet import quiet, touched
from trainsnap_api.transport.resources import JOB_SET, TRAIN_JOB

pytestmark = [pytest.mark.anyio, pytest.mark.full]

JSON = dict[str, Any]
How = Literal["succeeded", "failed"]
RESULT: dict[How, tuple[str, str]] = {
    "succeeded": ("Complete", "AllJobsCompleted"),
    "failed": ("Failed", "FailedJobs"),
}


def vanishing(seconds: int, *, ends: How | None = None) -> JSON:
    """The spec of a runtime whose JobSets vanish after so many seconds; with ``ends`` its pods end by themselves."""
    spec = runtime_spec()
    spec["template"]["spec"]["ttlSecondsAfterFinished"] = seconds
    job = spec["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]
    job["backoffLimit"] = 0
    if ends:
        job["template"]["metadata"] = {"annotations": {FINISH: ends}}
    return spec


async def recorded(cluster: Cluster, name: str, how: How = "succeeded") -> None:
    """Await that a job's result is in its status."""
    kind, reason = RESULT[how]
    job = await cluster.until(TRAIN_JOB, name, lambda seen: (seen.get("status") or {}).get("conditions"))
    found = condition(job, kind)
    assert found is not None, job["status"]
    assert found["reason"] == reason


@pytest.mark.parametrize("how", ["succeeded", "failed"])
async def test_the_result_outlives_the_jobset(operator: Operator, cluster: Cluster, how: How) -> None:
    await Pods.on(cluster)
    names = {f"{seconds}-{number}": seconds for seconds in (0, 1) for number in range(4)}
    for seconds in (0, 1):
        await cluster.create(runtime(f"rt-{seconds}", cluster.namespace, spec=vanishing(seconds, ends=how)))
    async with following(cluster, JOB_SET) as job_sets:
        for name, seconds in names.items():
            await cluster.create(train_job(f"job-{name}", cluster.namespace, f"rt-{seconds}"))
        for name in names:
            await job_sets.until_gone(f"job-{name}")
            await recorded(cluster, f"job-{name}", how)
        await touched(operator, cluster, *(f"job-{name}" for name in names))
        assert {name: job_sets.made(f"job-{name}") for name in names} == dict.fromkeys(names, 1)
    for name in names:
        assert await events_about(cluster, f"job-{name}") == []


async def test_an_operator_that_sleeps_meanwhile_hears_the_last_words(operator: Operator, cluster: Cluster) -> None:
    pods = await Pods.on(cluster)
    await cluster.create(runtime("rt", cluster.namespace, spec=vanishing(0)))
    await cluster.create(train_job("good", cluster.namespace))
    await cluster.create(train_job("bad", cluster.namespace))
    await cluster.create(train_job("awaited", cluster.namespace))
    for name in ("good", "bad"):
        await pods.running(name)
        await cluster.until(TRAIN_JOB, name, lambda seen: (seen.get("status") or {}).get("jobsStatus"))
    async with following(cluster, JOB_SET) as job_sets:
        operator.pause()
        await pods.finish("good")
        await pods.finish("bad", "failed")
        await job_sets.until_gone("good")
        await job_sets.until_gone("bad")
        operator.resume()
        await recorded(cluster, "good")
        await recorded(cluster, "bad", "failed")
        await touched(operator, cluster, "good", "bad")
        assert (job_sets.made("good"), job_sets.made("bad")) == (0, 0)
    for name in ("good", "bad"):
        assert await events_about(cluster, name) == []


async def test_what_happened_during_an_outage_is_done_again_and_told(operator: Operator, cluster: Cluster) -> None:
    pods = await Pods.on(cluster)
    await cluster.create(runtime("rt", cluster.namespace, spec=vanishing(0)))
    await cluster.create(train_job("job", cluster.namespace))
    await pods.running("job")
    await cluster.until(TRAIN_JOB, "job", lambda seen: (seen.get("status") or {}).get("jobsStatus"))
    async with following(cluster, JOB_SET) as job_sets:
        operator.kill()
        await pods.finish("job")
        await job_sets.until_gone("job")
        operator.start()
        await cluster.until(JOB_SET, "job")
        await pods.running("job")
        await pods.finish("job")
        await job_sets.until_gone("job")
        await recorded(cluster, "job")
        await quiet(operator)
        assert job_sets.made("job") == 1
    (told,) = await events_about(cluster, "job")
    assert told[0] == "JobSetRebuilt"
    assert "was gone before it was seen to finish" in told[1]
