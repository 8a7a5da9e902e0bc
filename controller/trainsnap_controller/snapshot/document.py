# SPDX-License-Identifier: Apache-2.0
"""What a TrainingRuntimeSnapshot says, and whose it is. Pure functions: nothing here reads or writes the cluster."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, StrEnum
from typing import Any, Final, Protocol

from trainsnap_controller import constants as c
from trainsnap_controller.snapshot.content import content_of
from trainsnap_controller.snapshot.digest import digest

JSON = dict[str, Any]

KIND: Final = "TrainingRuntimeSnapshot"
_GENERATION: Final = re.compile(r"[0-9]{1,18}")


class Origin(StrEnum):
    """Where the content of a snapshot came from (``source.origin``)."""

    RUNTIME = "Runtime"
    CONFIG_MAP = "ConfigMap"
    LEGACY_JOB = "LegacyJob"
    SNAPSHOT = "Snapshot"
    IMPORT = "Import"
    REFRESH = "Refresh"


class Owner(Protocol):
    """The TrainJob that a snapshot belongs to."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def created(self) -> datetime | None: ...
    @property
    def owner_reference(self) -> JSON: ...


class RuntimeRef(Protocol):
    """What ``spec.runtimeRef`` of a TrainJob names. ``key`` is ``Kind.group``, as messages write it."""

    @property
    def api_group(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def key(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Record:
    """What a JobSet remembers of its snapshot, in annotations under ``snapshot.trainer.kubeflow.org/``."""

    uid: str | None
    generation: int | None
    digest: str | None

    def annotations(self) -> dict[str, str]:
        """The annotations to put on a JobSet. Unknown parts are left out rather than invented."""
        found = {
            c.SNAPSHOT_UID: self.uid,
            c.SNAPSHOT_GENERATION: None if self.generation is None else str(self.generation),
            c.SNAPSHOT_DIGEST: self.digest,
        }
        return {key: value for key, value in found.items() if value is not None}

    def matches(self, runtime: JSON) -> bool:
        """Whether a live runtime is the one that was recorded: same object at the same generation, or same content."""
        meta = runtime["metadata"]
        if self.uid is not None and (self.uid, self.generation) == (meta.get("uid"), meta.get("generation")):
            return True
        return self.digest is not None and self.digest == digest(content_of(runtime).value)


def snapshot_of(
    owner: Owner, runtime: JSON, *, origin: Origin, captured_at: datetime, keep_annotations: Collection[str] = ()
) -> JSON:
    """The snapshot object to POST for a job that starts from ``runtime``.

    Labels of the runtime are kept as provenance; annotations only by the allow-list, since an admin's annotations
    (``last-applied-configuration`` among them) may hold secrets that the job's namespace must not see.
    """
    meta = runtime["metadata"]
    content = content_of(runtime)
    annotations = {k: v for k, v in (meta.get("annotations") or {}).items() if k in keep_annotations}
    source: JSON = {
        "apiGroup": runtime["apiVersion"].partition("/")[0],
        "kind": runtime["kind"],
        "name": meta["name"],
        "trainJob": {"name": owner.name, "uid": owner.uid},
        "origin": origin.value,
        "digest": digest(content.value),
        "capturedAt": captured_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    optional = {
        "uid": meta.get("uid"),
        "generation": meta.get("generation"),
        "labels": meta.get("labels"),
        "annotations": annotations,
    }
    source.update({key: value for key, value in optional.items() if value})
    snapshot: JSON = {
        "apiVersion": c.API_VERSION,
        "kind": KIND,
        "metadata": {"name": owner.name, "namespace": owner.namespace, "ownerReferences": [owner.owner_reference]},
        "source": source,
    }
    if content.value is not None:
        snapshot[content.field] = content.value if content.field == "spec" else {"spec": content.value}
    return snapshot


def record_of(snapshot: JSON) -> Record:
    """What the JobSet is to remember of this snapshot."""
    source = snapshot.get("source") or {}
    return Record(uid=source.get("uid"), generation=source.get("generation"), digest=source.get("digest"))


def recorded(jobset: JSON) -> Record | None:
    """What a JobSet remembers of its snapshot; None when it carries no record (built before snapshots existed)."""
    annotations = jobset["metadata"].get("annotations") or {}
    generation = annotations.get(c.SNAPSHOT_GENERATION, "")
    record = Record(
        uid=annotations.get(c.SNAPSHOT_UID),
        generation=int(generation) if _GENERATION.fullmatch(generation) else None,
        digest=annotations.get(c.SNAPSHOT_DIGEST),
    )
    return record if record != Record(None, None, None) else None


def controlled_by(obj: Mapping[str, Any], owner: Owner) -> bool:
    """Whether an object's controlling owner is this very TrainJob (by UID)."""
    references = obj["metadata"].get("ownerReferences") or []
    return any(reference.get("controller") and reference.get("uid") == owner.uid for reference in references)


class Whose(Enum):
    """Whose an existing object of the snapshot's name is."""

    OURS = "ours"
    OURS_STRIPPED = "ours, but its owner reference was taken off"
    LEFTOVER = "of an earlier TrainJob of the same name"
    FOREIGN = "not made by trainsnap for this TrainJob"


def whose(snapshot: JSON, owner: Owner) -> Whose:
    """Decide whose a snapshot is. Only the operator writes ``source`` (the guard sees to it), so it decides."""
    source = snapshot.get("source") or {}
    made_for = (source.get("trainJob") or {}).get("uid")
    controllers = [ref for ref in snapshot["metadata"].get("ownerReferences") or [] if ref.get("controller")]
    if not made_for or any(ref.get("kind") != "TrainJob" for ref in controllers):
        return Whose.FOREIGN
    if made_for != owner.uid:
        return Whose.LEFTOVER
    if not controllers:
        return Whose.OURS_STRIPPED
    return Whose.OURS if controllers[0].get("uid") == owner.uid else Whose.FOREIGN
