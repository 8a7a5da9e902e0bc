# SPDX-License-Identifier: Apache-2.0
"""Certificates against a real API server: it calls a real webhook through TLS while they are made, rotated and lost.

The webhook here lets everything through and closes every connection, so that each call is a new handshake.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from support.certificates import Authority
from support.cluster import Cluster, eventually
from trainsnap_api.transport import TransportError
from trainsnap_api.transport.resources import CONFIG_MAP, SECRET, VALIDATING_WEBHOOK_CONFIGURATION
from trainsnap_controller.manager import HttpServer
from trainsnap_controller.webhooks.certs_inject import Configurations
from trainsnap_controller.webhooks.certs_manager import CertManager
from trainsnap_controller.webhooks.certs_model import fingerprint
from trainsnap_controller.webhooks.certs_policy import Policy
from trainsnap_controller.webhooks.certs_secret import OwnSecret
from trainsnap_controller.webhooks.certs_sources import ForeignSecret

pytestmark = [pytest.mark.anyio, pytest.mark.api]

JSON = dict[str, Any]
NAMES = ("trainer.test.svc", "127.0.0.1")
SHORT = Policy(
    authority_life=timedelta(seconds=24),
    serving_life=timedelta(seconds=12),
    backdate=timedelta(seconds=1),
    overlap=timedelta(seconds=6),
    settle=1.5,
)


@dataclass
class Replica:
    """A certificate manager and a webhook server with its certificates."""

    certs: CertManager
    server: HttpServer
    calls: int = 0


@dataclass
class Fleet:
    """Replicas of one namespace, and the configuration through which the first of them is called."""

    cluster: Cluster
    replicas: list[Replica] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    passed: int = 0
    pairs: set[str] = field(default_factory=set)
    authorities: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        return f"certs-{self.cluster.namespace}"

    async def configure(self) -> None:
        """Register the first replica for ConfigMaps of the namespace, without a bundle."""
        webhook = {
            "name": "allow.certs.test",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": f"https://127.0.0.1:{self.replicas[0].server.port}/allow"},
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "timeoutSeconds": 5,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.cluster.namespace}},
            "rules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
            ],
        }
        second = {**webhook, "name": "second.certs.test"}
        await self.cluster.api.create(
            VALIDATING_WEBHOOK_CONFIGURATION, {"metadata": {"name": self.name}, "webhooks": [webhook, second]}
        )

    async def in_order(self) -> None:
        """Every replica says that it can be reached, and the API server reaches the first."""

        async def look() -> list[str]:
            return [line for replica in self.replicas for line in replica.certs.problems()]

        await eventually(look, lambda lines: not lines, what="all replicas are ready")
        await eventually(self.call, lambda error: error == "", what="the API server calls the webhook")

    async def call(self) -> str:
        """Create a ConfigMap as a dry run; "" or what the API server said."""
        body: JSON = {"metadata": {"generateName": "probe-", "namespace": self.cluster.namespace}}
        try:
            await self.cluster.api.create(CONFIG_MAP, body, dry_run=True)
        except TransportError as error:
            return str(error)
        return ""

    async def bundle(self) -> bytes:
        """The bundle in the configuration, which is the same for all its webhooks."""
        found = await self.cluster.api.get(VALIDATING_WEBHOOK_CONFIGURATION, self.name)
        bundles = {webhook["clientConfig"].get("caBundle", "") for webhook in found["webhooks"]}
        return base64.b64decode(bundles.pop()) if len(bundles) == 1 else b""

    async def keep_calling(self, pause: float = 0.1) -> None:
        """Call until cancelled: the first replica through the API server, the others with the bundle that it has."""
        while True:
            self.note(await self.call())
            trusted = await self.bundle()
            for replica in self.replicas[1:]:
                self.note(await handshake(replica.server.port, trusted))
            for replica in self.replicas:
                if replica.certs.served is not None:
                    self.pairs.add(fingerprint(replica.certs.served.leaf))
            secret = await self.cluster.find(SECRET, "certs")
            self.authorities.add("" if secret is None else secret.get("data", {}).get("ca.key", ""))
            await asyncio.sleep(pause)

    def note(self, error: str) -> None:
        self.passed += not error
        if error:
            self.failures.append(error)

    @asynccontextmanager
    async def calling(self) -> AsyncIterator[None]:
        """While something else is done."""
        task = asyncio.create_task(self.keep_calling())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
        assert task.cancelled(), task.exception()


async def handshake(port: int, trusted: bytes) -> str:
    """Connect and verify; "" or the error."""
    try:
        context = ssl.create_default_context(cadata=trusted.decode())
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    except (ssl.SSLError, OSError, ValueError) as error:
        return str(error)
    writer.close()
    with suppress(ssl.SSLError, OSError):
        await writer.wait_closed()
    return ""


def allow_everything() -> Starlette:
    async def allow(request: Request) -> JSONResponse:
        review = await request.json()
        response = {"uid": review["request"]["uid"], "allowed": True}
        answer = {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}
        return JSONResponse(answer, headers={"connection": "close"})

    return Starlette(routes=[Route("/allow", allow, methods=["POST"])])


@asynccontextmanager
async def fleet(
    cluster: Cluster, policies: Sequence[Policy], *, poll_seconds: float = 0.5, configure: bool = True
) -> AsyncIterator[Fleet]:
    """As many replicas as there are policies, all started at the same moment."""
    found = Fleet(cluster)
    async with asyncio.TaskGroup() as tasks:
        running = []
        for policy in policies:
            certs = CertManager(
                OwnSecret(cluster.api, cluster.namespace, "certs", NAMES, policy=policy),
                configurations=lambda on_change: Configurations(
                    cluster.api, [(VALIDATING_WEBHOOK_CONFIGURATION, found.name)], on_change
                ),
                policy=policy,
                poll_seconds=poll_seconds,
            )
            server = HttpServer("test", allow_everything(), "127.0.0.1:0", tls=certs.ssl_context)
            found.replicas.append(Replica(certs, server))
            running += [tasks.create_task(certs.run()), tasks.create_task(server.run())]
        try:
            if configure:
                await found.configure()
            yield found
        finally:
            for task in running:
                task.cancel()
            if configure:
                await cluster.api.delete(VALIDATING_WEBHOOK_CONFIGURATION, found.name)


async def test_replicas_that_start_together_agree_and_the_api_server_reaches_them(cluster: Cluster) -> None:
    async with fleet(cluster, [Policy()] * 3) as found:
        await found.in_order()
        served = {fingerprint(replica.certs.served.leaf) for replica in found.replicas if replica.certs.served}
        bundles = {replica.certs.ca_bundle for replica in found.replicas}
        secret = await cluster.get(SECRET, "certs")
        assert len(served) == 1
        assert bundles == {base64.b64decode(secret["data"]["ca.crt"])} == {await found.bundle()}
        assert bundles.pop().count(b"BEGIN CERTIFICATE") == 1


async def test_rotation_of_everything_is_never_noticed_by_a_caller(cluster: Cluster) -> None:
    async with fleet(cluster, [SHORT, SHORT]) as found:
        await found.in_order()
        async with found.calling():
            await eventually(
                lambda: _value((len(found.authorities), len(found.pairs))),
                lambda seen: seen[0] >= 3 and seen[1] >= 6,
                what="two new authorities and five new certificates",
                seconds=60,
            )
        assert found.failures == []
        assert found.passed > 50
        # It never grows for ever: an authority is kept for as long as what it signed may be served.
        assert (await found.bundle()).count(b"BEGIN CERTIFICATE") <= 2


async def test_a_secret_that_is_deleted_is_made_anew_while_calls_pass(cluster: Cluster) -> None:
    policy = Policy(settle=1.0)
    async with fleet(cluster, [policy, policy]) as found:
        await found.in_order()
        before = (await cluster.get(SECRET, "certs"))["data"]["ca.key"]
        async with found.calling():
            await cluster.delete(SECRET, "certs")
            after = await cluster.until(SECRET, "certs")
            await eventually(
                lambda: _value({replica.certs.served for replica in found.replicas}),
                lambda served: len(served) == 1 and len(found.pairs) == 2,
                what="both serve the new pair",
            )
        assert after["data"]["ca.key"] != before
        assert found.failures == []
        assert (await found.bundle()).count(b"BEGIN CERTIFICATE") == 2


async def test_a_bundle_that_is_wiped_is_restored_without_waiting_for_the_next_look(cluster: Cluster) -> None:
    async with fleet(cluster, [Policy(), Policy()], poll_seconds=3600.0) as found:
        await found.in_order()
        wanted = await found.bundle()
        remove = [{"op": "remove", "path": f"/webhooks/{position}/clientConfig/caBundle"} for position in range(2)]
        for operations in (remove, remove[:1]):
            await cluster.api.json_patch(VALIDATING_WEBHOOK_CONFIGURATION, found.name, None, operations)
            await eventually(found.bundle, lambda seen: seen == wanted, what="the bundle is back", seconds=5)
        await found.in_order()


async def test_not_ready_until_the_configuration_exists_and_trusts_us(cluster: Cluster) -> None:
    async with fleet(cluster, [Policy()], configure=False) as found:
        certs = found.replicas[0].certs
        await certs.ready()
        missing = f"ValidatingWebhookConfiguration {found.name} does not exist"
        await eventually(
            lambda: _value(certs.problems()), lambda lines: lines == [missing], what="it says what is missing"
        )
        await found.configure()
        try:
            await found.in_order()
        finally:
            await cluster.api.delete(VALIDATING_WEBHOOK_CONFIGURATION, found.name)
        await eventually(lambda: _value(certs.problems()), lambda lines: lines == [missing], what="it is gone again")


async def test_nothing_is_written_while_nothing_changes(cluster: Cluster) -> None:
    async with fleet(cluster, [Policy(), Policy()], poll_seconds=0.2) as found:
        await found.in_order()
        before = [
            (await cluster.get(SECRET, "certs"))["metadata"]["resourceVersion"],
            (await cluster.api.get(VALIDATING_WEBHOOK_CONFIGURATION, found.name))["metadata"]["resourceVersion"],
        ]
        await asyncio.sleep(1.5)  # several looks: there is no condition to await for nothing
        after = [
            (await cluster.get(SECRET, "certs"))["metadata"]["resourceVersion"],
            (await cluster.api.get(VALIDATING_WEBHOOK_CONFIGURATION, found.name))["metadata"]["resourceVersion"],
        ]
        assert after == before


async def test_certificates_of_somebody_else_are_used_when_both_they_and_their_bundle_are_there(
    cluster: Cluster,
) -> None:
    authority = Authority("an issuer")
    found = Fleet(cluster)
    certs = CertManager(
        ForeignSecret(cluster.api, cluster.namespace, "issued"),
        configurations=lambda on_change: Configurations(
            cluster.api, [(VALIDATING_WEBHOOK_CONFIGURATION, found.name)], on_change
        ),
        inject=False,
        poll_seconds=0.2,
    )
    server = HttpServer("test", allow_everything(), "127.0.0.1:0", tls=certs.ssl_context)
    found.replicas.append(Replica(certs, server))
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(certs.run()), tasks.create_task(server.run())]
        await found.configure()
        title = f"Secret {cluster.namespace}/issued"
        await eventually(
            lambda: _value(certs.problems()),
            lambda lines: lines == [f"{title} does not exist; cert-manager makes it from a Certificate"],
            what="it says what is missing",
        )
        pair = authority.issue("webhooks", addresses=("127.0.0.1",))
        data = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.pem}
        encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
        metadata = {"name": "issued", "namespace": cluster.namespace}
        await cluster.api.create(SECRET, {"metadata": metadata, "type": "kubernetes.io/tls", "data": encoded})
        untrusted = (
            f"ValidatingWebhookConfiguration {found.name}: allow.certs.test, second.certs.test: caBundle does not"
        )
        await eventually(
            lambda: _value(certs.problems()),
            lambda lines: len(lines) == 1 and lines[0].startswith(untrusted),
            what="the bundle is awaited, not written",
        )
        bundle = [
            {"op": "add", "path": f"/webhooks/{position}/clientConfig/caBundle", "value": encoded["ca.crt"]}
            for position in range(2)
        ]
        await cluster.api.json_patch(VALIDATING_WEBHOOK_CONFIGURATION, found.name, None, bundle)
        await found.in_order()
        await cluster.api.delete(VALIDATING_WEBHOOK_CONFIGURATION, found.name)
        for task in running:
            task.cancel()


async def _value(value: Any) -> Any:
    return value
