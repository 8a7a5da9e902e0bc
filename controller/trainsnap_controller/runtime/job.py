# SPDX-License-Identifier: Apache-2.0
"""A frozen, typed view of a TrainJob's JSON: what building and deciding look at.

The view is made once per reconcile from what the API server stores. It applies no defaults, since the server did, and
tolerates every object that the CRD's schema admits. Nothing here is ever written back.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from trainsnap_controller import constants as c

JSON = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RuntimeRef:
    """``spec.runtimeRef``."""

    api_group: str
    kind: str
    name: str

    @property
    def key(self) -> str:
        """``Kind.group``, as messages write it."""
        return f"{self.kind}.{self.api_group}"


@dataclass(frozen=True, slots=True)
class Trainer:
    """``spec.trainer``. None is "not given"; an empty tuple is a list that the user emptied on purpose."""

    image: str | None = None
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    env: tuple[JSON, ...] = ()
    num_nodes: int | None = None
    num_proc_per_node: int | None = None
    resources: JSON | None = None

    @classmethod
    def from_json(cls, obj: JSON) -> Trainer:
        """The view of one ``spec.trainer`` object."""
        return cls(
            image=obj.get("image"),
            command=_strings(obj.get("command")),
            args=_strings(obj.get("args")),
            env=tuple(obj.get("env") or ()),
            num_nodes=obj.get("numNodes"),
            num_proc_per_node=obj.get("numProcPerNode"),
            resources=obj.get("resourcesPerNode"),
        )


@dataclass(frozen=True, slots=True)
class Initializer:
    """``spec.initializer.dataset`` or ``.model``. A ``storage_uri`` of "" counts as given."""

    storage_uri: str | None = None
    env: tuple[JSON, ...] = ()
    secret: str | None = None

    @classmethod
    def from_json(cls, obj: JSON) -> Initializer:
        """The view of one initializer object."""
        reference = obj.get("secretRef")
        return cls(
            storage_uri=obj.get("storageUri"),
            env=tuple(obj.get("env") or ()),
            secret=None if reference is None else reference.get("name", ""),
        )


@dataclass(frozen=True, slots=True)
class Job:
    """A TrainJob. ``raw`` is the stored object and must be read only."""

    name: str
    namespace: str
    uid: str
    runtime_ref: RuntimeRef
    suspend: bool | None = None
    managed_by: str | None = None
    active_deadline_seconds: int | None = None
    trainer: Trainer | None = None
    dataset: Initializer | None = None
    model: Initializer | None = None
    runtime_patches: tuple[JSON, ...] = ()
    created: datetime | None = None
    generation: int | None = None
    deleting: bool = False
    status: JSON | None = None
    raw: JSON | None = None

    @classmethod
    def from_json(cls, obj: JSON) -> Job:
        """The view of a stored TrainJob."""
        metadata, spec = obj.get("metadata") or {}, obj.get("spec") or {}
        initializer = spec.get("initializer") or {}
        reference = spec.get("runtimeRef") or {}
        return cls(
            name=metadata.get("name", ""),
            namespace=metadata.get("namespace", ""),
            uid=metadata.get("uid", ""),
            runtime_ref=RuntimeRef(reference.get("apiGroup", ""), reference.get("kind", ""), reference.get("name", "")),
            suspend=spec.get("suspend"),
            managed_by=spec.get("managedBy"),
            active_deadline_seconds=spec.get("activeDeadlineSeconds"),
            trainer=_view(Trainer, spec.get("trainer")),
            dataset=_view(Initializer, initializer.get("dataset")),
            model=_view(Initializer, initializer.get("model")),
            runtime_patches=tuple(spec.get("runtimePatches") or ()),
            created=_time(metadata.get("creationTimestamp")),
            generation=metadata.get("generation"),
            deleting=metadata.get("deletionTimestamp") is not None,
            status=obj.get("status"),
            raw=obj,
        )

    @property
    def suspended(self) -> bool:
        """Whether the user wants the job paused; not given counts as no."""
        return self.suspend is True

    @property
    def managed_here(self) -> bool:
        """Whether this operator is the one that ``spec.managedBy`` names."""
        return self.managed_by in (None, c.CONTROLLER_NAME)

    @property
    def owner_reference(self) -> JSON:
        """The one owner reference that every child carries."""
        return {
            "apiVersion": c.API_VERSION,
            "kind": "TrainJob",
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }

    def child_metadata(self, name: str) -> JSON:
        """Metadata of a child object: no labels, no annotations, one owner."""
        return {"name": name, "namespace": self.namespace, "ownerReferences": [self.owner_reference]}


def _view(cls: Any, obj: JSON | None) -> Any:
    return None if obj is None else cls.from_json(obj)


def _strings(value: list[str] | None) -> tuple[str, ...] | None:
    return None if value is None else tuple(value)


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
