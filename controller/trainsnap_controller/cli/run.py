# SPDX-License-Identifier: Apache-2.0
"""``trainsnap run``: the operator with the identity that it is given."""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import Callable
from pathlib import Path

from trainsnap_api.transport import Transport, TransportSettings
from trainsnap_controller import constants as c
from trainsnap_controller.config import ConfigError, Configuration
from trainsnap_controller.observe.metrics import Metrics
from trainsnap_controller.observe.tracing import Tracing, from_environment
from trainsnap_controller.operator import Admission, Process, Reporting, Servers, build
from trainsnap_controller.runtime.plugins.trainjobstatus import StatusServer
from trainsnap_controller.runtime.registry import standard
from trainsnap_controller.webhooks.certs_manager import from_configuration


async def run(config: Configuration, *, kubeconfig: Path | None, context: str | None) -> int:
    """Connect and run until a signal. Returns the exit code; raises one-line errors for the command line."""
    in_cluster = kubeconfig is None
    if in_cluster and "KUBERNETES_SERVICE_HOST" not in os.environ:
        raise ConfigError("--kubeconfig FILE is needed outside a cluster")
    metrics, tracing = Metrics(process=True), from_environment(os.environ)

    async def connect(settings: TransportSettings) -> Transport:
        return await Transport.connect(
            kubeconfig=kubeconfig, context=context, in_cluster=in_cluster, settings=settings, probe=True
        )

    async with (
        await connect(limited(config, metrics, tracing)) as api,
        await connect(unlimited(metrics)) as reads,
        await connect(for_reports(config, metrics)) as reports,
    ):
        namespace = api.namespace if in_cluster else c.NAMESPACE
        address = f"{config.webhook.host}:{config.webhook.port}"
        certificates = from_configuration(api, config, namespace=namespace, metrics=metrics.certificates())
        return await serve(
            api,
            config,
            namespace=namespace,
            metrics=metrics,
            tracing=tracing,
            admission=Admission(reads, certificates, address),
            reporting=Reporting(reports, f"{config.webhook.host}:{config.status_server.port}"),
        )


def limited(config: Configuration, metrics: Metrics, tracing: Tracing) -> TransportSettings:
    """The settings of the connection of the controllers. A rate of 0 is no limit, as in the reference's file."""
    connection = config.client_connection
    count = metrics.rest_client("kubernetes")

    def seen(method: str, path: str, status: int, seconds: float) -> None:
        count(method, path, status, seconds)
        tracing.request(method, path, status, seconds)

    return TransportSettings(qps=connection.qps or None, burst=connection.burst or None, on_request=seen)


def unlimited(metrics: Metrics) -> TransportSettings:
    """The settings of the connection that the webhooks read through: the API server's own requests are the limit."""
    return TransportSettings(on_request=metrics.rest_client("kubernetes"))


def for_reports(config: Configuration, metrics: Metrics) -> TransportSettings:
    """The settings of the connection that the status server writes through. A rate of 0 is no limit."""
    section = config.status_server
    return TransportSettings(
        qps=section.qps or None, burst=section.burst or None, on_request=metrics.rest_client("kubernetes")
    )


async def serve(
    api: Transport,
    config: Configuration,
    *,
    namespace: str,
    metrics: Metrics,
    tracing: Tracing,
    admission: Admission | None = None,
    reporting: Reporting | None = None,
    on_bound: Callable[[Servers], None] = lambda servers: None,
    on_ready: Callable[[], None] = lambda: None,
) -> int:
    """Run the operator over a connection until a signal. Returns the exit code.

    ``on_bound`` hears of the servers before anything else happens, ``on_ready`` when all runs: in between may be hours,
    while a kind is not installed or somebody else leads, and health tells why.
    ``reporting`` is used while the feature gate ``TrainJobStatus`` is open.
    """
    reporting = reporting if config.gate("TrainJobStatus") else None
    identity = f"{socket.gethostname()}_{uuid.uuid4()}"
    framework = standard(status_server=None if reporting is None else _status_server(config, namespace))
    optional = {watch.requires for watch in framework.watches() if watch.requires is not None}
    process = Process(
        api=api,
        config=config,
        namespace=namespace,
        identity=identity,
        metrics=metrics,
        framework=framework,
        installed={resource for resource in optional if await api.served(resource)},
        tracing=tracing,
    )
    manager, servers = build(process, admission=admission, reporting=reporting, on_ready=on_ready)
    on_bound(servers)
    try:
        return await manager.run()
    finally:
        await asyncio.to_thread(tracing.close)


def _status_server(config: Configuration, namespace: str) -> StatusServer:
    """Where pods find the status server, and what they trust it by."""
    certificates = config.cert_management
    return StatusServer(
        namespace,
        certificates.webhook_service_name,
        config.status_server.port,
        certificates.webhook_secret_name,
    )
