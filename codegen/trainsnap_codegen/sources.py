# SPDX-License-Identifier: Apache-2.0
"""Reads the schema sources and the pinned definitions into one set, with the table of deviations applied.

Called by every generator. A definition is a schema whose objects are references to other definitions, never written
out in place; ``expand`` writes one out for a CRD.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trainsnap_codegen.layout import JSON, SchemaError, read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainsnap_codegen.layout import Layout

KIND_FILES = ("trainjob.yaml", "runtime.yaml", "snapshot.yaml")
OTHER_FILES = ("patches.yaml", "metadata.yaml")

GROUP = "trainer.kubeflow.org"
VERSION = "v1alpha1"

_OWN_KEYS = ("x-patch-type",)
_CHANGES = ("add", "replace", "remove")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of the API and how its CRD presents it."""

    kind: str
    plural: str
    singular: str
    scope: str
    status: bool = False
    shortNames: tuple[str, ...] = ()  # noqa: N815 - spelled as in the sources and in a CRD
    columns: tuple[JSON, ...] = ()


@dataclass(frozen=True, slots=True)
class Sources:
    """Everything that the generators read."""

    kinds: tuple[Kind, ...]
    definitions: dict[str, JSON]
    own: frozenset[str] = frozenset()
    """Definitions written by us; the others are pinned."""
    models_only: frozenset[str] = frozenset()
    names: JSON = field(default_factory=dict)
    types: dict[str, JSON] = field(default_factory=dict)
    """Fields of the Kubernetes types and how patches merge them."""


def load(layout: Layout) -> Sources:
    """All sources, checked against each other. Raises SchemaError."""
    kinds: list[Kind] = []
    own: dict[str, JSON] = {}
    models_only: set[str] = set()
    for name in (*KIND_FILES, *OTHER_FILES):
        document = read_yaml(layout.sources / name)
        for row in document.get("kinds", ()):
            lists = {key: tuple(value) for key, value in row.items() if isinstance(value, list)}
            kinds.append(Kind(**{**row, **lists}))
        for definition, schema in document["definitions"].items():
            if definition in own:
                raise SchemaError(f"{name}: {definition} is defined twice")
            own[definition] = schema
        if document.get("models-only"):
            models_only |= set(document["definitions"])
    pinned = read_yaml(layout.pinned_jobset)["definitions"]
    types = read_yaml(layout.pinned_kubernetes)["types"]
    both = sorted(set(own) & set(pinned))
    if both:
        raise SchemaError(f"defined by us and by the pinned CRD: {', '.join(both)}")
    # YAML aliases are shared objects, and a deviation of one place must not reach another.
    definitions = copy.deepcopy({**_resolved(own, own, pinned), **_resolved(pinned, pinned, {})})
    definitions = {name: _unshared(schema) for name, schema in definitions.items()}
    _check_metadata(own, models_only, types)
    apply_deviations(definitions, read_yaml(layout.sources / "deviations.yaml")["rows"], frozenset(own))
    return Sources(
        kinds=tuple(kinds),
        definitions=definitions,
        own=frozenset(own),
        models_only=frozenset(models_only),
        names=read_yaml(layout.sources / "names.yaml"),
        types=types,
    )


def _resolved(definitions: dict[str, JSON], here: dict[str, JSON], jobset: dict[str, JSON]) -> dict[str, JSON]:
    """The definitions with `$ref: jobset/X` reduced to `$ref: X`. Raises SchemaError for a name that is nowhere."""

    def visit(node: Any, place: str) -> Any:
        if isinstance(node, list):
            return [visit(item, place) for item in node]
        if not isinstance(node, dict):
            return node
        out = {key: visit(value, f"{place}.{key}") for key, value in node.items()}
        if isinstance(node.get("$ref"), str):
            if len(node) > 1:
                raise SchemaError(f"{place}: nothing may stand beside $ref; a change is a row of deviations.yaml")
            prefix, slash, name = node["$ref"].rpartition("/")
            found = jobset if slash and prefix == "jobset" else here
            if name not in found or (slash and prefix != "jobset"):
                raise SchemaError(f"{place}: there is no {node['$ref']}")
            out["$ref"] = name
        return out

    return {name: visit(schema, name) for name, schema in definitions.items()}


def _unshared(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _unshared(value) for key, value in node.items()}
    return [_unshared(item) for item in node] if isinstance(node, list) else node


def _check_metadata(own: dict[str, JSON], models_only: set[str], types: dict[str, JSON]) -> None:
    """Definitions that only models have must hold the fields of the Kubernetes type of their name."""
    for name in sorted(models_only):
        fields = set(own[name]["properties"])
        if name not in types or fields != set(types[name]):
            odd = fields ^ set(types.get(name, ()))
            raise SchemaError(f"{name}: does not have the fields of the Kubernetes type: {', '.join(sorted(odd))}")


def apply_deviations(definitions: dict[str, JSON], rows: list[JSON], own: frozenset[str] = frozenset()) -> None:
    """Changes the definitions in place as the table says. Raises SchemaError for a row that does not fit any more.

    A field that refers to a definition is changed for that place only: the change stands beside the reference.
    """
    for number, row in enumerate(rows, start=1):
        place = f"deviations.yaml row {number} ({row.get('at')})"
        changes = [change for change in _CHANGES if change in row]
        if len(changes) != 1 or set(row) != {"at", "why", "since", changes[0]}:
            raise SchemaError(f"{place}: needs at, why, since and one of {', '.join(_CHANGES)}, and nothing else")
        node = _find(definitions, str(row["at"]).removeprefix("jobset/"), place)
        seen = {**definitions[node["$ref"]], **node} if "$ref" in node else node
        change = changes[0]
        for key, value in row[change].items():
            if change == "add":
                if key in seen:
                    raise SchemaError(f"{place}: {key} is there already")
                node[key] = value
                continue
            want = value["from"] if change == "replace" else value
            if seen.get(key) != want:
                raise SchemaError(f"{place}: {key} is not {want!r} but {seen.get(key)!r}")
            if change == "replace":
                node[key] = value["to"]
            elif key in node:
                del node[key]
            else:
                raise SchemaError(f"{place}: {key} belongs to {node['$ref']}; remove it there")


def _find(definitions: dict[str, JSON], at: str, place: str) -> JSON:
    name, *steps = at.split(".")
    node: Any = definitions.get(name)
    for step in steps:
        field_name = step.removesuffix("[]")
        node = (node or {}).get("properties", {}).get(field_name)
        if step.endswith("[]"):
            node = (node or {}).get("items")
    if node is None:
        raise SchemaError(f"{place}: there is no such place")
    assert isinstance(node, dict)
    return node


def expand(sources: Sources, name: str) -> JSON:
    """The definition with every reference written out, as a structural schema."""
    found = _expand(sources, sources.definitions[name])
    assert isinstance(found, dict)
    return found


def _expand(sources: Sources, node: Any) -> Any:
    if isinstance(node, list):
        return [_expand(sources, item) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = node["$ref"]
        if target in sources.models_only:
            return {"type": "object"}
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return {**_expand(sources, sources.definitions[target]), **copy.deepcopy(beside)}
    return {key: _expand(sources, value) for key, value in node.items() if key not in _OWN_KEYS}


def walk(node: JSON, path: str = "") -> Iterator[tuple[str, JSON]]:
    """Every schema below `node` with its path, such as `spec.list[].map{}`, parents first."""
    yield path, node
    for key, child in node.get("properties", {}).items():
        yield from walk(child, f"{path}.{key}" if path else key)
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(node.get(key), dict):
            yield from walk(node[key], path + mark)
