# SPDX-License-Identifier: Apache-2.0
"""``trainsnap dev``: install the manifests, then run the operator outside the cluster as its own ServiceAccount.

Two identities, kept apart: the installer, with the rights of the kubeconfig, installs and fetches tokens; the operator
has a connection of its own with such a token and no other credentials, so that its roles are what is really tried.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog

from trainsnap_api.transport import Transport
from trainsnap_controller import constants as c
from trainsnap_controller.cli import manifests
from trainsnap_controller.cli.install import install, remove
from trainsnap_controller.cli.run import serve, settings
from trainsnap_controller.cli.tokens import TokenSource
from trainsnap_controller.config import Configuration
from trainsnap_controller.config.load import with_gates
from trainsnap_controller.config.model import ClientConnection, Health
from trainsnap_controller.config.model import Metrics as MetricsSection
from trainsnap_controller.observe.metrics import Metrics
from trainsnap_controller.operator import Servers

_log = structlog.stdlib.get_logger(__name__)


def defaults() -> Configuration:
    """Without a file: both servers on free ports of the loopback interface, no TLS, no leader election, no limit."""
    return Configuration(
        health=Health(health_probe_bind_address="127.0.0.1:0"),
        metrics=MetricsSection(bind_address="127.0.0.1:0", secure_serving=False),
        client_connection=ClientConnection(qps=0, burst=0),
    )


async def dev(config: Configuration | None, gates: str, *, kubeconfig: Path, context: str | None) -> int:
    """Install and run until a signal. Returns the exit code; raises one-line errors for the command line."""
    configuration = with_gates(config or defaults(), gates)
    metrics = Metrics(process=True)
    async with await Transport.connect(kubeconfig=kubeconfig, context=context, probe=True) as installer:
        await install(installer, manifests.base(), pause=asyncio.sleep)
        _log.info("installed", server=installer.server, namespace=c.NAMESPACE)
        operator = await Transport.connect(
            kubeconfig=kubeconfig,
            context=context,
            token_provider=TokenSource(installer),
            settings=settings(configuration, metrics),
        )
        async with operator as api:
            return await serve(api, configuration, namespace=c.NAMESPACE, metrics=metrics, on_ready=_announce)


async def clean(kubeconfig: Path, context: str | None) -> int:
    """Remove what ``dev`` installs. CRDs of which objects exist are kept, and named."""
    async with await Transport.connect(kubeconfig=kubeconfig, context=context, probe=True) as installer:
        kept = await remove(installer, manifests.base())
    for line in kept:
        print(f"kept {line}")
    print("removed" if not kept else "removed the rest")
    return 0


def _announce(servers: Servers) -> None:
    """Tell whoever started this process where it listens and that it is ready."""
    for name, server in (("health", servers.health), ("metrics", servers.metrics)):
        if server is not None:
            print(f"{name} http://127.0.0.1:{server.port}")
    print("READY", flush=True)
