# SPDX-License-Identifier: Apache-2.0
"""The rules of a runtime's own that its schema cannot say: they are about lists without a limit, which CEL's cost
budget does not allow; and what obeys the rules and is most likely not meant.

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
_JOBS: Final = "spec.template.spec.replicatedJobs"


def broken_rules(spec: JSON) -> Iterator[FieldError]:
    """Of every replicated job that stands for a step of a TrainJob: it runs once, and has the step's container."""
    for index, job in enumerate(_replicated_jobs(spec)):
        path = f"{_JOBS}[{index}]"
        step = _step(job)
        if step not in _CONTAINERS:
            continue
        why = f"since the label {c.ANCESTOR_LABEL} says {step!r}"
        replicas = job.get("replicas", 1)
        if replicas != 1:
            yield FieldError(
                f"{path}.replicas", replicas, f"must be 1, {why}; spec.mlPolicy.numNodes makes it more nodes"
            )
        names = _containers(job)
        if _CONTAINERS[step] not in names:
            rule = f"must contain a container named {_CONTAINERS[step]!r}, {why}"
            yield FieldError(f"{path}.template.spec.template.spec.containers", names, rule)


def without_effect(spec: JSON) -> Iterator[str]:
    """What a policy asks for and the template has no place for: accepted, as in the reference, where jobs then run
    without what the policy promises. One line for each; a runtime without ``mlPolicy`` promises nothing."""
    policy = spec.get("mlPolicy")
    if policy is None:
        return
    jobs = _replicated_jobs(spec)
    if not any(_step(job) == c.TRAINER for job in jobs):
        yield (
            f"{_JOBS}: none has the label {c.ANCESTOR_LABEL}: {c.TRAINER} among its template.metadata.labels, "
            f"so that {_lost(policy)}"
        )
    if policy.get("mpi") is not None:
        for name in (c.LAUNCHER, c.NODE):
            if not any(job.get("name") == name and c.NODE in _containers(job) for job in jobs):
                yield (
                    f"{_JOBS}: spec.mlPolicy.mpi is for replicated jobs named {c.LAUNCHER!r} and {c.NODE!r}, each "
                    f"with a container named {c.NODE!r}, and there is no such {name!r}"
                )


def _lost(policy: JSON) -> str:
    """What does not happen where no replicated job is the trainer. MPI and Flux find theirs by name as well."""
    if policy.get("mpi") is not None or policy.get("flux") is not None:
        return "image, command and arguments of a TrainJob's trainer section have no effect"
    rest = ", except on its envInjection targets" if (policy.get("torch") or {}).get("envInjection") else ""
    return f"neither the trainer section of a TrainJob nor spec.mlPolicy has an effect{rest}"


def _replicated_jobs(spec: JSON) -> list[JSON]:
    return ((spec.get("template") or {}).get("spec") or {}).get("replicatedJobs") or []


def _step(job: JSON) -> str | None:
    """The step of a TrainJob that a replicated job stands for."""
    labels: JSON = ((job.get("template") or {}).get("metadata") or {}).get("labels") or {}
    return labels.get(c.ANCESTOR_LABEL)


def _containers(job: JSON) -> list[str | None]:
    """The names of its containers; init containers do not count."""
    pod = (((job.get("template") or {}).get("spec") or {}).get("template") or {}).get("spec") or {}
    return [container.get("name") for container in pod.get("containers") or []]
