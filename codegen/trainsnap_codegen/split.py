# SPDX-License-Identifier: Apache-2.0
"""Cuts the generated classes into modules that are imported when something in them is first needed.

Called by the generator of the models. A class costs half a millisecond to import, and there are 177: a program that
creates, lists or watches TrainJobs needs four at once and 51 for their content; one that reads a usual runtime needs
half of the others. No name or field differs from the uncut text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainsnap_codegen.layout import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Part:
    """A module. It has what can be reached from its doors, but for what an earlier one has or is behind other doors."""

    name: str
    about: str
    doors: tuple[str, ...]
    """The classes through which earlier modules refer to this one; they import it when there is such an object."""


PARTS = (
    Part("kinds", "The kinds", ()),
    Part(
        "models",
        "What is in the kinds above the level of pods, a class for each type",
        (
            "ObjectMeta",
            "OpaqueRuntime",
            "SnapshotSource",
            "TrainJobSpec",
            "TrainJobStatus",
            "TrainingRuntimeSpec",
        ),
    ),
    Part("pods", "What most JobSets and pods have inside, a class for each type", ("JobSetSpec",)),
    Part(
        "details",
        "What few JobSets and pods have inside, and the patches of pods, a class for each type",
        (
            "AWSElasticBlockStoreVolumeSource",
            "Affinity",
            "AzureDiskVolumeSource",
            "AzureFileVolumeSource",
            "CSIVolumeSource",
            "CephFSVolumeSource",
            "CinderVolumeSource",
            "DownwardAPIVolumeSource",
            "EphemeralContainer",
            "EphemeralVolumeSource",
            "FCVolumeSource",
            "FlexVolumeSource",
            "FlockerVolumeSource",
            "GCEPersistentDiskVolumeSource",
            "GitRepoVolumeSource",
            "GlusterfsVolumeSource",
            "ISCSIVolumeSource",
            "ImageVolumeSource",
            "Lifecycle",
            "NFSVolumeSource",
            "PersistentVolumeClaim",
            "PhotonPersistentDiskVolumeSource",
            "PodDNSConfig",
            "PodFailurePolicy",
            "PodResourceClaim",
            "PodSecurityContext",
            "PodSpecPatch",
            "PortworxVolumeSource",
            "ProjectedVolumeSource",
            "QuobyteVolumeSource",
            "RBDVolumeSource",
            "ScaleIOVolumeSource",
            "SecurityContext",
            "StorageOSVolumeSource",
            "TopologySpreadConstraint",
            "VsphereVirtualDiskVolumeSource",
        ),
    ),
)

_PACKAGE = "trainsnap_api._generated"
_OURS = ("IntOrString", "Kind", "Model", "Quantity", "QuantityMap", "StringMap")


def split(text: str, kinds: Iterable[str]) -> dict[str, str]:
    """The modules' texts, without their headers. Raises SchemaError when a door is no door."""
    pieces = [piece.rstrip() for piece in re.split(r"^(?=class )", text, flags=re.MULTILINE)[1:]]
    classes = {re.match(r"class (\w+)", piece)[1]: piece for piece in pieces}  # type: ignore[index]
    doors = {name for part in PARTS for name in part.doors}
    where: dict[str, str] = {}
    for part in PARTS:
        for name in _reached(classes, part.doors or kinds, doors - set(part.doors)):
            where.setdefault(name, part.name)
    order = [part.name for part in PARTS]
    used: set[str] = set()
    modules: dict[str, str] = {}
    for number, part in enumerate(PARTS):
        # In the generator's order, which defines every class before it is used.
        own = [name for name in classes if where.get(name) == part.name]
        across = {other for name in own for other in _names(classes[name], set(where) - set(own))}
        later = {name for name in across if order.index(where[name]) > number}
        used |= later
        links = "".join(_import(module, across - later, where) for module in order[:number])
        modules[part.name] = _module(part, [classes[name] for name in own], links + _lazy(later, where))
    if set(where) != set(classes) or used != doors:
        odd = sorted((set(classes) - set(where)) | (used ^ doors))
        raise SchemaError(f"split.py: these should be doors and are not, or the other way round: {', '.join(odd)}")
    return modules


def _names(piece: str, among: set[str]) -> set[str]:
    """The classes of a set that the annotations of a class mention; texts in quotes are no mention."""
    code = re.sub(r'"""(?s:.)*?"""|\'[^\'\n]*\'|"[^"\n]*"', "", piece.partition("\n")[2])
    return set(re.findall(r"\b[A-Z]\w+", code)) & among


def _reached(classes: dict[str, str], roots: Iterable[str], stop: set[str]) -> set[str]:
    found: set[str] = set()
    todo = list(roots)
    while todo:
        name = todo.pop()
        if name in found or name in stop:
            continue
        if name not in classes:
            raise SchemaError(f"split.py: no class {name}")
        found.add(name)
        todo += _names(classes[name], set(classes))
    return found


def _import(module: str, names: set[str], where: dict[str, str]) -> str:
    here = sorted(name for name in names if where[name] == module)
    return f"\nfrom {_PACKAGE}.{module} import (\n" + "".join(f"    {n},\n" for n in here) + ")\n" if here else ""


def _lazy(names: set[str], where: dict[str, str]) -> str:
    if not names:
        return ""
    imports = "".join(
        f"    from {_PACKAGE}.{module} import (\n" + "".join(f"        {n},\n" for n in sorted(here)) + "    )\n"
        for module in sorted({where[name] for name in names})
        if (here := [name for name in names if where[name] == module])
    )
    rows = "".join(f'    {n} = Annotated[Any, Lazy("{_PACKAGE}.{where[n]}", "{n}")]\n' for n in sorted(names))
    return f"\nif TYPE_CHECKING:\n{imports}else:\n{rows}"


def _module(part: Part, bodies: list[str], links: str) -> str:
    code = "\n".join(bodies)
    typing = [word for word in ("TYPE_CHECKING", "Annotated", "Any") if re.search(rf"\b{word}\b", links + code)]
    ours = sorted(word for word in (*_OURS, "Lazy") if re.search(rf"\b{word}\b", links + code))
    exported = sorted(re.findall(r"^class (\w+)\(", code, re.MULTILINE))
    names = "".join(f"    {n!r},\n" for n in exported)
    return (
        f'"""{part.about}. Imported through trainsnap_api.models only."""\n\n'
        f"from typing import {', '.join(typing)}\n\n"
        + ("from pydantic import Field\n" if "Field(" in code else "")
        + f"from trainsnap_api.base import {', '.join(ours)}\n"
        f"{links}\n\n" + "\n\n\n".join(bodies) + f"\n\n\n__all__: list[str] = [\n{names}]\n"
    )
