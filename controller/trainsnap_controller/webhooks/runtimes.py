# SPDX-License-Identifier: Apache-2.0
"""The rules of TrainingRuntimes and ClusterTrainingRuntimes that the schema cannot say: the same for both kinds.

They are about lists without a limit, which CEL's cost budget does not allow. Pure; read nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from trainsnap_controller import constants as c
from trainsnap_controller.runtime.errors import FieldError
from trainsnap_controller.webhooks.review import CREATE, Answer, Review, refusal

JSON = dict[str, Any]

POLICY_URL: Final = (
    "https://www.kubeflow.org/docs/components/trainer/operator-guides/runtime/#runtime-deprecation-policy"
)
DEPRECATED: Final = "deprecated"
_CONTAINERS: Final = {
    c.TRAINER: c.NODE,
    c.DATASET_INITIALIZER: c.DATASET_INITIALIZER,
    c.MODEL_INITIALIZER: c.MODEL_INITIALIZER,
}
"""Step of a TrainJob -> the container that the job's values for it go to."""


async def review(question: Review) -> Answer:
    """Judge a runtime that is created or changed."""
    warnings = []
    metadata = question.obj.get("metadata") or {}
    if (
        question.operation == CREATE
        and question.kind == "ClusterTrainingRuntime"
        and deprecated(metadata.get("labels"))
    ):
        warnings.append(
            f"ClusterTrainingRuntime {metadata.get('name', '')!r} is labelled as deprecated: "
            f"TrainJobs that use it are accepted with a warning; see {POLICY_URL}"
        )
    return refusal(list(broken_rules(question.obj.get("spec") or {})), warnings)


def broken_rules(spec: JSON) -> Iterator[FieldError]:
    """Of every replicated job that stands for a step of a TrainJob: it runs once, and has the step's container."""
    jobs = ((spec.get("template") or {}).get("spec") or {}).get("replicatedJobs") or []
    for index, job in enumerate(jobs):
        path = f"spec.template.spec.replicatedJobs[{index}]"
        template = job.get("template") or {}
        step = ((template.get("metadata") or {}).get("labels") or {}).get(c.ANCESTOR_LABEL)
        if step not in _CONTAINERS:
            continue
        why = f"since the label {c.ANCESTOR_LABEL} says {step!r}"
        replicas = job.get("replicas", 1)
        if replicas != 1:
            yield FieldError(
                f"{path}.replicas", replicas, f"must be 1, {why}; spec.mlPolicy.numNodes makes it more nodes"
            )
        pod = ((template.get("spec") or {}).get("template") or {}).get("spec") or {}
        names = [container.get("name") for container in pod.get("containers") or []]
        if _CONTAINERS[step] not in names:
            rule = f"must contain a container named {_CONTAINERS[step]!r}, {why}"
            yield FieldError(f"{path}.template.spec.template.spec.containers", names, rule)


def deprecated(labels: JSON | None) -> bool:
    """Whether a runtime's labels say that it is on its way out."""
    return (labels or {}).get(c.SUPPORT_LABEL) == DEPRECATED
