# SPDX-License-Identifier: Apache-2.0
"""What the cluster looked like when the job was decided on.

A plugin declares what it wants to know as ``Need`` values; the reconciler's gathering part reads them and hands the
answers over as one frozen ``Observed``. Nothing in this package reads anything itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trainsnap_api.transport.resources import JOB_SET, Resource

JSON = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Need:
    """One object that a plugin wants to see. ``namespace`` is None for cluster-scoped kinds.

    ``child``: the object is one of the job's own, so its owner matters; otherwise it belongs to somebody else and is
    only read.
    """

    resource: Resource
    namespace: str | None
    name: str
    child: bool = True


@dataclass(frozen=True, slots=True)
class Observed:
    """The answers: an object's JSON, or None where there is none. Read only."""

    objects: Mapping[Need, JSON | None] = field(default_factory=dict)

    def find(self, resource: Resource, namespace: str | None, name: str) -> JSON | None:
        """The object, or None when it does not exist or nobody asked for it."""
        for child in (True, False):
            found = self.objects.get(Need(resource, namespace, name, child))
            if found is not None:
                return found
        return None

    def job_set(self, namespace: str, name: str) -> JSON | None:
        """The live JobSet of the job of that name."""
        return self.find(JOB_SET, namespace, name)
