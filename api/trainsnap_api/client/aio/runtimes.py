# SPDX-License-Identifier: Apache-2.0
"""Reads the live runtime that a reference names. Used by the faces of jobs and of snapshots; not a face itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainsnap_api.client.aio.kind import AsyncKind, Connection
from trainsnap_api.client.errors import ApiError, Forbidden, NotFound
from trainsnap_api.client.values import EffectiveRuntime
from trainsnap_api.models import ClusterTrainingRuntime, TrainingRuntime

if TYPE_CHECKING:
    from trainsnap_api.models import TrainJob

GROUP = "trainer.kubeflow.org"
CLUSTER, NAMESPACED = "ClusterTrainingRuntime", "TrainingRuntime"

Runtime = ClusterTrainingRuntime | TrainingRuntime


class Runtimes:
    """Runtimes of both kinds. With ``memory``, each is read once."""

    def __init__(
        self, connection: Connection, namespace: str, memory: dict[tuple[str, str, str], EffectiveRuntime] | None = None
    ) -> None:
        self._connection = connection
        self._namespace = namespace
        self._memory = memory

    @contextlib.contextmanager
    def remembering(self) -> Iterator[Runtimes]:
        """The same, with a memory that lasts for the block."""
        yield Runtimes(self._connection, self._namespace, {})

    async def read(self, kind: str, name: str, namespace: str | None) -> Runtime | None:
        """The runtime; None for a kind that is not known here. Raises NotFound, Forbidden."""
        if kind == CLUSTER:
            return await AsyncKind(self._connection, ClusterTrainingRuntime, self._namespace).get(name)
        if kind == NAMESPACED:
            return await AsyncKind(self._connection, TrainingRuntime, self._namespace).get(name, namespace)
        return None

    async def live(self, job: TrainJob) -> EffectiveRuntime:
        """The runtime that the job names, as it is now; ``missing`` when it is gone, unknown, or may not be read."""
        reference = job.spec.runtime_ref if job.spec else None
        namespace = (job.metadata.namespace if job.metadata else None) or self._namespace
        kind, name = (reference.kind or CLUSTER, reference.name or "") if reference else (CLUSTER, "")
        if reference and reference.api_group not in (None, "", GROUP):
            return EffectiveRuntime("missing", kind, name, problem=f"{reference.api_group} is not known here")
        key = (kind, namespace if kind == NAMESPACED else "", name)
        if self._memory is not None and key in self._memory:
            return self._memory[key]
        found = await self._effective(*key)
        if self._memory is not None:
            self._memory[key] = found
        return found

    async def _effective(self, kind: str, namespace: str, name: str) -> EffectiveRuntime:
        problem: ApiError | None = None
        try:
            runtime = await self.read(kind, name, namespace)
        except (NotFound, Forbidden) as error:
            runtime, problem = None, error
        if runtime is None:
            return EffectiveRuntime("missing", kind, name, problem=str(problem or f"{kind} is not known here"))
        generation = runtime.metadata.generation if runtime.metadata else None
        return EffectiveRuntime("live", kind, name, spec=runtime.spec, generation=generation)
