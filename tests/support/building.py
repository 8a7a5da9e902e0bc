# SPDX-License-Identifier: Apache-2.0
"""Short ways to say what a runtime and a job look like, and to see what is built from them.

Runtimes and jobs get the CRDs' defaults, as they would from the API server.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from support import offline_golden
from trainsnap_api.transport.resources import JOB_SET
from trainsnap_controller.runtime.component import Plan
from trainsnap_controller.runtime.framework import Framework
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.runtime.observed import Need, Observed
from trainsnap_controller.runtime.registry import standard

JSON = dict[str, Any]
ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"


@cache
def _schemas() -> dict[str, JSON]:
    return offline_golden.schemas()


def rjob(name: str = "node", *containers: JSON, ancestor: str | None = "trainer", **pod: Any) -> JSON:
    """A replicated job; without containers it has one named ``node``. ``pod`` are fields of the pod's spec."""
    template: JSON = {"spec": {"template": {"spec": {"containers": list(containers) or [box()], **pod}}}}
    if ancestor is not None:
        template["metadata"] = {"labels": {ANCESTOR: ancestor}}
    return {"name": name, "template": template}


def box(name: str = "node", **fields: Any) -> JSON:
    """A container."""
    return {"name": name, "image": "acme/train:1", **fields}


def runtime(*jobs: JSON, ml: JSON | None = None, gang: JSON | None = None, **template: Any) -> JSON:
    """A runtime's spec. ``template`` are fields of the JobSet's spec; ``metadata`` is the template's."""
    metadata = template.pop("metadata", None)
    spec: JSON = {"template": {"spec": {"replicatedJobs": list(jobs) or [rjob()], **template}}}
    if metadata is not None:
        spec["template"]["metadata"] = metadata
    if ml is not None:
        spec["mlPolicy"] = ml
    if gang is not None:
        spec["podGroupPolicy"] = gang
    schema = _schemas()["TrainingRuntime"]
    defaulted: JSON = offline_golden.defaulted({"spec": spec}, schema)["spec"]
    return defaulted


def job(
    trainer: JSON | None = None,
    *,
    name: str = "alpha",
    ref: str = "rt",
    metadata: JSON | None = None,
    status: JSON | None = None,
    **spec: Any,
) -> Job:
    """A TrainJob as the API server stores it."""
    if trainer is not None:
        spec["trainer"] = trainer
    obj: JSON = {
        "metadata": {"name": name, "namespace": "team", "uid": "uid-1", "generation": 3, **(metadata or {})},
        "spec": {"runtimeRef": {"name": ref, "kind": "TrainingRuntime"}, **spec},
    }
    if status is not None:
        obj["status"] = status
    return Job.from_json(offline_golden.defaulted(obj, _schemas()["TrainJob"]))


def patch(*jobs: JSON, manager: str = "acme.io/m", metadata: JSON | None = None) -> JSON:
    """A runtime patch of replicated jobs."""
    template: JSON = {"spec": {"replicatedJobs": list(jobs)}} if jobs else {}
    if metadata is not None:
        template["metadata"] = metadata
    return {"manager": manager, "trainingRuntimeSpec": {"template": template}}


def pod_patch(name: str = "node", **pod: Any) -> JSON:
    """The patch of one replicated job's pods."""
    return {"name": name, "template": {"spec": {"template": {"spec": pod}}}}


def observed(*objects: tuple[Any, JSON]) -> Observed:
    """What was seen: pairs of a resource and an object."""
    found = {}
    for resource, obj in objects:
        metadata = obj["metadata"]
        found[Need(resource, metadata.get("namespace"), metadata["name"])] = obj
    return Observed(found)


def plan(a_job: Job, spec: JSON, seen: Observed | None = None, framework: Framework | None = None) -> Plan:
    """The plan for a job."""
    return (framework or standard()).build(a_job, spec, seen or Observed())


def documents(
    a_job: Job, spec: JSON, seen: Observed | None = None, framework: Framework | None = None
) -> dict[str, JSON]:
    """Every document of the plan under ``Kind/name``, in order."""
    components = plan(a_job, spec, seen, framework).components
    return {f"{item.resource.kind}/{item.name}": item.document() for item in components}


def job_set(a_job: Job, spec: JSON) -> JSON:
    """The JobSet of the plan."""
    component = plan(a_job, spec).components[-1]
    assert component.resource is JOB_SET
    return component.document()


def rjobs(a_job: Job, spec: JSON) -> dict[str, JSON]:
    """The JobSet's replicated jobs by name."""
    return {item["name"]: item for item in job_set(a_job, spec)["spec"]["replicatedJobs"]}


def pods(a_job: Job, spec: JSON) -> dict[str, JSON]:
    """The pod specs of the JobSet's replicated jobs by name."""
    return {name: item["template"]["spec"]["template"]["spec"] for name, item in rjobs(a_job, spec).items()}


def container(a_job: Job, spec: JSON, name: str = "node", rjob_name: str = "node") -> JSON:
    """One container, or init container, of the JobSet."""
    pod = pods(a_job, spec)[rjob_name]
    found: JSON = next(c for c in [*pod["containers"], *pod.get("initContainers", [])] if c["name"] == name)
    return found


def env(a_container: JSON) -> dict[str, Any]:
    """A container's variables in order; a reference stands for itself."""
    return {item["name"]: item.get("value", item.get("valueFrom")) for item in a_container.get("env") or []}


def rules(a_job: Job, spec: JSON, seen: Observed | None = None, old: Job | None = None) -> list[str]:
    """What validation says, as ``path: kind`` and the detail."""
    return [str(error) for error in standard().validate(a_job, spec, seen or Observed(), old=old)]
