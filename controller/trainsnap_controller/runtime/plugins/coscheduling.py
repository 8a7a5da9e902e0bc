# SPDX-License-Identifier: Apache-2.0
"""``podGroupPolicy.coscheduling``: a PodGroup of the scheduler-plugins project over all pods of the job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from trainsnap_api.transport.resources import COSCHEDULING_POD_GROUP
from trainsnap_controller.runtime import gang
from trainsnap_controller.runtime.component import Component
from trainsnap_controller.runtime.extension import Watch
from trainsnap_controller.runtime.info import RuntimeInfo
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.runtime.observed import Need, Observed

JSON = dict[str, Any]
POD_GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
_TIMEOUT: Final = "scheduleTimeoutSeconds"


class Coscheduling:
    """Runs for runtimes with ``podGroupPolicy.coscheduling``. The scheduler's name is the runtime's business."""

    name = "coscheduling"

    def watches(self) -> Sequence[Watch]:
        """PodGroups, and what changes the requests of paused jobs."""
        return gang.watches(COSCHEDULING_POD_GROUP)

    def needs(self, job: Job, spec: JSON) -> Sequence[Need]:
        """The live PodGroup: it is written when it is missing."""
        if _policy(spec.get("podGroupPolicy")) is None:
            return []
        return [Need(COSCHEDULING_POD_GROUP, job.namespace, job.name)]

    def enforce_pod_group_policy(self, job: Job, info: RuntimeInfo) -> RuntimeInfo:
        """Labels every pod, also of the initializers, with the group's name."""
        if _policy(info.pod_group_policy) is None:
            return info
        return info.with_pod_sets(lambda pod_set: pod_set.with_pod_metadata(labels={POD_GROUP_LABEL: job.name}))

    def components(self, job: Job, info: RuntimeInfo, observed: Observed) -> Sequence[Component]:
        """The PodGroup, when it is missing or the job is paused."""
        policy = _policy(info.pod_group_policy)
        if policy is None or not gang.wanted(job, info, observed, COSCHEDULING_POD_GROUP):
            return []
        content = gang.spec(info) | {key: policy[key] for key in (_TIMEOUT,) if key in policy}
        return [Component.of(COSCHEDULING_POD_GROUP, gang.document(job, COSCHEDULING_POD_GROUP, content))]


def _policy(policies: JSON | None) -> JSON | None:
    found: JSON | None = (policies or {}).get("coscheduling")
    return found
