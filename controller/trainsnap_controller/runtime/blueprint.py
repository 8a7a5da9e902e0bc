# SPDX-License-Identifier: Apache-2.0
"""The rules of a runtime's own that its schema cannot say: they are about lists without a limit, which CEL's cost
budget does not allow.

Asked by admission of runtimes, and by ``framework`` before a job starts from one: a label can switch the first off.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from trainsnap_controller import constants as c
from trainsnap_controller.runtime.errors import FieldError

JSON = dict[str, Any]

_CONTAINERS: Final = {
    c.TRAINER: c.NODE,
    c.DATASET_INITIALIZER: c.DATASET_INITIALIZER,
    c.MODEL_INITIALIZER: c.MODEL_INITIALIZER,
}
"""Step of a TrainJob -> the container that the job's values for it go to."""


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
