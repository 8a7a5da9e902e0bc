# SPDX-License-Identifier: Apache-2.0
"""Judges a ConfigMap ``<job>-runtime-snapshot`` of the reference: usable, or why not. Pure.

The checks are the reference's own on reading (owner by UID, key, decoding, runtime named by the job), so that one which
it would refuse is refused. What it reads over, such as a field that it does not know, is refused too: it would be lost.
Noise of the stored object (managedFields, kubectl's
last-applied-configuration, resourceVersion) is dropped. Called by ``adopt`` for the operator and by the command.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from trainsnap_controller import constants as c
from trainsnap_controller.migration.yaml_go import Document, YamlError, read
from trainsnap_controller.observe.text import truncate
from trainsnap_controller.snapshot.content import KNOWN_RUNTIMES
from trainsnap_controller.snapshot.digest import FREE_MAPS
from trainsnap_controller.snapshot.document import Owner, RuntimeRef

JSON = dict[str, Any]

SUFFIX: Final = "-runtime-snapshot"
KEY: Final = "runtime"
_SHOWN: Final = 253
"""Bytes of a text of somebody's that are repeated: as many as the longest name has."""
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


class Fault(StrEnum):
    """Which check failed."""

    LEFTOVER = "belongs to an earlier TrainJob of this name"
    OWNER = "belongs to somebody else"
    KEY = "has no text"
    TEXT = "cannot be read"
    RUNTIME = "is of another runtime"


@dataclass(frozen=True, slots=True)
class LegacyVerdict:
    """Either ``runtime``, the object that the job was started from, or ``fault`` and ``problem``, one line that says
    why it cannot be used. ``notes``: what was tolerated, one line each.

    ``runtime`` holds apiVersion, kind, metadata (name, namespace, uid, generation, labels, annotations) and spec.
    """

    runtime: JSON | None = None
    fault: Fault | None = None
    problem: str = ""
    notes: tuple[str, ...] = field(default=())


class _Refused(Exception):
    def __init__(self, fault: Fault, problem: str) -> None:
        super().__init__(problem)
        self.fault = fault


def name_of(job: str) -> str:
    """The name of a job's ConfigMap."""
    return job + SUFFIX


def judge(config_map: JSON, owner: Owner, ref: RuntimeRef, read: Callable[[str], Document] = read) -> LegacyVerdict:
    """Whether the reference would use this ConfigMap for this job, and the runtime in it."""
    notes: list[str] = []
    try:
        _check_owner(config_map, owner, notes)
        text = _text(config_map, notes)
        try:
            document = read(text)
        except YamlError as error:
            raise _Refused(Fault.TEXT, f"data[{KEY!r}] cannot be read: {error}") from None
        notes += [f"data[{KEY!r}] {note}" for note in document.notes]
        return LegacyVerdict(runtime=_runtime(document.value, ref, notes), notes=tuple(notes))
    except _Refused as refused:
        return LegacyVerdict(fault=refused.fault, problem=str(refused), notes=tuple(notes))


def _check_owner(config_map: JSON, owner: Owner, notes: list[str]) -> None:
    references = config_map["metadata"].get("ownerReferences") or []
    controller = next((reference for reference in references if reference.get("controller")), None)
    if controller is None:
        raise _Refused(Fault.OWNER, f"nobody controls it, and not this TrainJob (uid {owner.uid})")
    if controller.get("uid") != owner.uid:
        holder = f"{controller.get('kind')} {controller.get('name')} (uid {controller.get('uid')})"
        earlier = (controller.get("kind"), controller.get("name")) == ("TrainJob", owner.name)
        fault = Fault.LEFTOVER if earlier else Fault.OWNER
        raise _Refused(fault, f"it is controlled by {holder}, not by this TrainJob (uid {owner.uid})")
    if len(references) > 1:
        notes.append(f"metadata.ownerReferences names {len(references) - 1} more owners")


def _text(config_map: JSON, notes: list[str]) -> str:
    data = config_map.get("data") or {}
    binary = config_map.get("binaryData") or {}
    if KEY not in data:
        where = "; binaryData has it, which is not read" if KEY in binary else ""
        raise _Refused(Fault.KEY, f"data has no key {KEY!r}{where}")
    ignored = sorted([*(key for key in data if key != KEY), *binary])
    if ignored:
        notes.append(f"further keys are ignored: {', '.join(ignored[:5])}")
    text: str = data[KEY]
    return text


def _runtime(value: Any, ref: RuntimeRef, notes: list[str]) -> JSON:
    if not isinstance(value, dict):
        raise _Refused(Fault.TEXT, f"data[{KEY!r}] must be an object with apiVersion, kind, metadata and spec")
    metadata = _object(value, "metadata")
    for place, holder in (("apiVersion", value), ("kind", value), ("name", metadata)):
        if not isinstance(holder.get(place) or "", str):
            raise _Refused(Fault.TEXT, f"data[{KEY!r}].{place}: must be a string")
    group, slash, _ = (value.get("apiVersion") or "").partition("/")
    found = {"group": group if slash else "", "kind": value.get("kind") or "", "name": metadata.get("name") or ""}
    want = {"group": ref.api_group, "kind": ref.kind, "name": ref.name}
    wrong = [key for key in want if found[key] != want[key] and (want[key] or key == "name")]
    if wrong:
        told = ", ".join(
            f"{key} {truncate(found[key] or '<none>', _SHOWN, '...')} instead of {want[key]}" for key in wrong
        )
        raise _Refused(Fault.RUNTIME, f"it is of another runtime than spec.runtimeRef names: {told}")
    known = found["kind"] in KNOWN_RUNTIMES and found["group"] == c.GROUP
    rest = {key: item for key, item in value.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    if known:
        unknown = sorted(key for key, item in rest.items() if key != "spec" and item is not None)
        if unknown:
            raise _Refused(Fault.TEXT, f"data[{KEY!r}]: unknown field {truncate(', '.join(unknown), _SHOWN, '...')}")
        spec = _object(value, "spec")
        rest = {"spec": without_nulls(spec)} if value.get("spec") is not None else {}
    return {
        "apiVersion": value["apiVersion"],
        "kind": value["kind"],
        "metadata": _provenance(metadata, notes),
        **rest,
    }


def _provenance(metadata: JSON, notes: list[str]) -> JSON:
    """What is kept of the metadata: where the content came from, and what admins wrote on it."""
    kept: JSON = {"name": metadata["name"]}
    for key, kind in (("namespace", str), ("uid", str), ("generation", int)):
        found = metadata.get(key)
        if isinstance(found, kind) and not isinstance(found, bool) and found:
            kept[key] = found
        elif found is not None:
            notes.append(f"metadata.{key} is not understood and left out")
    for key in ("labels", "annotations"):
        found = _object(metadata, key, "metadata.")
        strings = {k: v for k, v in found.items() if isinstance(v, str) and k != LAST_APPLIED}
        if len(strings) < len(found) - (LAST_APPLIED in found):
            notes.append(f"metadata.{key}: what is not a string is left out")
        if strings:
            kept[key] = strings
    return kept


def _object(holder: JSON, key: str, prefix: str = "") -> JSON:
    value = holder.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _Refused(Fault.TEXT, f"data[{KEY!r}].{prefix}{key}: must be an object")
    return value


def without_nulls(value: Any, field_name: str = "") -> Any:
    """The value without fields that are null, which a typed reader takes for absent (``creationTimestamp: null``)."""
    if isinstance(value, dict):
        free = field_name in FREE_MAPS  # a null there is not an absent field
        return {key: without_nulls(item, key) for key, item in value.items() if free or item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


__all__ = ["KEY", "SUFFIX", "Fault", "LegacyVerdict", "judge", "name_of", "without_nulls"]
