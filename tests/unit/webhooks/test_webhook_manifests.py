# SPDX-License-Identifier: Apache-2.0
"""The webhook configurations that are deployed: names, paths and policies that others rely on; the form for URLs."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from trainsnap_controller import constants as c
from trainsnap_controller.cli import manifests
from trainsnap_controller.cli.admission import by_url, listen_address, require_host, split
from trainsnap_controller.cli.install import InstallError
from trainsnap_controller.webhooks import paths

JSON = dict[str, Any]


def configurations() -> dict[str, JSON]:
    found, _ = split(manifests.base())
    return {obj["kind"]: obj for obj in found}


def webhooks() -> dict[str, JSON]:
    return {webhook["name"]: webhook for obj in configurations().values() for webhook in obj["webhooks"]}


def test_names_and_paths_are_those_of_the_reference() -> None:
    names = {kind: obj["metadata"]["name"] for kind, obj in configurations().items()}
    assert names == {
        "MutatingWebhookConfiguration": c.MUTATING_WEBHOOKS,
        "ValidatingWebhookConfiguration": c.VALIDATING_WEBHOOKS,
    }
    called = {name: webhook["clientConfig"]["service"]["path"] for name, webhook in webhooks().items()}
    assert called == {
        "defaulter.trainjob.trainer.kubeflow.org": paths.MUTATE_TRAIN_JOB,
        "validator.trainjob.trainer.kubeflow.org": paths.VALIDATE_TRAIN_JOB,
        "validator.trainingruntime.trainer.kubeflow.org": paths.VALIDATE_TRAINING_RUNTIME,
        "validator.clustertrainingruntime.trainer.kubeflow.org": paths.VALIDATE_CLUSTER_TRAINING_RUNTIME,
    }


@pytest.mark.parametrize("name", sorted(webhooks()))
def test_what_every_webhook_has_in_common(name: str) -> None:
    webhook = webhooks()[name]
    assert (webhook["failurePolicy"], webhook["sideEffects"]) == ("Fail", "None")
    assert webhook["admissionReviewVersions"] == ["v1"]
    assert webhook["timeoutSeconds"] == 10
    (rule,) = webhook["rules"]
    assert rule["operations"] == ["CREATE", "UPDATE"], "deletion depends on no webhook"
    assert all("/" not in resource for resource in rule["resources"]), "nor does status"
    assert {"spec-changes", "not-being-deleted"} <= {condition["name"] for condition in webhook["matchConditions"]}


def test_only_runtimes_can_be_left_out_by_label() -> None:
    selecting = {name for name, webhook in webhooks().items() if "objectSelector" in webhook}
    assert selecting == {
        "validator.trainingruntime.trainer.kubeflow.org",
        "validator.clustertrainingruntime.trainer.kubeflow.org",
    }
    (expression,) = webhooks()["validator.trainingruntime.trainer.kubeflow.org"]["objectSelector"]["matchExpressions"]
    assert expression == {"key": c.WEBHOOK_VALIDATION_LABEL, "operator": "NotIn", "values": ["disabled"]}


def test_the_service_and_the_container_have_the_ports() -> None:
    _, rest = split(manifests.base())
    service = next(obj for obj in rest if obj["kind"] == "Service")
    called = {(w["clientConfig"]["service"]["name"], w["clientConfig"]["service"]["port"]) for w in webhooks().values()}
    port = next(port for port in service["spec"]["ports"] if port["name"] == "webhook")
    assert called == {(service["metadata"]["name"], port["port"])}
    deployment = next(obj for obj in rest if obj["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert {"name": port["targetPort"], "containerPort": 9443} in container["ports"]


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "https://127.0.0.1:7"),
        ("::1", "https://[::1]:7"),
        ("host.docker.internal", "https://host.docker.internal:7"),
    ],
)
def test_by_url(host: str, url: str) -> None:
    original = configurations()["ValidatingWebhookConfiguration"]
    changed = by_url(original, host, 7, b"PEM")
    for before, after in zip(original["webhooks"], changed["webhooks"], strict=True):
        assert after["clientConfig"] == {
            "url": url + before["clientConfig"]["service"]["path"],
            "caBundle": base64.b64encode(b"PEM").decode(),
        }
        assert {**after, "clientConfig": None} == {**before, "clientConfig": None}


@pytest.mark.parametrize(
    ("host", "want"),
    [
        ("127.0.0.1", "127.0.0.1:9443"),
        ("::1", "[::1]:9443"),
        ("localhost", "localhost:9443"),
        ("172.17.0.1", ":9443"),
        ("host.docker.internal", ":9443"),
    ],
)
def test_where_to_listen(host: str, want: str) -> None:
    assert listen_address(host, 9443) == want


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "host.docker.internal", f"{'a' * 63}.elb.test"])
def test_hosts_that_a_certificate_can_name(host: str) -> None:
    require_host(host)


@pytest.mark.parametrize(
    "host", ["", "a b", "x\n", "é" * 70, "a" * 64, "[::1]", "a:1", "https://a", "a..b", "a." * 150]
)
def test_other_hosts_are_refused_in_one_line(host: str) -> None:
    with pytest.raises(InstallError, match="must be an IP address or a DNS name") as caught:
        require_host(host)
    assert "\n" not in str(caught.value)
