# SPDX-License-Identifier: Apache-2.0
"""Writes the table of merge keys that the operator merges runtime patches by. Called by the commands.

It follows the patchable part of a JobSet spec and takes the patch rules from the Kubernetes types, which say how a
strategic merge treats each list. The keys of a CRD's map lists are not used: the two differ, ``volumeMounts`` for one.
"""

from __future__ import annotations

import pprint
import re
from typing import TYPE_CHECKING, Any

from trainsnap_codegen.layout import JSON, LICENCE, MARK, SchemaError

if TYPE_CHECKING:
    from pathlib import Path

    from trainsnap_codegen.layout import Layout
    from trainsnap_codegen.sources import Sources

_ROOT = "JobSetSpecPatch"

_DOC = '''"""How each list and map of a patchable JobSet spec is merged. Read by the runtime framework.

A node describes one field: ``fields`` the fields of an object (for a list: of each element) that are not plain values;
``list`` how a list is merged: ``merge`` (elements by ``key``), ``union`` (of plain values) or ``replace``; ``map`` True
for a map of plain values by free keys. ``retain`` True: an element of the patch names all fields that may stay beside.
A field without a node is replaced as a whole.
"""'''


def merge_key_files(layout: Layout, sources: Sources) -> dict[Path, str]:
    """The generated package with the table."""
    folder = layout.root / "controller" / "trainsnap_controller" / "runtime" / "_generated"
    tables = Tables(sources)
    tables.of(_ROOT)
    blocks = []
    for name, fields in tables.done.items():
        if fields:
            blocks.append(f"{variable(name)}: Final[Fields] = {render(fields)}\n")
    body = "\n".join(blocks)
    text = (
        f"{LICENCE}# {MARK}\n{_DOC}\n\nfrom __future__ import annotations\n\nfrom typing import Any, Final\n\n"
        f"Node = dict[str, Any]\nFields = dict[str, Node]\n\n{body}\n"
        f'MERGE_KEYS: Final[Node] = {{"fields": {variable(_ROOT)}}}\n'
        '"""The node of ``spec.template.spec`` of a runtime."""\n'
    )
    doc = '"""Generated tables of the runtime framework."""'
    init = f"{LICENCE}# {MARK}\n{doc}\n\nfrom __future__ import annotations\n"
    return {folder / "__init__.py": init, folder / "merge_keys.py": text}


def variable(name: str) -> str:
    """The name of the module constant that holds the fields of a definition."""
    return "_" + re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).upper()


class _Name(str):
    """A variable, written without quotes."""

    def __repr__(self) -> str:
        return str(self)


class Tables:
    """The fields of each definition that is met, dependencies first."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._keys: dict[str, JSON] = sources.names["merge-keys"]
        self._differing = {new: old.rpartition(".")[2] for old, new in sources.names["differing"].items()}
        self._unused = set(self._keys)
        self.done: dict[str, JSON] = {}

    def of(self, name: str) -> None:
        """Adds the definition and all that it refers to. Raises SchemaError."""
        self._visit(name)
        if self._unused:
            raise SchemaError(f"names.yaml: merge-keys of no patchable list: {', '.join(sorted(self._unused))}")

    def _visit(self, name: str) -> None:
        if name in self.done:
            return
        schema = self._sources.definitions[name]
        type_name = schema.get("x-patch-type", self._differing.get(name, name))
        fields: JSON = {}
        for key, child in schema.get("properties", {}).items():
            node = self._node(child, self._rule(type_name, key))
            if node:
                fields[key] = node
        self.done[name] = fields

    def _rule(self, type_name: str, key: str) -> JSON:
        row = f"{type_name}.{key}"
        if row in self._keys:
            self._unused.discard(row)
            return self._keys[row]
        found = self._sources.types.get(type_name, {}).get(key, {})
        return dict(found)

    def _node(self, schema: JSON, rule: JSON) -> JSON:
        if "$ref" in schema:
            return self._fields(schema["$ref"])
        if schema.get("type") == "array":
            strategies = str(rule.get("strategy", "")).split(",")
            out: JSON = {"list": "replace"}
            if "merge" in strategies:
                out = {"list": "merge", "key": rule["key"]} if "key" in rule else {"list": "union"}
            if "retainKeys" in strategies:
                out["retain"] = True
            if out["list"] == "merge":
                out |= self._fields(schema["items"].get("$ref"))
            return out
        if "additionalProperties" in schema:
            return {"map": True}
        return {}

    def _fields(self, name: str | None) -> JSON:
        if name is None:
            return {}
        self._visit(name)
        return {"fields": _Name(variable(name))} if self.done[name] else {"fields": {}}


def render(value: Any) -> str:
    """A Python literal, one field a line, in the formatter's style."""
    if not isinstance(value, dict):
        raise TypeError(pprint.pformat(value))
    lines = []
    for key, node in value.items():
        inner = ", ".join(f'"{k}": {_literal(v)}' for k, v in node.items())
        lines.append(f'    "{key}": {{{inner}}},\n')
    return "{\n" + "".join(lines) + "}"


def _literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) and not isinstance(value, _Name) else repr(value)
