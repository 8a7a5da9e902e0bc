# SPDX-License-Identifier: Apache-2.0
"""The CRDs' schemas as this package ships them: nodes that know their children, with references followed.

Used by the checks and by the client's comparison of runtimes. The data is generated from the sources of the CRDs;
it is read once, on first use.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

JSON = dict[str, Any]


@functools.cache
def document() -> JSON:
    """The whole of the data: ``apiVersion``, ``kinds``, ``definitions``."""
    found: JSON = json.loads((files("trainsnap_api._generated") / "schema.json").read_text(encoding="utf-8"))
    return found


@dataclass(frozen=True, slots=True)
class Node:
    """A schema at one place. What stands beside a reference wins over what is referred to."""

    data: JSON

    def child(self, name: str) -> Node | None:
        """The schema of a field, or of any key of a map; None for a field that is not known."""
        properties = self.data.get("properties")
        if properties is not None and name in properties:
            return of(properties[name])
        additional = self.data.get("additionalProperties")
        return of(additional) if isinstance(additional, dict) else None

    @property
    def is_map(self) -> bool:
        """Whether keys are free."""
        return isinstance(self.data.get("additionalProperties"), dict)

    @property
    def items(self) -> Node | None:
        """The schema of a list's entries."""
        found = self.data.get("items")
        return of(found) if isinstance(found, dict) else None

    @property
    def list_keys(self) -> tuple[str, ...]:
        """The fields that identify an entry of a list; none for a list without such."""
        return tuple(self.data.get("x-kubernetes-list-map-keys", ()))

    @property
    def rules(self) -> list[JSON]:
        """CEL rules of this node."""
        return list(self.data.get("x-kubernetes-validations", ()))


def of(data: JSON) -> Node:
    """The node of a schema, its reference followed."""
    name = data.get("$ref")
    if name is None:
        return Node(data)
    beside = {key: value for key, value in data.items() if key != "$ref"}
    return Node({**document()["definitions"][name], **beside}) if beside else root(name)


@functools.cache
def root(name: str) -> Node:
    """A definition, such as a kind. Raises KeyError."""
    return of(document()["definitions"][name])
