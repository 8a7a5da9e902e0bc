# SPDX-License-Identifier: Apache-2.0
"""The HTTP servers of the process: health and metrics, the webhooks, and the status server."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Final

from trainsnap_api.transport.resources import TRAIN_JOB
from trainsnap_controller.cache import Key
from trainsnap_controller.manager import Health, HttpServer, Manager, metrics_app
from trainsnap_controller.manager.connections import Limits
from trainsnap_controller.manager.guarded import Guarded
from trainsnap_controller.manager.manager import Group, Part
from trainsnap_controller.operator.process import OFF, Admission, Process, Registration, Reporting, Running
from trainsnap_controller.queue import WorkQueue
from trainsnap_controller.statusserver.app import StatusApp
from trainsnap_controller.statusserver.authority import AuthorityWatch
from trainsnap_controller.statusserver.authorizer import Authorizer
from trainsnap_controller.statusserver.issuer import ClusterIssuer
from trainsnap_controller.webhooks.app import WebhookApp, handlers
from trainsnap_controller.webhooks.certs_manager import CertManager

WEBHOOK_LIMITS: Final = Limits(connections=512)
"""An API server opens a connection for every request that it admits at the same moment, 600 at most by its own
limits; those that find no place wait for one."""
STATUS_LIMITS: Final = Limits(connections=256, per_address=64)
"""Pods are many, and each reports now and then."""


def add_health(manager: Manager, process: Process) -> HttpServer | None:
    """``/healthz`` and ``/readyz``, without TLS: they are for the kubelet."""
    return _plain_server(manager, "health", manager.health.app(), process.config.health.health_probe_bind_address)


def add_metrics(manager: Manager, process: Process, admission: Admission | None) -> HttpServer | None:
    """``/metrics``, with the certificate of the webhooks and with a check of the caller where that is configured."""
    section = process.config.metrics
    tls = None
    if section.secure_serving and section.bind_address != OFF:
        if admission is None:
            raise ValueError("metrics.secureServing needs the certificates that come with the webhooks")
        tls = admission.certificates.ssl_context
    shown: Any = metrics_app(process.metrics.registry)
    if section.auth.enabled:
        shown = Guarded(shown, process.api if admission is None else admission.api)
    return _plain_server(manager, "metrics", shown, section.bind_address, tls)


def _plain_server(
    manager: Manager, name: str, app: Any, address: str, tls: ssl.SSLContext | None = None
) -> HttpServer | None:
    if address == OFF:
        return None
    server = HttpServer(name, app, address, tls=tls)
    manager.add_server(server)
    return server


def add_webhooks(manager: Manager, process: Process, admission: Admission) -> HttpServer:
    """The webhook server, in every replica. Not ready while the API server could not reach it."""
    answering = handlers(admission.api, process.framework, opaque_kinds=process.opaque_kinds)
    app = WebhookApp(answering, process.metrics.webhooks(answering))
    server = HttpServer(
        "webhooks", app, admission.address, tls=admission.certificates.ssl_context, limits=WEBHOOK_LIMITS
    )
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


def _registering(registration: Registration, port: int) -> Part:
    registered = asyncio.Event()

    async def run() -> None:
        await registration.register(port)
        registered.set()
        await asyncio.Event().wait()

    return Part("webhook registration", run, registered.wait)


def add_status_server(
    running: Running, reporting: Reporting, certificates: CertManager, queue: WorkQueue[Key]
) -> HttpServer:
    """The status server, in every replica. Without keys to check tokens with it answers that it cannot, and readiness
    says so but holds: admission, which the same process serves, must not depend on it."""
    manager, issuer = running.manager, ClusterIssuer(reporting.api)
    app = StatusApp(reporting.api, Authorizer(issuer))
    server = HttpServer("status", app, reporting.address, tls=certificates.ssl_context, limits=STATUS_LIMITS)
    manager.add_server(server)
    manager.add(Group.SERVICES, Part("token keys", issuer.run))

    def wake() -> None:
        for entry in running.cache.informer(TRAIN_JOB).store:
            queue.add(entry.key)

    def ready() -> Health:
        served = certificates.served is not None
        return Health(served, issuer.problem if served else "no certificate yet")

    manager.add(Group.CONTROLLERS, Part("authority", AuthorityWatch(lambda: certificates.ca_bundle, wake).run))
    manager.health.add_live("status-server-healthz", lambda: Health(True, issuer.problem))
    manager.health.add_ready("status-server-readyz", ready)
    return server
