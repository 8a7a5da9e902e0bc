# SPDX-License-Identifier: Apache-2.0
"""What the reference leaves in a cluster: a job's ConfigMap with the whole runtime object, and its JobSet."""

from __future__ import annotations

from typing import Any

from support.cluster import Cluster
from trainsnap_api.transport.resources import (
    CLUSTER_TRAINING_RUNTIME,
    CONFIG_MAP,
    JOB_SET,
    TRAIN_JOB,
    TRAINING_RUNTIME,
)
from trainsnap_controller.migration.handback import yaml_text
from trainsnap_controller.migration.legacy import name_of
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.runtime.observed import Observed
from trainsnap_controller.runtime.registry import standard

JSON = dict[str, Any]
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


async def live_runtime(cluster: Cluster, job: JSON) -> JSON:
    """The runtime that a TrainJob names, as the API server has it now."""
    reference = job["spec"]["runtimeRef"]
    resource = TRAINING_RUNTIME if reference["kind"] == "TrainingRuntime" else CLUSTER_TRAINING_RUNTIME
    return await cluster.get(resource, reference["name"])


def config_map(job: JSON, runtime: JSON | None = None, *, text: str | None = None, **fields: Any) -> JSON:
    """The ConfigMap of a stored TrainJob: the whole runtime object, or any text."""
    view = Job.from_json(job)
    if text is None and runtime is not None:
        annotations = {LAST_APPLIED: '{"kind":"noise"}', **runtime["metadata"].get("annotations", {})}
        text = yaml_text({**runtime, "metadata": {**runtime["metadata"], "annotations": annotations}})
    data = {} if text is None else {"data": {"runtime": text}}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": view.child_metadata(name_of(view.name)),
        **data,
        **fields,
    }


def job_set(job: JSON, spec: JSON) -> JSON:
    """The JobSet that the reference builds of a stored TrainJob: nothing of trainsnap's on it."""
    return standard().build(Job.from_json(job), spec, Observed()).components[-1].document()


async def left_by_reference(
    cluster: Cluster, wanted: JSON, *, with_config_map: bool = True, with_job_set: bool = True
) -> tuple[JSON, JSON | None, JSON | None]:
    """Create a TrainJob and what the reference would have made of it. Returns job, ConfigMap and JobSet as stored."""
    job = await cluster.create(wanted)
    runtime = await live_runtime(cluster, job)
    kept = made = None
    if with_config_map:
        kept = await cluster.api.apply(CONFIG_MAP, config_map(job, runtime), field_manager="trainer")
    if with_job_set:
        made = await cluster.api.apply(JOB_SET, job_set(job, runtime["spec"]), field_manager="trainer")
    return job, kept, made


async def finish(cluster: Cluster, name: str) -> None:
    """Mark a TrainJob complete, as the reference does."""
    condition = {"type": "Complete", "status": "True", "reason": "AllJobsCompleted", "message": "done",
                 "lastTransitionTime": "2026-01-05T10:00:00Z"}  # fmt: skip
    await cluster.patch(TRAIN_JOB, name, {"status": {"conditions": [condition]}}, subresource="status")
