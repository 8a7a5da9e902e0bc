# SPDX-License-Identifier: Apache-2.0
"""The first half of the pipeline: runtime + patches + resources -> ``RuntimeInfo``, before any plugin has its say.

Called by ``framework`` for building and for validation alike.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trainsnap_controller import constants as c
from trainsnap_controller.runtime import resources
from trainsnap_controller.runtime.errors import BuildError
from trainsnap_controller.runtime.info import PodSet, RuntimeInfo
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.runtime.patches import patched

JSON = dict[str, Any]


def runtime_info(job: Job, spec: JSON) -> RuntimeInfo:
    """The runtime for this job. ``spec`` is the runtime's; a runtime without a template has no replicated jobs.

    Raises ``BuildError``.
    """
    template = spec.get("template") or {}
    result = patched(job, template)
    ml_policy: JSON | None = spec.get("mlPolicy")
    info = RuntimeInfo(
        labels=result.labels,
        annotations=result.annotations,
        ml_policy=ml_policy,
        pod_group_policy=spec.get("podGroupPolicy") or {},
        template={key: value for key, value in result.spec.items() if key != "replicatedJobs"},
        pod_sets=tuple(_pod_set(item, ml_policy) for item in result.spec.get("replicatedJobs") or []),
        trainer=job.trainer,
        unpatched=template.get("spec") or {},
    )
    return _with_resources(job, info)


def _pod_set(item: JSON, ml_policy: JSON | None) -> PodSet:
    """One replicated job and its number of pods, at least 1."""
    pod_set = PodSet(item, 1)
    if not pod_set.containers:
        path = f"runtime.spec.template.spec.replicatedJobs[{pod_set.name}]"
        raise BuildError(f"{path}.template.spec.template.spec.containers", "must have at least one container")
    if ml_policy is not None and pod_set.ancestor == c.TRAINER:
        count = ml_policy.get("numNodes")
    else:
        count = item["template"]["spec"].get("parallelism")
    return replace(pod_set, count=max(1 if count is None else count, 1))


def _with_resources(job: Job, info: RuntimeInfo) -> RuntimeInfo:
    """``resourcesPerNode`` on the container ``node``; without mlPolicy it has no effect, as in the reference."""
    per_node = None if job.trainer is None else job.trainer.resources
    if per_node is None:
        return info
    resources.check(per_node)
    if info.ml_policy is None:
        return info
    launcher_as_node = bool((info.policy("mpi") or {}).get("runLauncherAsNode"))

    def apply(pod_set: PodSet) -> PodSet:
        if pod_set.ancestor == c.TRAINER or (launcher_as_node and pod_set.name == c.NODE):
            return pod_set.with_container(c.NODE, lambda item: resources.overlaid(item, per_node))
        return pod_set

    return info.with_pod_sets(apply)
