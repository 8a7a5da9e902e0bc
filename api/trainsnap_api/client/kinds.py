# SPDX-License-Identifier: Apache-2.0
"""Which model class stands for which kind of the API, and how documents are made and read. Pure; used by the faces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from trainsnap_api.base import Kind, Model
from trainsnap_api.client.errors import NotUnderstood
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


def model_of(obj: Model | Mapping[str, Any]) -> type[Kind]:
    """The class for an object. Raises ValueError for a kind that the client does not have."""
    if isinstance(obj, Kind) and type(obj) in RESOURCES:
        return type(obj)
    found = {resource.kind: model for model, resource in RESOURCES.items()}
    data = obj.dump() if isinstance(obj, Model) else obj
    kind, version = data.get("kind"), data.get("apiVersion")
    model = found.get(str(kind))
    if model is None or version != RESOURCES[model].api_version:
        raise ValueError(f"{version} {kind} is not a kind of this client; it has {', '.join(sorted(found))}")
    return model


def read(model: type[T], content: bytes, what: str) -> T:
    """The object in an answer. Raises NotUnderstood."""
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        raise NotUnderstood.of(what, error) from error


def document(resource: Resource, model: type[Kind], obj: Kind | Mapping[str, Any], namespace: str | None) -> JSON:
    """What is sent for an object, with its namespace. Raises TypeError or ValueError for an object of another kind,
    version or namespace than where it is going."""
    if isinstance(obj, Kind):
        if not isinstance(obj, model):
            raise TypeError(f"a {resource.kind} is needed, not a {type(obj).__name__}")
        body = obj.dump()
    else:
        body = dict(obj)
    for key, want in (("kind", resource.kind), ("apiVersion", resource.api_version)):
        if body.get(key) not in (None, want):
            raise ValueError(f"{key} is {body[key]!r}, {want!r} is needed")
        body[key] = want
    if not resource.namespaced:
        return body
    metadata = dict(body.get("metadata") or {})
    own = metadata.get("namespace")
    if own and namespace and own != namespace:
        raise ValueError(f"metadata.namespace is {own!r}, but the object is sent to namespace {namespace!r}")
    return {**body, "metadata": {**metadata, "namespace": own or namespace}}
