# SPDX-License-Identifier: Apache-2.0
"""Random runtimes, jobs and patches against a real API server: what is built is accepted, or refused by name.

Once past admission, straight into the builders, so that whatever the schemas admit is tried; and once through
everything, as a user would, with the operator's log watched.
"""

from __future__ import annotations

import asyncio
import collections
import copy
import functools
from dataclasses import dataclass, field
from random import Random
from typing import Any

import anyio
import pytest

from support import offline_golden as offline
from support.cluster import Cluster, eventually
from support.objects import API_VERSION, condition
from support.operator import Operator
from support.schema_values import NAMES, Values
from trainsnap_api.transport import ApiError, KindNotServed, Transport
from trainsnap_api.transport.resources import JOB_SET, TRAIN_JOB, TRAINING_RUNTIME
from trainsnap_controller import blocked
from trainsnap_controller.reconcile.act import lasting
from trainsnap_controller.runtime.errors import BuildError
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.runtime.observed import Observed
from trainsnap_controller.runtime.registry import standard

pytestmark = [pytest.mark.anyio, pytest.mark.api]

JSON = dict[str, Any]

BUILDS = 400
"""Pairs of a runtime and a job that are built and shown to the API server."""
JOBS = 60
"""Pairs that go the whole way through admission and operator."""
AT_ONCE = 8
DENSITIES = (0.03, 0.08, 0.2, 0.35, 0.5)
FRAMEWORK = standard(ssh_key_pair=lambda: (b"private", b"public"), curve_secret_key=lambda: bytes(32))
OURS = ("unknown field", "duplicate field", "strict decoding error", "metadata.ownerReferences")
"""Words of refusals that no runtime and no job can cause: the document itself would be wrong."""


@functools.cache
def schemas() -> dict[str, JSON]:
    return offline.schemas()


def pair(seed: int, namespace: str) -> tuple[JSON, JSON]:
    """A runtime and a job of the same name that starts from it."""
    values = Values(Random(seed), DENSITIES[seed % len(DENSITIES)])
    job_schema = schemas()["TrainJob"]["properties"]["spec"]
    runtime_schema = schemas()["TrainingRuntime"]["properties"]["spec"]
    spec = values.of(runtime_schema, "spec")
    _satisfy_rules(spec, values, runtime_schema["properties"]["template"]["properties"]["spec"])
    job = values.of(job_schema, "spec")
    if values.random.random() < 0.8:
        job["trainer"] = values.of(job_schema["properties"]["trainer"], "trainer")
    meta = {"name": f"fuzz-{seed}", "namespace": namespace}
    job["runtimeRef"] = {"name": meta["name"], "kind": "TrainingRuntime", "apiGroup": "trainer.kubeflow.org"}
    job["managedBy"] = "trainer.kubeflow.org/trainjob-controller"
    return (
        {"apiVersion": API_VERSION, "kind": "TrainingRuntime", "metadata": dict(meta), "spec": spec},
        {"apiVersion": API_VERSION, "kind": "TrainJob", "metadata": dict(meta), "spec": job},
    )


def _satisfy_rules(spec: JSON, values: Values, schema: JSON) -> None:
    """Without this most runtimes would be refused at once: by CEL rules, which the generator does not know, or because
    a pod without containers is all that they have."""
    template = spec.setdefault("template", {}).setdefault("spec", {})
    template.setdefault("replicatedJobs", values.of(schema["properties"]["replicatedJobs"], "replicatedJobs"))
    for item in template["replicatedJobs"]:
        pod = item.setdefault("template", {})
        for name in ("spec", "template", "spec"):
            pod = pod.setdefault(name, {})
        if not pod.get("containers") and values.random.random() < 0.95:
            pod["containers"] = [{"name": values.random.choice(NAMES), "image": "acme/train:1"}]
    for policy in template.get("volumeClaimPolicies", []):
        policy.setdefault("templates", [])
    if "startupPolicy" in template:
        for item in template["replicatedJobs"]:
            item.pop("dependsOn", None)
    if "mlPolicy" in spec:
        for kind in [kind for kind in ("torch", "mpi", "flux", "jax", "xgboost") if kind in spec["mlPolicy"]][1:]:
            del spec["mlPolicy"][kind]


@dataclass
class Tally:
    """What became of the pairs, and what should not have."""

    counts: collections.Counter[str] = field(default_factory=collections.Counter)
    faults: list[str] = field(default_factory=list)

    def refused(self, what: str, seed: int, error: ApiError) -> None:
        """The API server said no: fine if it is about the content, and in words that a condition can repeat."""
        self.counts[f"{what} refused"] += 1
        known = lasting(error) and not isinstance(error, KindNotServed)
        if not known or not error.message or any(word in error.message for word in OURS):
            self.faults.append(f"seed {seed}: {what}: {error.status} {error.message[:300]}")


async def in_turns(count: int, work: Any) -> None:
    """``await work(seed)`` for every seed, several at a time."""
    limiter = anyio.CapacityLimiter(AT_ONCE)

    async def one(seed: int) -> None:
        async with limiter:
            await work(seed)

    async with asyncio.TaskGroup() as tasks:
        for seed in range(count):
            tasks.create_task(one(seed))


async def test_what_is_built_is_accepted_or_refused_by_name(
    operator: Operator, admin: Transport, cluster: Cluster
) -> None:
    tally = Tally()

    async def build(seed: int) -> None:
        runtime, job = pair(seed, cluster.namespace)
        # Past our own webhook: what is to be found out is what the builders do with it.
        runtime["metadata"]["labels"] = {"trainer.kubeflow.org/webhook-validation": "disabled"}
        try:
            stored = await admin.create(TRAINING_RUNTIME, runtime, dry_run=True)
        except ApiError as error:
            tally.refused("runtime", seed, error)
            return
        job["metadata"].update(uid=f"uid-{seed}", generation=1, creationTimestamp="2026-05-05T00:00:00Z")
        try:
            plan = FRAMEWORK.build(
                Job.from_json(offline.defaulted(copy.deepcopy(job), schemas()["TrainJob"])),
                stored.get("spec"),
                Observed(),
            )
        except BuildError as error:
            assert error.field, seed
            assert error.rule, seed
            tally.counts["not built"] += 1
            return
        for component in plan.components:
            try:
                await admin.apply(component.resource, component.document(), field_manager="trainer", dry_run=True)
            except KindNotServed:
                tally.counts["kind not installed"] += 1
            except ApiError as error:
                tally.refused(component.resource.kind, seed, error)
            else:
                tally.counts[f"{component.resource.kind} accepted"] += 1

    await in_turns(BUILDS, build)
    print(dict(tally.counts))
    assert not tally.faults, "\n".join(tally.faults)
    assert tally.counts["JobSet accepted"] + tally.counts["JobSet refused"] >= 300, tally.counts
    assert tally.counts["not built"] > 0, tally.counts


async def test_jobs_start_or_say_why_not(operator: Operator, cluster: Cluster) -> None:
    tally = Tally()
    made: set[str] = set()
    already = operator.log.stat().st_size

    async def create(seed: int) -> None:
        runtime, job = pair(1000 + seed, cluster.namespace)
        for what, obj in (("runtime", runtime), ("job", job)):
            try:
                await cluster.create(obj)
            except ApiError as error:
                tally.refused(what, seed, error)
                assert "an error in trainsnap" not in error.message, seed
                return
        made.add(job["metadata"]["name"])

    async def settled() -> dict[str, str]:
        """Each job that has come to something, and what."""
        job_sets = {item["metadata"]["name"] for item in (await cluster.api.list(JOB_SET, cluster.namespace)).items}
        found = {}
        for item in (await cluster.api.list(TRAIN_JOB, cluster.namespace)).items:
            why = condition(item, "Blocked")
            if why is not None:
                assert why["reason"] in {reason.name for reason in blocked.REASONS}
                assert why["message"]
                found[item["metadata"]["name"]] = why["reason"]
            elif (failed := condition(item, "Failed")) is not None:
                assert failed["reason"] == "DeadlineExceeded"
                found[item["metadata"]["name"]] = "ran out of time"
            elif item["metadata"]["name"] in job_sets:
                found[item["metadata"]["name"]] = "started"
        return found

    await in_turns(JOBS, create)
    became = await eventually(settled, lambda seen: seen.keys() == made, what="every job came to something", seconds=60)
    tally.counts.update(became.values())
    print(dict(tally.counts))
    assert not tally.faults, "\n".join(tally.faults)
    assert tally.counts["started"] > 0, tally.counts
    with operator.log.open() as log:
        log.seek(already)
        lines = log.read()
    assert "Traceback" not in lines
    assert "reconcile broke" not in lines
