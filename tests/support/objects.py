# SPDX-License-Identifier: Apache-2.0
"""Builders of the objects that tests create: small, complete, and changed by keyword."""

from __future__ import annotations

from typing import Any

JSON = dict[str, Any]
API_VERSION = "trainer.kubeflow.org/v1alpha1"
TRAINER_LABEL = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}


def replicated_job(name: str = "node", *, image: str = "acme/train:1", trainer: bool = True, **container: Any) -> JSON:
    """One replicated job with one container of its name; ``trainer`` labels it as the trainer step."""
    template: JSON = {"spec": {"template": {"spec": {"containers": [{"name": name, "image": image, **container}]}}}}
    if trainer:
        template["metadata"] = {"labels": TRAINER_LABEL}
    return {"name": name, "template": template}


def runtime_spec(*, image: str = "acme/train:1", num_nodes: int = 1, torch: bool = False, **container: Any) -> JSON:
    """The spec of a runtime with one trainer job."""
    policy: JSON = {"numNodes": num_nodes, **({"torch": {}} if torch else {})}
    jobs = [replicated_job(image=image, **container)]
    return {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": jobs}}}


def runtime(name: str, namespace: str | None = None, *, spec: JSON | None = None, **options: Any) -> JSON:
    """A TrainingRuntime, or without a namespace a ClusterTrainingRuntime."""
    kind = "TrainingRuntime" if namespace else "ClusterTrainingRuntime"
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec or runtime_spec(**options)}


def train_job(name: str, namespace: str, ref: str = "rt", *, kind: str = "TrainingRuntime", **spec: Any) -> JSON:
    """A TrainJob that starts from the runtime ``ref`` of its namespace, or of the cluster by ``kind``."""
    return {
        "apiVersion": API_VERSION,
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"runtimeRef": {"name": ref, "kind": kind}, **spec},
    }


def image_of(obj: JSON, *, job: int = 0) -> str:
    """The image of the first container of a replicated job, in a JobSet, a runtime or a snapshot."""
    spec = obj["spec"] if obj["kind"] == "JobSet" else obj["spec"]["template"]["spec"]
    image: str = spec["replicatedJobs"][job]["template"]["spec"]["template"]["spec"]["containers"][0]["image"]
    return image


def condition(obj: JSON, kind: str) -> JSON | None:
    """The condition of that type in an object's status, or None."""
    conditions = (obj.get("status") or {}).get("conditions") or []
    return next((item for item in conditions if item["type"] == kind), None)
