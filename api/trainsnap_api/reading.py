# SPDX-License-Identifier: Apache-2.0
"""Reads manifests of several objects into models, by their kind. For tools that take what users give to kubectl."""

from __future__ import annotations

from trainsnap_api import models
from trainsnap_api.base import Kind
from trainsnap_api.yamltext import JSON, load_all

API_VERSION = "trainer.kubeflow.org/v1alpha1"
KINDS = ("ClusterTrainingRuntime", "TrainJob", "TrainingRuntime", "TrainingRuntimeSnapshot")


def read_yaml(text: str | bytes) -> list[Kind]:
    """The objects of all documents, those in a List too.

    Raises ValueError, which names the document, for what is not YAML or not one of the kinds (pydantic.ValidationError
    is one, for a field of the wrong type). Needs PyYAML (the extra ``client`` brings it).
    """
    return [_read(number, obj) for number, document in enumerate(load_all(text), start=1) for obj in _flat(document)]


def _flat(document: JSON) -> list[JSON]:
    items = document.get("items")
    if document.get("kind") == "List" and isinstance(items, list):
        return [item if isinstance(item, dict) else {} for item in items]
    return [document]


def _read(number: int, obj: JSON) -> Kind:
    kind, version = obj.get("kind"), obj.get("apiVersion")
    if kind not in KINDS or version != API_VERSION:
        known = f"{API_VERSION} has {', '.join(KINDS)}"
        raise ValueError(f"document {number}: {version} {kind} is not known here; {known}")
    model: type[Kind] = getattr(models, str(kind))
    return model.model_validate(obj)
