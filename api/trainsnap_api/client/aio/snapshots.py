# SPDX-License-Identifier: Apache-2.0
"""TrainingRuntimeSnapshots: the verbs of every kind, and how one differs from the runtime today. The twin is generated.

Snapshots are the operator's: a create, change or delete by anyone else is refused by the cluster (Forbidden, Invalid).
"""

# ruff: noqa: ASYNC109 - a limit for the whole call belongs to the interface, which has a sync twin

from __future__ import annotations

from typing import Literal

from trainsnap_api.client.aio.kind import AsyncKind, Connection
from trainsnap_api.client.aio.runtimes import Runtimes
from trainsnap_api.client.diff import changes
from trainsnap_api.client.errors import NotFound
from trainsnap_api.client.kinds import which
from trainsnap_api.client.values import RuntimeDiff
from trainsnap_api.models import TrainingRuntimeSnapshot, TrainJob


class AsyncSnapshots(AsyncKind[TrainingRuntimeSnapshot]):
    """The snapshots of a cluster. Each has the name and namespace of its TrainJob."""

    def __init__(self, connection: Connection, namespace: str) -> None:
        super().__init__(connection, TrainingRuntimeSnapshot, namespace)
        self._runtimes = Runtimes(connection, namespace)

    async def diff(
        self, job: TrainJob | str, namespace: str | None = None, *, timeout: float | None = None
    ) -> RuntimeDiff:
        """What a job would run with if it were started today, against what it was started from.

        Both are read from the API server, so a default that a newer CRD adds is no difference. Raises NotFound when the
        job has no snapshot, Forbidden when the runtime may not be read.
        """
        name, space, _ = which(job, namespace)
        async with self._within(timeout, f"diff of {name}"):
            return await self._diff(name, await self.get(name, space))

    async def _diff(self, job: str, snapshot: TrainingRuntimeSnapshot) -> RuntimeDiff:
        source = snapshot.source
        kind, name = (source and source.kind) or "", (source and source.name) or ""
        then = source.generation if source else None
        try:
            live = await self._runtimes.read(kind, name, snapshot.metadata.namespace if snapshot.metadata else None)
        except NotFound:
            return RuntimeDiff(job, kind, name, "deleted", generation=then)
        if live is None or snapshot.opaque is not None:
            return RuntimeDiff(job, kind, name, "unknown", generation=then)
        now = live.metadata
        uid, generation = (now.uid, now.generation) if now else (None, None)
        same = source is None or source.uid is None or source.uid == uid
        found: Literal["same", "recreated"] = "same" if same else "recreated"
        # The same object in the same generation has the same spec, and nothing needs to be compared.
        if source and source.uid == uid and source.generation == generation:
            return RuntimeDiff(job, kind, name, found, generation=then, live_generation=generation)
        old, new = (obj.spec.dump() if obj.spec else None for obj in (snapshot, live))
        return RuntimeDiff(job, kind, name, found, changes(old, new), then, generation)
