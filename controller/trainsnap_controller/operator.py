# SPDX-License-Identifier: Apache-2.0
"""Puts the operator together: caches, queues, reconcilers, servers. The only place that knows all of them.

Called by the command line with a connected transport; everything that varies comes in as an argument.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from trainsnap_api.transport import Resource, Transport
from trainsnap_api.transport.resources import (
    CLUSTER_TRAINING_RUNTIME,
    TRAIN_JOB,
    TRAINING_RUNTIME,
    TRAINING_RUNTIME_SNAPSHOT,
)
from trainsnap_controller import constants as c
from trainsnap_controller.cache import Cache, Key, Store
from trainsnap_controller.config import Configuration
from trainsnap_controller.manager import (
    Controller,
    Health,
    HttpServer,
    LeaderElector,
    LeaseTimes,
    Manager,
    metrics_app,
)
from trainsnap_controller.manager.guarded import Guarded
from trainsnap_controller.manager.manager import Group, Part
from trainsnap_controller.migration.adopt import Legacy, Mode
from trainsnap_controller.migration.state import LegacyBefore
from trainsnap_controller.observe.events import EventRecorder
from trainsnap_controller.observe.metrics import Metrics
from trainsnap_controller.queue import WorkQueue
from trainsnap_controller.reconcile import runtimes, sources
from trainsnap_controller.reconcile.act import Writer
from trainsnap_controller.reconcile.gather import LastWords, Reader
from trainsnap_controller.reconcile.report import Reporter
from trainsnap_controller.reconcile.runtimes import RuntimeReconciler
from trainsnap_controller.reconcile.trainjob import TrainJobReconciler
from trainsnap_controller.runtime.extension import Watch
from trainsnap_controller.runtime.framework import Framework
from trainsnap_controller.snapshot.capture import Snapshots
from trainsnap_controller.statusserver.app import StatusApp
from trainsnap_controller.statusserver.authority import AuthorityWatch
from trainsnap_controller.statusserver.authorizer import Authorizer
from trainsnap_controller.statusserver.issuer import ClusterIssuer
from trainsnap_controller.webhooks.app import handlers, webhook_app
from trainsnap_controller.webhooks.certs_manager import CertManager

JSON = dict[str, Any]

WORKERS: Final = 5
"""Reconciles of TrainJobs at once, unless the configuration says otherwise; the reference ships this number."""
OFF: Final = "0"
"""The address that switches a server off."""


@dataclass(frozen=True, slots=True)
class Servers:
    """The HTTP servers that are on, bound to their ports."""

    health: HttpServer | None
    metrics: HttpServer | None
    webhooks: HttpServer | None = None
    status: HttpServer | None = None


class Registration(Protocol):
    """Tells the API server about the webhooks, where no manifest does."""

    async def register(self, port: int) -> None:
        """Return when the API server reaches them."""
        ...

    async def unregister(self) -> None:
        """Called before the server stops: from here on nothing may depend on it."""
        ...


@dataclass(frozen=True, slots=True)
class Admission:
    """The webhooks of one process.

    ``api`` reads what they judge by: a connection of its own, without a limit of requests, so that a user's request
    never waits behind reconciles. ``address`` is where they listen.
    """

    api: Transport
    certificates: CertManager
    address: str
    registration: Registration | None = None


@dataclass(frozen=True, slots=True)
class Reporting:
    """The status server of one process, with the certificate of the webhooks.

    ``api`` writes with a rate limit of its own, so that chatty pods slow down nothing else; ``address`` is where it
    listens.
    """

    api: Transport
    address: str


def build(
    api: Transport,
    config: Configuration,
    *,
    namespace: str,
    identity: str,
    metrics: Metrics,
    framework: Framework,
    installed: Collection[Resource],
    admission: Admission | None = None,
    reporting: Reporting | None = None,
    on_ready: Callable[[], None] = lambda: None,
) -> tuple[Manager, Servers]:
    """The operator, ready to run.

    ``namespace`` is its own; ``identity`` names this process in the Lease; ``installed`` are those kinds, of the ones
    that plugins can do without, that the cluster has. Without ``admission`` there are no webhooks, without
    ``reporting``, which needs it, no status server.

    Raises ``ListenError`` when a port cannot be had.
    """
    manager = Manager(on_ready=on_ready)
    servers = _add_servers(manager, api, config, metrics, admission)
    if admission is not None:
        servers = replace(servers, webhooks=_add_webhooks(manager, admission, config, metrics, framework))
    cache = Cache(api, metrics=metrics.cache())
    events = EventRecorder(api, instance=identity, counted=metrics.recorder())
    manager.add_cache(cache)
    manager.add(Group.SERVICES, Part("events", events.run, stop=events.stop))
    allowed = _add_leader(manager, api, config, namespace, identity, metrics)
    watches = [watch for watch in framework.watches() if watch.requires is None or watch.requires in installed]
    before = LegacyBefore(api, namespace)
    manager.add(Group.SERVICES, Part("legacyBefore", before.run))
    queue = _add_train_jobs(manager, cache, api, config, events, allowed, metrics, framework, watches, before)
    if reporting is not None and admission is not None:
        servers = replace(servers, status=_add_status_server(manager, reporting, admission.certificates, cache, queue))
    for resource in (TRAINING_RUNTIME, CLUSTER_TRAINING_RUNTIME):
        _add_runtimes(manager, cache, api, config, resource, allowed, metrics)
    return manager, servers


def _add_servers(
    manager: Manager, api: Transport, config: Configuration, metrics: Metrics, admission: Admission | None
) -> Servers:
    def server(name: str, app: Any, address: str, tls: ssl.SSLContext | None = None) -> HttpServer | None:
        if address == OFF:
            return None
        added = HttpServer(name, app, address, tls=tls)
        manager.add_server(added)
        return added

    tls = None
    if config.metrics.secure_serving and config.metrics.bind_address != OFF:
        if admission is None:
            raise ValueError("metrics.secureServing needs the certificates that come with the webhooks")
        tls = admission.certificates.ssl_context
    shown: Any = metrics_app(metrics.registry)
    if config.metrics.auth.enabled:
        shown = Guarded(shown, api)
    return Servers(
        health=server("health", manager.health.app(), config.health.health_probe_bind_address),
        metrics=server("metrics", shown, config.metrics.bind_address, tls),
    )


def _add_webhooks(
    manager: Manager, admission: Admission, config: Configuration, metrics: Metrics, framework: Framework
) -> HttpServer:
    """The webhook server, in every replica. Not ready while the API server could not reach it."""
    answering = handlers(admission.api, framework, opaque_kinds=_opaque_kinds(config))
    app = webhook_app(answering, metrics.webhooks(answering))
    server = HttpServer("webhooks", app, admission.address, tls=admission.certificates.ssl_context)

    registration = admission.registration

    async def stop() -> None:
        if registration is not None:
            await registration.unregister()
        await server.stop()

    manager.add(Group.SERVERS, Part(server.name, server.run, server.wait_ready, stop))
    manager.add(Group.SERVERS, Part("certificates", admission.certificates.run))
    if registration is not None:
        manager.add(Group.SERVICES, _registering(registration, server.port))

    def check() -> Health:
        problems = admission.certificates.problems()
        return Health(not problems, "; ".join(problems))

    manager.health.add_ready("webhooks", check)
    return server


def _add_status_server(
    manager: Manager, reporting: Reporting, certificates: CertManager, cache: Cache, queue: WorkQueue[Key]
) -> HttpServer:
    """The status server, in every replica. Without keys to check tokens with it answers that it cannot, and readiness
    says so but holds: admission, which the same process serves, must not depend on it."""
    issuer = ClusterIssuer(reporting.api)
    app = StatusApp(reporting.api, Authorizer(issuer))
    server = HttpServer("status", app, reporting.address, tls=certificates.ssl_context)
    manager.add_server(server)
    manager.add(Group.SERVICES, Part("token keys", issuer.run))

    def wake() -> None:
        for entry in cache.informer(TRAIN_JOB).store:
            queue.add(entry.key)

    manager.add(Group.CONTROLLERS, Part("authority", AuthorityWatch(lambda: certificates.ca_bundle, wake).run))
    manager.health.add_live("status-server-healthz", lambda: Health(True, issuer.problem))
    manager.health.add_ready(
        "status-server-readyz",
        lambda: Health(
            certificates.served is not None, issuer.problem if certificates.served else "no certificate yet"
        ),
    )
    return server


def _registering(registration: Registration, port: int) -> Part:
    registered = asyncio.Event()

    async def run() -> None:
        await registration.register(port)
        registered.set()
        await asyncio.Event().wait()

    return Part("webhook registration", run, registered.wait)


def _opaque_kinds(config: Configuration) -> Mapping[str, Resource]:
    """Runtime kinds of other controllers, by ``Kind.group``."""
    return {
        f"{kind.kind}.{kind.group}": Resource(kind.group, kind.version, kind.kind, kind.plural, kind.namespaced)
        for kind in config.snapshots.opaque_runtimes
    }


def _add_leader(
    manager: Manager, api: Transport, config: Configuration, namespace: str, identity: str, metrics: Metrics
) -> Callable[[], bool]:
    """Leader election when it is on. Returns what says whether this process may write at this moment."""
    election = config.leader_election
    if election is None or not election.leader_elect:
        return lambda: True
    elector = LeaderElector(
        api,
        namespace=election.resource_namespace or namespace,
        name=election.resource_name,
        identity=identity,
        times=LeaseTimes(
            lease_duration=election.lease_duration,
            renew_deadline=election.renew_deadline,
            retry_period=election.retry_period,
        ),
        metrics=metrics.leader(),
    )
    manager.add_leader(elector)
    return elector.may_write


def _add_train_jobs(
    manager: Manager,
    cache: Cache,
    api: Transport,
    config: Configuration,
    events: EventRecorder,
    allowed: Callable[[], bool],
    metrics: Metrics,
    framework: Framework,
    watches: Iterable[Watch],
    before: LegacyBefore,
) -> WorkQueue[Key]:
    """The controller of TrainJobs. Returns its queue, for other reasons to look at a job."""
    name = "trainjob_controller"
    queue = WorkQueue[Key](name, metrics=metrics.queue(name))
    last_words = LastWords()
    sources.connect(cache, queue, last_words, watches)
    stores = _Stores(cache)
    reader = Reader(stores, last_words, api.get)
    reporter = Reporter(events)
    reconciler = TrainJobReconciler(
        reader=reader,
        snapshots=Snapshots(
            api,
            reader.snapshot,
            lambda snapshot: stores.remember(TRAINING_RUNTIME_SNAPSHOT, snapshot),
            _now,
            opaque_kinds=_opaque_kinds(config),
            keep_annotations=config.snapshots.keep_annotations,
            legacy=Legacy(api, before.moment, reporter.legacy_ignored, Mode(config.snapshots.legacy_snapshots)),
        ),
        framework=framework,
        writer=Writer(api, stores.remember, reporter.kept),
        recorder=reporter,
        now=_now,
    )
    workers = config.workers(f"{TRAIN_JOB.kind}.{c.GROUP}", WORKERS)
    manager.add_controller(
        Controller(name, queue, reconciler.reconcile, workers, allowed=allowed, metrics=metrics.controller(name))
    )
    return queue


def _add_runtimes(
    manager: Manager,
    cache: Cache,
    api: Transport,
    config: Configuration,
    resource: Resource,
    allowed: Callable[[], bool],
    metrics: Metrics,
) -> None:
    name = f"{resource.kind.lower()}_controller"
    queue = WorkQueue[Key](name, metrics=metrics.queue(name))
    runtimes.connect(cache, queue, resource)

    def cached(key: Key) -> JSON | None:
        entry = cache.informer(resource).store.get(*key)
        return None if entry is None else entry.object()

    reconciler = RuntimeReconciler(resource, cached, api)
    workers = config.workers(f"{resource.kind}.{c.GROUP}", 1)
    manager.add_controller(
        Controller(name, queue, reconciler.reconcile, workers, allowed=allowed, metrics=metrics.controller(name))
    )


@dataclass(frozen=True, slots=True)
class _Stores:
    """The cache as the reconcilers see it: the stores of the kinds that are watched."""

    cache: Cache

    def store(self, resource: Resource) -> Store | None:
        return next((i.store for i in self.cache.informers if i.resource is resource), None)

    def remember(self, resource: Resource, obj: JSON) -> None:
        store = self.store(resource)
        if store is not None:
            store.observe_write(obj)


def _now() -> datetime:
    return datetime.now(UTC)
