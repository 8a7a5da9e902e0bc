# SPDX-License-Identifier: Apache-2.0
"""``podGroupPolicy.volcano``: a PodGroup of the Volcano scheduler over all pods of the job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from trainsnap_api.transport.resources import PRIORITY_CLASS, VOLCANO_POD_GROUP
from trainsnap_controller.runtime import gang
from trainsnap_controller.runtime.component import Component
from trainsnap_controller.runtime.errors import FieldError
from trainsnap_controller.runtime.extension import Watch
from trainsnap_controller.runtime.info import RuntimeInfo
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.runtime.observed import Need, Observed
from trainsnap_controller.runtime.patches import pod_spec

JSON = dict[str, Any]
GROUP_ANNOTATION: Final = "scheduling.k8s.io/group-name"
QUEUE_ANNOTATION: Final = "scheduling.volcano.sh/queue-name"
_SYSTEM_CLASSES: Final = ("system-cluster-critical", "system-node-critical")


class Volcano:
    """Runs for runtimes with ``podGroupPolicy.volcano``. The scheduler's name is the runtime's business."""

    name = "volcano"

    def watches(self) -> Sequence[Watch]:
        """PodGroups, and what changes the requests of paused jobs."""
        return gang.watches(VOLCANO_POD_GROUP)

    def needs(self, job: Job, spec: JSON) -> Sequence[Need]:
        """The live PodGroup, and the priority classes that the runtime names."""
        if _policy(spec.get("podGroupPolicy")) is None:
            return []
        classes = [Need(PRIORITY_CLASS, None, name, child=False) for name in _priority_classes(spec)]
        return [Need(VOLCANO_POD_GROUP, job.namespace, job.name), *classes]

    def enforce_pod_group_policy(self, job: Job, info: RuntimeInfo) -> RuntimeInfo:
        """Annotates every pod, also of the initializers, with the group's name."""
        if _policy(info.pod_group_policy) is None:
            return info
        return info.with_pod_sets(lambda pod_set: pod_set.with_pod_metadata(annotations={GROUP_ANNOTATION: job.name}))

    def components(self, job: Job, info: RuntimeInfo, observed: Observed) -> Sequence[Component]:
        """The PodGroup, when it is missing or the job is paused."""
        policy = _policy(info.pod_group_policy)
        if policy is None or not gang.wanted(job, info, observed, VOLCANO_POD_GROUP):
            return []
        content = gang.spec(info)
        if QUEUE_ANNOTATION in info.annotations:
            content["queue"] = info.annotations[QUEUE_ANNOTATION]
        for pod_set in info.pod_sets:
            if name := pod_set.pod_spec.get("priorityClassName"):
                content["priorityClassName"] = name
        if topology := policy.get("networkTopology"):
            content["networkTopology"] = dict(topology)
        return [Component.of(VOLCANO_POD_GROUP, gang.document(job, VOLCANO_POD_GROUP, content))]

    def validate(self, job: Job, info: RuntimeInfo, observed: Observed, old: Job | None) -> Sequence[FieldError]:
        """A queue that is named has a name, and priority classes exist."""
        del job, old
        if _policy(info.pod_group_policy) is None:
            return []
        return [*_queue_rule(info), *_priority_rules(info, observed)]


def _policy(policies: JSON | None) -> JSON | None:
    found: JSON | None = (policies or {}).get("volcano")
    return found


def _priority_classes(spec: JSON) -> list[str]:
    """Priority classes of the runtime's pods; patches cannot change them."""
    jobs = ((spec.get("template") or {}).get("spec") or {}).get("replicatedJobs") or []
    names = [pod_spec(item).get("priorityClassName") for item in jobs]
    return [name for name in names if name and name not in _SYSTEM_CLASSES]


def _queue_rule(info: RuntimeInfo) -> Iterator[FieldError]:
    if info.annotations.get(QUEUE_ANNOTATION) == "":
        yield FieldError(f"spec.annotations[{QUEUE_ANNOTATION}]", "", "must not be empty when it is set")


def _priority_rules(info: RuntimeInfo, observed: Observed) -> Iterator[FieldError]:
    """In order of the replicated jobs; one of the system's classes ends the check, as in the reference."""
    for pod_set in info.pod_sets:
        name = pod_set.pod_spec.get("priorityClassName")
        if name in _SYSTEM_CLASSES:
            return
        if name and observed.find(PRIORITY_CLASS, None, name) is None:
            yield FieldError("spec.templateSpec.priorityClassName", name, f"there is no PriorityClass {name!r}")
