# SPDX-License-Identifier: Apache-2.0
"""What ``trainsnap certs`` says about what it finds."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.authorities import SERVICE, key
from trainsnap_api.transport import NotFound, Resource
from trainsnap_controller.cli.certs import Report, examine, table
from trainsnap_controller.config import Configuration
from trainsnap_controller.webhooks.certs_inject import WEBHOOK_CONFIGURATIONS
from trainsnap_controller.webhooks.certs_model import Bundle, pem
from trainsnap_controller.webhooks.certs_policy import Policy, Work, renew
from trainsnap_controller.webhooks.certs_secret import encoded

pytestmark = pytest.mark.anyio

JSON = dict[str, Any]
START = datetime(2026, 1, 1, tzinfo=UTC)
SECRET = "kubeflow-trainer-webhook-cert"


def bundle(number: int = 0, *older: Bundle) -> Bundle:
    also = [root for one in older for root in one.authorities]
    return renew(Bundle(), Work.AUTHORITY, START, Policy(), [SERVICE], also_trust=also, key=lambda: key(number))


class Cluster:
    """A Secret and the two webhook configurations, with one webhook each."""

    def __init__(self, kept: Bundle | None, trusted: bytes | None, **annotations: str) -> None:
        self.objects: dict[str, JSON] = {}
        if kept is not None:
            metadata = {"name": SECRET, "namespace": "ns", "annotations": annotations}
            self.objects[SECRET] = {"metadata": metadata, "data": encoded(kept) if kept.pair else {}}
        if trusted is not None:
            for _, name in WEBHOOK_CONFIGURATIONS:
                client = {"caBundle": base64.b64encode(trusted).decode()}
                self.objects[name] = {"webhooks": [{"name": f"one.{name}", "clientConfig": client}]}

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> JSON:
        if name not in self.objects:
            raise NotFound(name)
        return self.objects[name]


async def look(cluster: Cluster, age: timedelta = timedelta(0), **section: Any) -> Report:
    config = Configuration.model_validate({"certManagement": section})
    return await examine(cluster, config, "ns", START + age)


async def test_all_in_order() -> None:
    found = bundle(1, bundle(0))
    report = await look(Cluster(found, pem(found.authorities)))
    assert report.problems == ()
    assert [(one.role, one.state) for one in report.certificates] == [
        ("authority", "valid"),
        ("old authority", "valid"),
        ("serving", "valid"),
    ]
    assert {one.state for one in report.webhooks} == {"in place"}
    assert table(report).endswith("All in order; whether anybody answers the webhooks was not asked.")


@pytest.mark.parametrize(
    ("days", "want", "problems"),
    [
        pytest.param(1, ["valid", "valid"], 0, id="young"),
        pytest.param(70, ["valid", "due for renewal"], 0, id="to be renewed by the operator"),
        pytest.param(100, ["valid", "expired"], 3, id="expired: no webhook trusts it"),
    ],
)
async def test_dates_are_judged(days: int, want: list[str], problems: int) -> None:
    found = bundle()
    report = await look(Cluster(found, pem(found.authorities)), timedelta(days=days))
    assert [one.state for one in report.certificates] == want
    assert len(report.problems) == problems


@pytest.mark.parametrize(
    ("trusted", "want"),
    [
        pytest.param(pem(bundle(0).authorities), "its CA bundle does not trust the serving certificate", id="another"),
        pytest.param(b"", "no CA bundle: the API server cannot call it", id="none"),
    ],
)
async def test_bundles_that_do_not_match_are_named(trusted: bytes, want: str) -> None:
    report = await look(Cluster(bundle(1), trusted))
    assert {one.state for one in report.webhooks} == {want}
    name = WEBHOOK_CONFIGURATIONS[0][1]
    assert report.problems[0] == f"{name}: one.{name}: {want}"
    assert f"Not in order: {report.problems[0]}" in table(report)


async def test_a_bundle_with_more_than_is_needed_is_fine() -> None:
    old, new = bundle(0), bundle(1)
    report = await look(Cluster(new, pem((*old.authorities, *new.authorities))))
    assert {one.state for one in report.webhooks} == {"trusts it"}
    assert report.problems == ()


async def test_what_is_missing_is_named() -> None:
    report = await look(Cluster(None, None))
    assert report.problems[0] == f"Secret ns/{SECRET} does not exist: the operator makes it when it starts"
    assert report.problems[1].startswith("ValidatingWebhookConfiguration validator.trainer.kubeflow.org does not exist")
    assert report.problems[2].startswith("MutatingWebhookConfiguration defaulter.trainer.kubeflow.org does not exist")
    empty = await look(Cluster(Bundle(), None))
    assert empty.problems[0] == f"Secret ns/{SECRET} has no certificate yet: the operator makes it when it starts"


async def test_a_secret_of_cert_manager_is_shown_when_the_configuration_says_so() -> None:
    found = bundle()
    cluster = Cluster(found, pem(found.authorities), **{"cert-manager.io/certificate-name": "webhooks"})
    assert "is filled by cert-manager" in (await look(cluster)).problems[0]
    report = await look(cluster, provider="cert-manager")
    assert report.problems == ()
    assert "(filled by cert-manager)" in table(report)


async def test_files_are_on_another_machine() -> None:
    report = await look(Cluster(None, pem(bundle().authorities)), enable=False)
    assert report.problems == ()
    assert report.secret == "/tmp/k8s-webhook-server/serving-certs"
    assert {one.state for one in report.webhooks} == {"set"}
