# SPDX-License-Identifier: Apache-2.0
"""A connection to one cluster, and the kinds that are reached through it. The sync twin is generated.

Made by ``connect``, used with ``async with``, closed by ``aclose``. It belongs to the event loop that made it.
"""

# ruff: noqa: ASYNC109 - a limit for the whole call belongs to the interface, which has a sync twin

from __future__ import annotations

import asyncio
import random as random_module
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from trainsnap_api.base import Kind
from trainsnap_api.client.aio.jobs import AsyncTrainJobs
from trainsnap_api.client.aio.kind import AsyncKind, Connection
from trainsnap_api.client.aio.snapshots import AsyncSnapshots
from trainsnap_api.client.kinds import model_of
from trainsnap_api.models import ClusterTrainingRuntime, TrainingRuntime, TrainingRuntimeSnapshot, TrainJob
from trainsnap_api.transport import Transport, TransportSettings

if TYPE_CHECKING:
    import os
    from types import TracebackType

    from trainsnap_api.transport import JSON

T = TypeVar("T", bound=Kind)

FIELD_MANAGER = "trainsnap-client"


class AsyncClient:
    """TrainJobs, runtimes and snapshots of one cluster, as one identity."""

    def __init__(
        self,
        transport: Transport,
        *,
        namespace: str | None = None,
        field_manager: str = FIELD_MANAGER,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = random_module.random,
    ) -> None:
        self._connection = Connection(
            transport=transport, field_manager=field_manager, clock=clock, sleep=sleep, random=random
        )
        self._namespace = transport.namespace if namespace is None else namespace

    @classmethod
    async def connect(
        cls,
        *,
        kubeconfig: str | os.PathLike[str] | JSON | None = None,
        context: str | None = None,
        in_cluster: bool = False,
        namespace: str | None = None,
        field_manager: str = FIELD_MANAGER,
        settings: TransportSettings | None = None,
        token_provider: Callable[[], str | Awaitable[str]] | None = None,
        probe: bool = False,
    ) -> AsyncClient:
        """Reads the credentials; ConfigurationError with one clear line.

        ``kubeconfig``: a file or its content; None: ``$KUBECONFIG``, ``~/.kube/config``, or the pod's service account.
        ``namespace`` None: the context's, or the pod's own. ``token_provider``: gives a bearer token, and is asked
        again before it grows old and after a 401. ``probe``: also ask the server, and raise when it cannot be reached.
        """
        transport = await Transport.connect(
            kubeconfig=kubeconfig,
            context=context,
            in_cluster=in_cluster,
            settings=settings,
            token_provider=token_provider,
            probe=probe,
        )
        return cls(transport, namespace=namespace, field_manager=field_manager)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.server}, namespace {self._namespace}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes all connections; calls and watches that run end with TransportClosed. May be called twice."""
        await self._connection.transport.aclose()

    @property
    def namespace(self) -> str:
        """The namespace of calls that name none."""
        return self._namespace

    @property
    def server(self) -> str:
        """The base URL of the API server."""
        return self._connection.transport.server

    @property
    def jobs(self) -> AsyncTrainJobs:
        """TrainJobs."""
        return AsyncTrainJobs(self._connection, self._namespace)

    @property
    def snapshots(self) -> AsyncSnapshots:
        """TrainingRuntimeSnapshots."""
        return AsyncSnapshots(self._connection, self._namespace)

    @property
    def runtimes(self) -> AsyncKind[TrainingRuntime]:
        """TrainingRuntimes, the runtimes of one namespace."""
        return AsyncKind(self._connection, TrainingRuntime, self._namespace)

    @property
    def cluster_runtimes(self) -> AsyncKind[ClusterTrainingRuntime]:
        """ClusterTrainingRuntimes, the runtimes of all namespaces."""
        return AsyncKind(self._connection, ClusterTrainingRuntime, self._namespace)

    def kind(self, model: type[T]) -> AsyncKind[T]:
        """The kind of a model class, for code that works on any of them; for a class that is derived from one, with
        that class out. Raises ValueError for another class."""
        special: dict[type[Kind], AsyncKind[Any]] = {TrainJob: self.jobs, TrainingRuntimeSnapshot: self.snapshots}
        found = special.get(model) or AsyncKind(self._connection, model, self._namespace)
        return cast("AsyncKind[T]", found)

    def in_namespace(self, namespace: str) -> AsyncClient:
        """The same connection with another namespace; closing either closes both."""
        connection = self._connection
        return AsyncClient(
            connection.transport,
            namespace=namespace,
            field_manager=connection.field_manager,
            clock=connection.clock,
            sleep=connection.sleep,
            random=connection.random,
        )

    async def apply(
        self, obj: Kind | Mapping[str, Any], *, force: bool = False, dry_run: bool = False, timeout: float | None = None
    ) -> Kind:
        """Server-side apply of an object of any kind that the client has. Raises ValueError for another kind."""
        return await self.kind(model_of(obj)).apply(obj, force=force, dry_run=dry_run, timeout=timeout)

    async def server_version(self) -> Mapping[str, Any]:
        """The server's version: ``gitVersion``, ``major``, ``minor``."""
        return await self._connection.transport.server_version()
