# SPDX-License-Identifier: Apache-2.0
"""What building answers: the documents to write, in order, each with the rule by which it is written.

An object that shall be left alone is not part of the plan at all. Made by the component builders, carried out by the
reconciler's acting part, which also checks owners and skips what is equal already.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from trainsnap_api.transport.resources import Resource

JSON = dict[str, Any]


class Write(Enum):
    """When a document is written."""

    ONCE = "once"
    """Only when the object is absent; an existing one is never changed (its content is random)."""
    EQUAL = "equal"
    """Kept equal to the document: applied whenever a wanted field differs."""


@dataclass(frozen=True, slots=True)
class Component:
    """One object to write. ``make`` is called only when it is really going to be written."""

    resource: Resource
    namespace: str
    name: str
    write: Write
    make: Callable[[], JSON]

    @classmethod
    def of(cls, resource: Resource, document: JSON) -> Component:
        """A component whose document is known already, kept equal."""
        metadata = document["metadata"]
        return cls(resource, metadata["namespace"], metadata["name"], Write.EQUAL, lambda: document)

    def document(self) -> JSON:
        """The complete document, with apiVersion, kind, name, namespace and owner reference."""
        return self.make()


@dataclass(frozen=True, slots=True)
class Plan:
    """The components in the order in which they must be written; the JobSet is the last."""

    components: tuple[Component, ...]
