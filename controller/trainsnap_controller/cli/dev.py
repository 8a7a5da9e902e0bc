# SPDX-License-Identifier: Apache-2.0
"""``trainsnap dev``: install the manifests, then run the operator outside the cluster as its own ServiceAccount.

Two identities, kept apart: the installer, with the rights of the kubeconfig, installs and fetches tokens; the operator
has a connection of its own with such a token and no other credentials, so that its roles are what is really tried.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

import structlog

from trainsnap_api.transport import NotFound, Transport, TransportSettings
from trainsnap_api.transport.resources import SECRET
from trainsnap_controller import constants as c
from trainsnap_controller.cli import manifests
from trainsnap_controller.cli.admission import LOOPBACK, ByUrl, listen_address, require_host, split
from trainsnap_controller.cli.install import install, remove
from trainsnap_controller.cli.run import for_reports, limited, serve, unlimited
from trainsnap_controller.cli.tokens import TokenSource
from trainsnap_controller.config import Configuration
from trainsnap_controller.config.load import with_gates
from trainsnap_controller.config.model import ClientConnection, Health
from trainsnap_controller.config.model import Metrics as MetricsSection
from trainsnap_controller.observe.metrics import Metrics
from trainsnap_controller.observe.tracing import from_environment
from trainsnap_controller.operator import Admission, Reporting, Servers
from trainsnap_controller.webhooks.certs_manager import from_configuration

_log = structlog.stdlib.get_logger(__name__)


def defaults() -> Configuration:
    """Without a file: both servers on free ports of the loopback interface, no TLS, no leader election, no limit."""
    return Configuration(
        health=Health(health_probe_bind_address="127.0.0.1:0"),
        metrics=MetricsSection(bind_address="127.0.0.1:0", secure_serving=False),
        client_connection=ClientConnection(qps=0, burst=0),
    )


async def dev(
    config: Configuration | None, gates: str, *, kubeconfig: Path, context: str | None, webhook_host: str = LOOPBACK
) -> int:
    """Install and run until a signal. Returns the exit code; raises one-line errors for the command line.

    ``webhook_host`` is the name or address under which the API server reaches this machine.
    """
    require_host(webhook_host)
    configuration = with_gates(config or defaults(), gates)
    metrics, tracing = Metrics(process=True), from_environment(os.environ)
    webhooks, objects = split(manifests.base())
    async with await Transport.connect(kubeconfig=kubeconfig, context=context, probe=True) as installer:
        await install(installer, objects, pause=asyncio.sleep)
        _log.info("installed", server=installer.server, namespace=c.NAMESPACE)
        tokens = TokenSource(installer)

        async def connect(settings: TransportSettings) -> Transport:
            return await Transport.connect(
                kubeconfig=kubeconfig, context=context, token_provider=tokens, settings=settings
            )

        async with (
            await connect(limited(configuration, metrics, tracing)) as api,
            await connect(unlimited(metrics)) as reads,
            await connect(for_reports(configuration, metrics)) as reports,
        ):
            certificates = from_configuration(
                api, configuration, namespace=c.NAMESPACE, hosts=(webhook_host,), metrics=metrics.certificates()
            )
            registration = ByUrl(installer, webhooks, webhook_host, certificates, answered=metrics.webhooks_reached)
            port, status_port = configuration.webhook.port, configuration.status_server.port
            if config is None:
                port = status_port = 0
            return await serve(
                api,
                configuration,
                namespace=c.NAMESPACE,
                metrics=metrics,
                tracing=tracing,
                admission=Admission(reads, certificates, listen_address(webhook_host, port), registration),
                reporting=Reporting(reports, listen_address(webhook_host, status_port)),
                on_bound=_announce,
                on_ready=lambda: print("READY", flush=True),
            )


async def clean(kubeconfig: Path, context: str | None) -> int:
    """Remove what ``dev`` installs. The namespace, and CRDs of which objects exist, are kept, and named."""
    async with await Transport.connect(kubeconfig=kubeconfig, context=context, probe=True) as installer:
        done = await remove(installer, manifests.base())
        with contextlib.suppress(NotFound):
            await installer.delete(SECRET, Configuration().cert_management.webhook_secret_name, c.NAMESPACE)
            done.removed += 1
    for line in done.kept:
        print(f"kept {line}")
    if not done.removed:
        print("there was nothing to remove")
    else:
        print("removed the rest" if done.kept else "removed")
    return 0


def _announce(servers: Servers) -> None:
    """Tell whoever started this process where it listens."""
    for server in (servers.health, servers.metrics, servers.webhooks, servers.status):
        if server is not None:
            print(f"{server.name} {server.scheme}://127.0.0.1:{server.port}", flush=True)
