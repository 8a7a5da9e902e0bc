# SPDX-License-Identifier: Apache-2.0
"""Certificates of the operator itself, with no other rights than its own, and what its users see of them."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from support.cluster import Cluster, eventually
from support.identity import service_account
from support.objects import runtime, train_job
from support.operator import Operator
from support.plane import Target
from trainsnap_api.transport import Transport
from trainsnap_api.transport import resources as r
from trainsnap_controller.cli import main
from trainsnap_controller.cli.certs import ALL_IN_ORDER
from trainsnap_controller.manager import HttpServer, metrics_app
from trainsnap_controller.manager.guarded import Guarded
from trainsnap_controller.observe.metrics import Metrics
from trainsnap_plane import Plane

pytestmark = [pytest.mark.anyio, pytest.mark.api]

JSON = dict[str, Any]
NAMESPACE = "kubeflow-system"
SECRET = "kubeflow-trainer-webhook-cert"
CONFIGURATION = "validator.trainer.kubeflow.org"


async def bundles(admin: Transport) -> set[str]:
    found = await admin.get(r.VALIDATING_WEBHOOK_CONFIGURATION, CONFIGURATION)
    return {webhook["clientConfig"].get("caBundle", "") for webhook in found["webhooks"]}


async def wipe(admin: Transport) -> None:
    """What an upgrade does that knows nothing of bundles."""
    operations = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
    await admin.json_patch(r.VALIDATING_WEBHOOK_CONFIGURATION, CONFIGURATION, None, operations)


async def test_the_operators_own_rights_are_enough_to_put_a_bundle_back(operator: Operator, admin: Transport) -> None:
    before = await bundles(admin)
    await wipe(admin)
    await eventually(lambda: bundles(admin), lambda seen: seen == before, what="the bundle is back", seconds=10)


async def test_the_operators_own_rights_are_enough_to_make_new_certificates(
    operator: Operator, admin: Transport, cluster: Cluster
) -> None:
    before = await admin.get(r.SECRET, SECRET, NAMESPACE)
    await admin.delete(r.SECRET, SECRET, NAMESPACE)
    await wipe(admin)
    system = Cluster(admin, NAMESPACE)
    after = await system.until(r.SECRET, SECRET)
    assert after["data"]["ca.key"] != before["data"]["ca.key"]
    await eventually(lambda: bundles(admin), lambda seen: seen == {after["data"]["ca.crt"]}, what="the new bundle")
    await cluster.create(runtime("rt", cluster.namespace))
    await cluster.create(train_job("job", cluster.namespace))
    status, text = operator.get("health", "/readyz?verbose")
    assert (status, "[+]webhooks ok" in text) == (200, True), text


def test_users_see_certificates_dates_and_bundles(
    operator: Operator, plane: Target, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["certs", "--kubeconfig", str(plane.kubeconfig), "-o", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["problems"] == []
    assert {one["role"] for one in report["certificates"]} >= {"authority", "serving"}
    assert {one["state"] for one in report["certificates"]} == {"valid"}
    assert {one["state"] for one in report["webhooks"]} == {"in place"}
    assert main(["certs", "--kubeconfig", str(plane.kubeconfig)]) == 0
    shown = capsys.readouterr().out
    assert f"Certificates in {NAMESPACE}/{SECRET} (made by trainsnap)" in shown
    assert shown.endswith(f"{ALL_IN_ORDER}\n")
    assert "PRIVATE" not in shown + json.dumps(report)


def test_a_missing_secret_is_said_in_one_line(
    operator: Operator, plane: Target, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["certs", "--kubeconfig", str(plane.kubeconfig), "--namespace", "default"]) == 1
    line = f"Not in order: Secret default/{SECRET} does not exist: the operator makes it when it starts"
    assert line in capsys.readouterr().out.splitlines()


def test_a_missing_right_is_said_in_one_line(
    operator: Operator, local_plane: Plane, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = local_plane.user_kubeconfig("nosy", [])
    assert main(["certs", "--kubeconfig", str(kubeconfig)]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"trainsnap: the API server refuses GET /api/v1/namespaces/{NAMESPACE}/secrets/{SECRET}: ")
    assert 'User "nosy" cannot get resource "secrets"' in error
    assert error.count("\n") == 1


@asynccontextmanager
async def guarded_metrics(admin: Transport) -> AsyncIterator[str]:
    """The URL of a metrics server that asks this API server whom to let in."""
    server = HttpServer("metrics", Guarded(metrics_app(Metrics().registry), admin), "127.0.0.1:0")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.run)
        await server.wait_ready()
        yield f"http://127.0.0.1:{server.port}"
        await server.stop()


async def answer(url: str, token: str | None) -> int:
    def get() -> int:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as found:
                return int(found.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    return await anyio.to_thread.run_sync(get)


async def test_metrics_are_for_those_whom_the_api_server_lets(admin: Transport, cluster: Cluster) -> None:
    tokens: dict[str, str] = {}
    role = f"scraper-{cluster.namespace}"
    for name in ("scraper", "nobody"):
        metadata = {"name": name, "namespace": cluster.namespace}
        await cluster.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        tokens[name] = (await admin.service_account_token(name, cluster.namespace, seconds=600)).token
    with_role = {"metadata": {"name": role}}
    await admin.create(r.CLUSTER_ROLE, {**with_role, "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]})
    reference = {"apiGroup": r.CLUSTER_ROLE.group, "kind": "ClusterRole", "name": role}
    subject = {"kind": "ServiceAccount", "name": "scraper", "namespace": cluster.namespace}
    await admin.create(r.CLUSTER_ROLE_BINDING, {**with_role, "roleRef": reference, "subjects": [subject]})
    try:
        async with guarded_metrics(admin) as url:

            async def look() -> int:
                async with guarded_metrics(admin) as fresh:  # answers are kept for a minute
                    return await answer(f"{fresh}/metrics", tokens["scraper"])

            await eventually(look, lambda status: status == 200, what="the scraper may")
            wanted = {"scraper": 200, "nobody": 403}
            assert {name: await answer(f"{url}/metrics", token) for name, token in tokens.items()} == wanted
            assert await answer(f"{url}/metrics", None) == 401
            assert await answer(f"{url}/metrics", "garbage") == 401
            assert await answer(f"{url}/other", tokens["scraper"]) == 404, "there is nothing, and nobody is asked"
    finally:
        await admin.delete(r.CLUSTER_ROLE_BINDING, role)
        await admin.delete(r.CLUSTER_ROLE, role)


async def test_the_operators_own_rights_are_enough_to_ask_who_may_see_metrics(
    operator: Operator, plane: Target, admin: Transport
) -> None:
    token = (await admin.service_account_token("trainsnap", NAMESPACE, seconds=600)).token
    async with (
        service_account(str(plane.kubeconfig), admin, NAMESPACE, "trainsnap") as own,
        guarded_metrics(own) as url,
    ):
        assert await answer(f"{url}/metrics", token) == 403
