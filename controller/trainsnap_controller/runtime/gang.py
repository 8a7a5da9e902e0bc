# SPDX-License-Identifier: Apache-2.0
"""What PodGroups of all schedulers have in common: when they are written, and what the gang needs.

Helpers of the coscheduling and volcano plugins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainsnap_api.transport.resources import LIMIT_RANGE, RUNTIME_CLASS, Resource
from trainsnap_controller.runtime.extension import Maps, Watch
from trainsnap_controller.runtime.info import RuntimeInfo
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.runtime.observed import Observed
from trainsnap_controller.runtime.quantity import total
from trainsnap_controller.runtime.resources import pod_requests

JSON = dict[str, Any]


def watches(pod_group: Resource) -> Sequence[Watch]:
    """The PodGroup itself, and what may change the requests of a suspended job; all only with the PodGroup's CRD."""
    return [
        Watch(pod_group, Maps.OWNER, requires=pod_group),
        Watch(LIMIT_RANGE, Maps.SUSPENDED_IN_NAMESPACE, requires=pod_group),
        Watch(RUNTIME_CLASS, Maps.SUSPENDED_BY_RUNTIME_CLASS, requires=pod_group),
    ]


def wanted(job: Job, info: RuntimeInfo, observed: Observed, pod_group: Resource) -> bool:
    """Whether the PodGroup is written: it is missing, or the job is paused.

    A job without pods has no gang: the schema of coscheduling refuses one with no member.
    """
    if members(info) == 0:
        return False
    return job.suspended or observed.find(pod_group, job.namespace, job.name) is None


def members(info: RuntimeInfo) -> int:
    """Pods that must be placed together. Copies of a replicated job count once, as in the reference."""
    return sum(pod_set.count for pod_set in info.pod_sets)


def spec(info: RuntimeInfo) -> JSON:
    """Number and summed requests of the members."""
    amounts = [
        {name: amount.times(pod_set.count) for name, amount in pod_requests(pod_set).items()}
        for pod_set in info.pod_sets
    ]
    resources = {name: str(amount) for name, amount in total(amounts).items()}
    return {"minMember": members(info), "minResources": resources}


def document(job: Job, pod_group: Resource, content: JSON) -> JSON:
    """The PodGroup of the job's name."""
    return {
        "apiVersion": pod_group.api_version,
        "kind": pod_group.kind,
        "metadata": job.child_metadata(job.name),
        "spec": content,
    }
