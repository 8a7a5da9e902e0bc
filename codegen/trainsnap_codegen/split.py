# SPDX-License-Identifier: Apache-2.0
"""Cuts the generated classes into two modules: what every program needs, and the pod types, imported when first used.

Called by the generator of the models. Importing all classes takes twice as long as importing those that a program
needs which only creates, lists or watches TrainJobs. No name or field differs from the uncut text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trainsnap_codegen.layout import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable

FRONT, BACK = "models", "pods"
"""Names of the two modules."""

LAZY = ("JobSetSpec", "PodSpecPatch")
"""The classes through which the front refers to the back."""

_PACKAGE = "trainsnap_api._generated"
_DOCS = {
    FRONT: "The kinds and what is above the level of pods, a class for each type",
    BACK: "What is inside JobSets and pods, a class for each type",
}
_OURS = ("IntOrString", "Kind", "Model", "Quantity", "QuantityMap", "StringMap")


def split(text: str, kinds: Iterable[str]) -> dict[str, str]:
    """The two modules' texts, without their headers. Raises SchemaError when the cut would not be one."""
    pieces = [piece.rstrip() for piece in re.split(r"^(?=class )", text, flags=re.MULTILINE)[1:]]
    classes = {re.match(r"class (\w+)", piece)[1]: piece for piece in pieces}  # type: ignore[index]
    front = _reached(classes, kinds, set(LAZY))
    back = set(classes) - front
    across = {name for owner in front for name in _names(classes[owner], back)}
    if across != set(LAZY):
        raise SchemaError(f"the front refers to {sorted(across)} of the back, not to {sorted(LAZY)}")
    shared = sorted({name for owner in back for name in _names(classes[owner], front)})
    # In the generator's order, which defines every class before it is used.
    bodies = {
        FRONT: [piece for name, piece in classes.items() if name in front],
        BACK: [piece for name, piece in classes.items() if name in back],
    }
    links = {
        FRONT: _lazy_import(),
        BACK: "\nfrom trainsnap_api._generated.models import (\n" + "".join(f"    {n},\n" for n in shared) + ")\n",
    }
    return {name: _module(name, bodies[name], links[name]) for name in (FRONT, BACK)}


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
        found.add(name)
        todo += _names(classes[name], set(classes))
    return found


def _lazy_import() -> str:
    names = ", ".join(LAZY)
    rows = "".join(f'    {name} = Annotated[Any, Lazy("{_PACKAGE}.{BACK}", "{name}")]\n' for name in LAZY)
    return f"\nif TYPE_CHECKING:\n    from {_PACKAGE}.{BACK} import {names}\nelse:\n{rows}"


def _module(name: str, bodies: list[str], links: str) -> str:
    code = "\n".join(bodies)
    typing = [word for word in ("TYPE_CHECKING", "Annotated", "Any") if re.search(rf"\b{word}\b", links + code)]
    ours = sorted(word for word in (*_OURS, "Lazy") if re.search(rf"\b{word}\b", links + code))
    exported = sorted(re.findall(r"^class (\w+)\(", code, re.MULTILINE))
    names = "".join(f"    {n!r},\n" for n in exported)
    return (
        f'"""{_DOCS[name]}. Imported through trainsnap_api.models only."""\n\n'
        f"from typing import {', '.join(typing)}\n\n"
        "from pydantic import Field\n"
        f"from trainsnap_api.base import {', '.join(ours)}\n"
        f"{links}\n\n" + "\n\n\n".join(bodies) + f"\n\n\n__all__: list[str] = [\n{names}]\n"
    )
