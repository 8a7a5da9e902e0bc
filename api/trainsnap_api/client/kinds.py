# SPDX-License-Identifier: Apache-2.0
"""Which model class stands for which kind of the API, and how documents are made and read. Pure; used by the faces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from trainsnap_api.base import Kind, Model
from trainsnap_api.client.errors import NotUnderstood
from trainsnap_api.dumping import plain
from trainsnap_api.models import ClusterTrainingRuntime, TrainingRuntime, TrainingRuntimeSnapshot, TrainJob
from trainsnap_api.transport.resources import (
    CLUSTER_TRAINING_RUNTIME,
    TRAIN_JOB,
    TRAINING_RUNTIME,
    TRAINING_RUNTIME_SNAPSHOT,
    Resource,
)

if TYPE_CHECKING:
    from trainsnap_api.transport import JSON

T = TypeVar("T", bound=Kind)

RESOURCES: dict[type[Kind], Resource] = {
    TrainJob: TRAIN_JOB,
    TrainingRuntime: TRAINING_RUNTIME,
    ClusterTrainingRuntime: CLUSTER_TRAINING_RUNTIME,
    TrainingRuntimeSnapshot: TRAINING_RUNTIME_SNAPSHOT,
}
_KNOWN = ", ".join(sorted(resource.kind for resource in RESOURCES.values()))


def model_of(obj: Model | Mapping[str, Any]) -> type[Kind]:
    """The class for an object. Raises TypeError for what is no object, ValueError for one of another kind."""
    if isinstance(obj, Model):
        return class_of(type(obj))
    if not isinstance(obj, Mapping):
        raise TypeError(f"an object of the API or a mapping is needed, not {type(obj).__name__}")
    kind, version = obj.get("kind"), obj.get("apiVersion")
    for model, resource in RESOURCES.items():
        if (kind, version) == (resource.kind, resource.api_version):
            return model
    if kind is None or version is None:
        raise ValueError("an object of any kind needs kind and apiVersion")
    raise ValueError(f"{version} {kind} is not a kind of this client, which has {_KNOWN}")


def class_of(model: object) -> type[Kind]:
    """The class of a kind for itself or a class derived from it. Raises ValueError for any other."""
    found = next((known for known in RESOURCES if isinstance(model, type) and issubclass(model, known)), None)
    if found is None:
        name = model.__name__ if isinstance(model, type) else repr(model)
        raise ValueError(f"{name} is not the class of a kind of this client, which has {_KNOWN}")
    return found


def name_of(name: str) -> str:
    """The name itself. Raises TypeError for None, which would mean all objects: a job not stored yet has no name."""
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, not {type(name).__name__}")
    return name


def which(job: TrainJob | str, namespace: str | None) -> tuple[str, str | None, str | None]:
    """Name, namespace and uid of a job, given by its name or as an object. Raises ValueError for one without name."""
    if isinstance(job, str):
        return job, namespace, None
    if not isinstance(job, TrainJob):
        raise TypeError(f"a TrainJob or its name is needed, not {type(job).__name__}")
    metadata = job.metadata
    if metadata is None or not metadata.name:
        raise ValueError("the job has no name")
    return metadata.name, namespace or metadata.namespace, metadata.uid


def read(model: type[T], content: bytes, what: str) -> T:
    """The object in an answer. Raises NotUnderstood."""
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        raise NotUnderstood.of(what, error) from error


def document(
    resource: Resource, model: type[Kind], obj: Kind | Mapping[str, Any], namespace: str | None, default: str | None
) -> JSON:
    """What is sent for an object: into the namespace that is given, else its own, else ``default``. Raises TypeError or
    ValueError for an object of another kind, version or namespace than where it is going."""
    if not isinstance(obj, Mapping | model):
        raise TypeError(f"a {resource.kind} or a mapping is needed, not {type(obj).__name__}")
    body: JSON = plain(obj)
    for key, want in (("kind", resource.kind), ("apiVersion", resource.api_version)):
        if body.get(key) not in (None, want):
            raise ValueError(f"{key} is {body[key]!r}, {want!r} is needed")
        body[key] = want
    metadata = body.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise TypeError(f"metadata must be a mapping, not {type(metadata).__name__}")
    if not resource.namespaced:
        if namespace is not None:
            raise ValueError(f"{resource.kind} has no namespace")
        return body
    own = metadata.get("namespace")
    if own and namespace is not None and own != namespace:
        raise ValueError(f"metadata.namespace is {own!r}, but the object is sent to namespace {namespace!r}")
    return {**body, "metadata": {**metadata, "namespace": own or (default if namespace is None else namespace)}}
