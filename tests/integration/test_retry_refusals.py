# SPDX-License-Identifier: Apache-2.0
"""A job whose objects the API server refuses says so in its words, is tried again ever more slowly, and heals."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import anyio
import pytest

from support.cluster import Cluster, eventually
from support.history import following
from support.objects import condition, runtime, train_job
from support.operator import Operator
from trainsnap_api.transport import ApiError
from trainsnap_api.transport.resources import (
    JOB_SET,
    TRAIN_JOB,
    VALIDATING_ADMISSION_POLICY,
    VALIDATING_ADMISSION_POLICY_BINDING,
)
from trainsnap_plane import Plane

pytestmark = [pytest.mark.anyio, pytest.mark.api]

JSON = dict[str, Any]
WORDS = "no JobSets before noon"
SECONDS = 5.0
MOST_ATTEMPTS = 12
"""Within SECONDS. The pauses are 5 ms, doubled each time: the eleventh attempt would be after 5.1 s."""


class Refusing:
    """An admission policy that refuses all JobSets of a namespace: a cause that the user cannot see in the job."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._name = f"no-job-sets-{cluster.namespace}"

    async def start(self) -> None:
        """Put it in force."""
        rule = {
            "apiGroups": [JOB_SET.group],
            "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["jobsets"],
        }
        policy = {
            "metadata": {"name": self._name},
            "spec": {
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": "false", "message": WORDS}],
            },
        }
        here = {"matchLabels": {"kubernetes.io/metadata.name": self._cluster.namespace}}
        binding = {
            "metadata": {"name": self._name},
            "spec": {
                "policyName": self._name,
                "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": here},
            },
        }
        await self._cluster.api.create(VALIDATING_ADMISSION_POLICY, policy)
        await self._cluster.api.create(VALIDATING_ADMISSION_POLICY_BINDING, binding)
        await eventually(self._refuses, bool, what="the policy is in force", seconds=60)

    async def stop(self) -> None:
        """Take it away."""
        await self._cluster.delete(VALIDATING_ADMISSION_POLICY_BINDING, self._name)
        await self._cluster.delete(VALIDATING_ADMISSION_POLICY, self._name)

    async def _refuses(self) -> bool:
        pod = {"spec": {"containers": [{"name": "a", "image": "a"}]}}
        job_set = {
            "metadata": {"name": "probe", "namespace": self._cluster.namespace},
            "spec": {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": pod}}}]},
        }
        try:
            await self._cluster.api.create(JOB_SET, job_set, dry_run=True)
        except ApiError as error:
            return WORDS in error.message
        return False


@pytest.fixture
async def refusing(cluster: Cluster) -> AsyncIterator[Refusing]:
    policy = Refusing(cluster)
    await policy.start()
    yield policy
    try:
        await policy.stop()
    except ApiError as error:
        assert error.status == 404


def attempts(plane: Plane, namespace: str) -> list[datetime]:
    """When the API server was asked for the JobSet of the job, oldest first."""
    return [
        datetime.fromisoformat(entry["requestReceivedTimestamp"])
        for entry in plane.audit()
        if entry["verb"] == "patch"
        and entry.get("objectRef", {}).get("resource") == "jobsets"
        and entry["objectRef"].get("namespace") == namespace
    ]


async def test_a_refusal_is_said_retried_slowly_and_healed(
    local_plane: Plane, operator: Operator, cluster: Cluster, refusing: Refusing
) -> None:
    await cluster.create(runtime("rt", cluster.namespace))
    async with following(cluster, TRAIN_JOB) as history:
        await cluster.create(train_job("job", cluster.namespace))
        job = await cluster.until(TRAIN_JOB, "job", lambda seen: condition(seen, "Blocked"))
        blocked = condition(job, "Blocked")
        assert blocked is not None
        assert (blocked["status"], blocked["reason"]) == ("True", "ApplyFailed")
        assert blocked["message"].startswith("the API server refused JobSet job: ")
        assert WORDS in blocked["message"]
        await anyio.sleep(SECONDS)  # not a wait for something: the claim is about this time
        times = attempts(local_plane, cluster.namespace)
        assert 5 <= len(times) < MOST_ATTEMPTS + 1, times
        pauses = [(later - earlier).total_seconds() for earlier, later in itertools.pairwise(times)]
        assert pauses[-1] > 4 * pauses[len(pauses) // 2] > 0, "ever more slowly"
        assert (await cluster.get(TRAIN_JOB, "job"))["metadata"]["resourceVersion"] == job["metadata"][
            "resourceVersion"
        ], "the condition is written once, not with every attempt"
        await refusing.stop()
        await cluster.until(JOB_SET, "job", seconds=40)
        await cluster.until(TRAIN_JOB, "job", lambda seen: condition(seen, "Blocked") is None)
    assert history.conditions("job") == {("Blocked", "True", "ApplyFailed")}
    events = [e for e in await cluster.events_of("job") if e["reason"] == "TrainJobResourcesCreationFailed"]
    assert len(events) == 1, "one event with a count"
    assert WORDS in events[0]["note"]
    assert "Traceback" not in operator.log.read_text()


async def test_a_paused_job_that_is_refused_can_be_deleted_and_made_again(
    operator: Operator, cluster: Cluster, refusing: Refusing
) -> None:
    await cluster.create(runtime("rt", cluster.namespace))
    await cluster.create(train_job("job", cluster.namespace, suspend=True))
    job = await cluster.until(TRAIN_JOB, "job", lambda seen: condition(seen, "Blocked"))
    assert condition(job, "Suspended") is not None, "what can be said of the job is said all the same"
    await cluster.delete(TRAIN_JOB, "job")
    await cluster.until_gone(TRAIN_JOB, "job")
    await refusing.stop()
    # A snapshot of the earlier job may be there still, where no garbage collector runs: it is not the new job's.
    await cluster.create(train_job("job", cluster.namespace, suspend=True))
    await cluster.until(JOB_SET, "job", seconds=40)
    await cluster.until(TRAIN_JOB, "job", lambda seen: condition(seen, "Blocked") is None)


async def test_a_document_that_cannot_even_be_read_is_a_refusal_too(operator: Operator, cluster: Cluster) -> None:
    """The API server answers 500 to a list that has a key twice; it is not its fault, and no retry helps."""
    ports = [{"containerPort": 80}, {"containerPort": 80, "protocol": ""}]
    await cluster.create(runtime("rt", cluster.namespace, ports=ports))
    await cluster.create(train_job("job", cluster.namespace))
    job = await cluster.until(TRAIN_JOB, "job", lambda seen: condition(seen, "Blocked"))
    blocked = condition(job, "Blocked")
    assert blocked is not None
    assert blocked["reason"] == "ApplyFailed"
    assert "ports: duplicate entries for key" in blocked["message"]
