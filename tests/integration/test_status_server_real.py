# SPDX-License-Identifier: Apache-2.0
"""The status server against a real API server: real tokens, the real schema, and what is stored in the end."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from support.cluster import Cluster, eventually
from support.objects import condition, runtime, train_job
from support.operator import Operator
from support.plane import Target
from support.reporting import GATE, NOW, Answer, Trainer
from support.tokens import Signer
from trainsnap_api.transport import Transport
from trainsnap_api.transport.resources import (
    CONFIG_MAP,
    JOB_SET,
    SECRET,
    SERVICE_ACCOUNT,
    TRAIN_JOB,
    VALIDATING_WEBHOOK_CONFIGURATION,
)
from trainsnap_plane import Plane

pytestmark = [pytest.mark.anyio, pytest.mark.api]

JSON = dict[str, Any]
SECRET_NAME = "kubeflow-trainer-webhook-cert"


@pytest.fixture(scope="module")
def reporting(
    plane: Target, operator_process: Operator, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    """An operator with the gate open, in place of the other one: two never run at once."""
    if operator_process.running:
        operator_process.stop()
    operator = Operator(Path(str(plane.kubeconfig)), tmp_path_factory.mktemp("reporting") / "log", *GATE)
    operator.start()
    yield operator
    if operator.running:
        assert operator.stop() == 0, operator.tail()
    assert "Traceback" not in operator.log.read_text()
    operator_process.start()


@pytest.fixture
async def trainer(reporting: Operator, cluster: Cluster) -> Trainer:
    """The trainer of the job ``job``, whose pods run as the account ``default``."""
    account = {"name": "default", "namespace": cluster.namespace}
    await cluster.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    await cluster.create(runtime("rt", cluster.namespace))
    await cluster.create(train_job("job", cluster.namespace))
    return await Trainer.of("job", cluster, reporting)


def report(**fields: Any) -> JSON:
    return {"trainerStatus": {"lastUpdatedTime": NOW, **fields}}


async def stored(cluster: Cluster) -> JSON:
    """What the job's status holds of the reports."""
    job = await cluster.get(TRAIN_JOB, "job")
    found: JSON = (job.get("status") or {}).get("trainerStatus") or {}
    return found


async def test_a_report_is_stored_and_the_next_one_takes_its_place(trainer: Trainer) -> None:
    first = report(progressPercentage=30, estimatedRemainingSeconds=120, metrics=[{"name": "loss", "value": "0.5"}])
    assert await trainer.post(first) == Answer(200, first)
    assert await stored(trainer.cluster) == first["trainerStatus"]
    second = report(metrics=[{"name": "loss", "value": "0.4"}])
    assert await trainer.post(second) == Answer(200, second)
    assert await stored(trainer.cluster) == second["trainerStatus"], "progress was left out: it is gone"
    assert await trainer.post({}) == Answer(200, {})
    assert await stored(trainer.cluster) == second["trainerStatus"], "nothing was reported: nothing changes"
    managers = (await trainer.cluster.get(TRAIN_JOB, "job"))["metadata"]["managedFields"]
    (entry,) = (item for item in managers if item["manager"] == "trainer-status")
    assert (entry["operation"], entry["subresource"]) == ("Apply", "status")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"progressPercentage": 150}, "progressPercentage"),
        ({"progressPercentage": -1}, "progressPercentage"),
        ({"estimatedRemainingSeconds": -1}, "estimatedRemainingSeconds"),
        ({"metrics": [{"name": "x" * 65, "value": "1"}]}, "metrics[0].name"),
        ({"metrics": [{"name": "loss"}]}, "metrics[0].value"),
        ({"metrics": [{"name": "a", "value": "1"}] * 257}, "Too many"),
        ({"lastUpdatedTime": None}, "status.trainerStatus.lastUpdatedTime"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_the_schema_refuses_comes_back_in_its_words(trainer: Trainer, fields: JSON, words: str) -> None:
    before = report(progressPercentage=40)
    await trainer.post(before)
    got = await trainer.post(report(**fields))
    assert (got.code, got.body["code"], got.body["reason"], got.body["status"]) == (422, 422, "Invalid", "Failure")
    assert words in got.body["message"]
    assert '"job"' in got.body["message"], "names the TrainJob"
    assert await stored(trainer.cluster) == before["trainerStatus"]


async def test_a_job_that_does_not_exist(trainer: Trainer) -> None:
    path, audience = (text.replace("/job/", "/other/") for text in (trainer.path, trainer.audience))
    got = await trainer.post(report(), await trainer.token(audience=audience), path=path)
    want = {"status": "Failure", "message": "Train job not found", "reason": "NotFound", "code": 404}
    assert got == Answer(404, want)
    assert await trainer.cluster.find(TRAIN_JOB, "other") is None


FORBIDDEN = Answer(403, {"status": "Failure", "message": "Forbidden", "reason": "Forbidden", "code": 403})


async def test_tokens_for_something_else_are_refused(trainer: Trainer, admin: Transport) -> None:
    cluster = trainer.cluster
    await cluster.create(train_job("other", cluster.namespace))
    theirs = await Trainer.of("other", cluster, trainer.operator)
    # Another namespace, in which somebody may ask for tokens with whatever audience.
    elsewhere = {"name": "default", "namespace": "kubeflow-system"}
    await admin.apply(SERVICE_ACCOUNT, {"metadata": elsewhere}, field_manager="tests")
    tokens = {
        "of another job": await theirs.token(),
        "for the API server": await trainer.token(audience="https://kubernetes.default.svc"),
        "for the API server, by default": (await admin.service_account_token("default", cluster.namespace)).token,
        "of another namespace": await trainer.token(namespace="kubeflow-system"),
        "none": "",
        "garbage": "a.b.c",
        "more garbage": "x" * 8000,
    }
    for name, token in tokens.items():
        assert await trainer.post(report(progressPercentage=1), token) == FORBIDDEN, name
    assert await stored(cluster) == {}
    good = await trainer.token()
    assert (await trainer.post(report(), good)).code == 200
    assert await trainer.post(report(), good[:-4] + ("AAAA" if good[-4:] != "AAAA" else "BBBB")) == FORBIDDEN


async def test_a_token_that_has_expired_is_refused(trainer: Trainer, local_plane: Plane) -> None:
    """Signed with the plane's own key, since the API server makes none that lives for less than ten minutes."""
    file = local_plane.directory / "pki" / "service-accounts.key"
    key = serialization.load_pem_private_key(file.read_bytes(), None)
    assert isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey)
    kid, claims = _opened(await trainer.token())
    signer = Signer(kid, key)
    assert (await trainer.post(report(), signer.token(claims))).code == 200
    assert await trainer.post(report(), signer.token({**claims, "exp": int(time.time()) - 1})) == FORBIDDEN


def _opened(token: str) -> tuple[str, JSON]:
    header, claims = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in token.split(".")[:2])
    return header["kid"], claims


async def test_size_and_route(trainer: Trainer) -> None:
    assert (await trainer.post(b" " * 1_000_000)).body["message"] == "Payload too large"
    assert (await trainer.post(report(), method="GET")).body["message"] == "Not found"
    assert (await trainer.post(report(), path="/healthz")).code == 404
    assert (await trainer.post(b"not json")).body["message"] == "Invalid payload"


async def test_what_the_operator_writes_and_what_is_reported_do_not_disturb_each_other(trainer: Trainer) -> None:
    cluster = trainer.cluster
    await trainer.post(report(progressPercentage=7))
    await cluster.patch(TRAIN_JOB, "job", {"spec": {"suspend": True}})
    await cluster.until(TRAIN_JOB, "job", lambda seen: condition(seen, "Suspended"))
    assert (await stored(cluster))["progressPercentage"] == 7
    await trainer.post(report(progressPercentage=8))
    assert condition(await cluster.get(TRAIN_JOB, "job"), "Suspended") is not None
    done = {"type": "Completed", "status": "True", "reason": "AllJobsCompleted", "message": "done"}
    await cluster.patch(
        JOB_SET, "job", {"status": {"conditions": [{**done, "lastTransitionTime": NOW}]}}, subresource="status"
    )
    await cluster.until(TRAIN_JOB, "job", lambda seen: condition(seen, "Complete"))
    assert (await trainer.post(report(progressPercentage=100))).code == 200, "the last report may come late"
    assert (await stored(cluster))["progressPercentage"] == 100


async def test_health_says_that_it_is_there(trainer: Trainer) -> None:
    assert trainer.operator.get("health", "/readyz/status-server-readyz") == (200, "ok")
    assert trainer.operator.get("health", "/healthz/status-server-healthz") == (200, "ok")


async def test_a_new_authority_reaches_the_job(trainer: Trainer, admin: Transport) -> None:
    """The job itself does not change; its copy of the authority does."""
    cluster = trainer.cluster
    before = await cluster.get(JOB_SET, "job")
    await admin.delete(SECRET, SECRET_NAME, "kubeflow-system")
    # A change of the webhook configurations has the operator look at once instead of within half a minute.
    touch = {"metadata": {"annotations": {"tests.trainsnap.dev/touched": cluster.namespace}}}
    await admin.merge_patch(VALIDATING_WEBHOOK_CONFIGURATION, "validator.trainer.kubeflow.org", None, touch)
    await cluster.until(
        CONFIG_MAP, "job-tls-config", lambda seen: seen["data"]["ca.crt"] != trainer.authority, seconds=60
    )
    renewed = await Trainer.of("job", cluster, trainer.operator)
    got = await eventually(lambda: renewed.post(report()), lambda seen: seen.code == 200, what="a report is taken")
    assert got.code == 200
    assert await cluster.get(JOB_SET, "job") == before
