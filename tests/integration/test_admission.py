# SPDX-License-Identifier: Apache-2.0
"""Webhooks on a real API server, called by it over TLS, served by the operator as its own ServiceAccount."""

from __future__ import annotations

import socket
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.admission import refusal, without_webhooks
from support.cluster import Cluster, eventually
from support.objects import condition, image_of, replicated_job, runtime, runtime_spec, train_job
from support.operator import Operator
from trainsnap_api.transport import Transport
from trainsnap_api.transport import resources as r
from trainsnap_api.transport.resources import JOB_SET, TRAIN_JOB, TRAINING_RUNTIME, TRAINING_RUNTIME_SNAPSHOT
from trainsnap_controller.webhooks import paths

pytestmark = [pytest.mark.anyio, pytest.mark.api]

JSON = dict[str, Any]
RESERVED: JSON = {"env": [{"name": "PET_NNODES", "value": "1"}]}


def runtime_patch(manager: str = "acme.io/x", time: str | None = None, **pod: Any) -> JSON:
    jobs = [{"name": "node", "template": {"spec": {"template": {"spec": pod}}}}]
    entry: JSON = {"manager": manager, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}
    return entry if time is None else {**entry, "time": time}


async def started(cluster: Cluster, **spec: Any) -> None:
    """A torch job on the runtime rt, with its snapshot and JobSet."""
    await cluster.create(runtime("rt", cluster.namespace, torch=True))
    await cluster.create(train_job("job", cluster.namespace, **spec))
    await cluster.until(TRAINING_RUNTIME_SNAPSHOT, "job")
    await cluster.until(JOB_SET, "job")


# What a job is judged by


async def test_a_job_right_behind_its_runtime(operator: Operator, cluster: Cluster) -> None:
    for index in range(10):
        await cluster.create(runtime(f"rt{index}", cluster.namespace))
        await cluster.create(train_job(f"job{index}", cluster.namespace, f"rt{index}"))


async def test_an_edited_runtime_is_the_one_that_counts(operator: Operator, cluster: Cluster) -> None:
    await cluster.create(runtime("rt", cluster.namespace))
    for torch in (True, False, True, False):
        await cluster.patch(TRAINING_RUNTIME, "rt", {"spec": {"mlPolicy": {"torch": {} if torch else None}}})
        call = cluster.api.create(TRAIN_JOB, train_job("job", cluster.namespace, trainer=RESERVED), dry_run=True)
        if torch:
            assert "spec.trainer.env: Invalid value" in (await refusal(call)).message
        else:
            await call


SPOILED = [
    pytest.param({"spec": runtime_spec(image="acme/other:1")}, id="edited"),
    pytest.param(
        {"spec": {"template": {"spec": {"replicatedJobs": [replicated_job("other", trainer=False)]}}}}, id="job gone"
    ),
    pytest.param(None, id="deleted"),
]


@pytest.mark.parametrize("change", SPOILED)
async def test_a_paused_job_goes_on_whatever_became_of_its_runtime(
    operator: Operator, cluster: Cluster, change: JSON | None
) -> None:
    await started(cluster, suspend=True, runtimePatches=[runtime_patch(nodeSelector={"a": "b"})])
    if change is None:
        await cluster.delete(TRAINING_RUNTIME, "rt")
    else:
        await cluster.patch(TRAINING_RUNTIME, "rt", change)
    await cluster.patch(TRAIN_JOB, "job", {"metadata": {"labels": {"touched": "yes"}}})
    await cluster.patch(TRAIN_JOB, "job", {"spec": {"runtimePatches": [runtime_patch(nodeSelector={"a": "c"})]}})
    await cluster.patch(TRAIN_JOB, "job", {"spec": {"suspend": False}})
    found = await cluster.until(JOB_SET, "job", lambda item: not item["spec"]["suspend"])
    assert image_of(found) == "acme/train:1"
    await cluster.patch(TRAIN_JOB, "job", {"spec": {"suspend": True}})
    await cluster.delete(TRAIN_JOB, "job")
    await cluster.until_gone(TRAIN_JOB, "job")


async def test_an_update_is_checked_against_the_snapshot(operator: Operator, cluster: Cluster) -> None:
    await started(cluster, suspend=True)
    await cluster.patch(TRAINING_RUNTIME, "rt", {"spec": {"mlPolicy": {"torch": None}}})
    error = await refusal(cluster.patch(TRAIN_JOB, "job", {"spec": {"trainer": RESERVED}}))
    assert (error.status, error.reason) == (403, "Forbidden")
    assert 'denied the request: spec.trainer.env: Invalid value: ["PET_NNODES"]: must not set' in error.message


async def test_what_was_let_in_before_can_be_paused(operator: Operator, cluster: Cluster) -> None:
    await cluster.create(runtime("rt", cluster.namespace, torch=True))
    async with without_webhooks(cluster.api, cluster.namespace):
        await cluster.create(train_job("job", cluster.namespace, trainer=RESERVED))
    await cluster.patch(TRAIN_JOB, "job", {"spec": {"suspend": True}})
    error = await refusal(cluster.patch(TRAIN_JOB, "job", {"spec": {"initializer": {"model": {}}}}))
    assert "spec.runtimeRef: " in error.message and "PET_NNODES" not in error.message


# Patches: the table of suspending, and the times

ACTIVE = [(False, False, 0, 403), (True, True, 0, 200), (True, False, 0, 200), (False, True, 0, 200),
          (True, True, 1, 403), (True, False, 1, 403), (False, True, 1, 403)]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "active", "want"), ACTIVE)
async def test_when_patches_may_change(
    operator: Operator, cluster: Cluster, before: bool, after: bool, active: int, want: int
) -> None:
    await started(cluster, suspend=before)
    counts = {"name": "node", "active": active, "ready": 0, "succeeded": 0, "failed": 0, "suspended": 0}
    await cluster.patch(JOB_SET, "job", {"status": {"replicatedJobsStatus": [counts]}}, subresource="status")
    change = {"spec": {"suspend": after, "runtimePatches": [runtime_patch(nodeSelector={"a": "b"})]}}
    if want == 200:
        await cluster.patch(TRAIN_JOB, "job", change)
        return
    error = await refusal(cluster.patch(TRAIN_JOB, "job", change))
    assert error.status == want
    assert "spec.runtimePatches: Forbidden: may " in error.message


def times(obj: JSON) -> list[str | None]:
    return [entry.get("time") for entry in obj["spec"]["runtimePatches"]]


async def test_times_of_patches(operator: Operator, cluster: Cluster) -> None:
    old = "2020-01-01T00:00:00Z"
    await cluster.create(runtime("rt", cluster.namespace))
    size: Any = {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1024Mi"}}]}
    entries = [runtime_patch(time=old, **size), runtime_patch("b.io/y")]
    trainer = {"resourcesPerNode": {"limits": {"cpu": "1000m"}}}
    created = await cluster.create(
        train_job("job", cluster.namespace, suspend=True, trainer=trainer, runtimePatches=entries)
    )
    assert times(created)[0] == old
    assert times(created)[1] is not None
    assert created["spec"]["trainer"] == trainer, "nothing else was rewritten"

    forged = [runtime_patch(time="2031-01-01T00:00:00Z", **size), runtime_patch("b.io/y")]
    same = await cluster.patch(TRAIN_JOB, "job", {"spec": {"runtimePatches": forged}})
    assert times(same) == times(created), "content did not change, so the time does not"
    assert same["metadata"]["generation"] == created["metadata"]["generation"]

    changed = [
        runtime_patch(time=old, nodeSelector={"a": "b"}, **size),
        runtime_patch("b.io/y"),
        runtime_patch("c.io/z", old),
    ]
    after = await cluster.patch(TRAIN_JOB, "job", {"spec": {"runtimePatches": changed}})
    assert times(after)[0] not in (old, None)
    assert times(after)[1:] == [times(created)[1], old]


async def test_the_same_file_can_be_applied_again(operator: Operator, cluster: Cluster) -> None:
    await cluster.create(runtime("rt", cluster.namespace))
    trainer = {"resourcesPerNode": {"limits": {"cpu": "1000m", "memory": "1.5Gi"}}}
    obj = train_job("job", cluster.namespace, trainer=trainer, runtimePatches=[runtime_patch(nodeSelector={"a": "b"})])
    first = await cluster.api.apply(TRAIN_JOB, obj, field_manager="user")
    again = await cluster.api.apply(TRAIN_JOB, obj, field_manager="user")
    assert again["spec"] == first["spec"]
    assert again["metadata"]["generation"] == 1


# Runtimes


@pytest.fixture
async def cluster_runtime(cluster: Cluster) -> AsyncIterator[str]:
    """The name of a ClusterTrainingRuntime, which is removed afterwards."""
    yield cluster.namespace
    await cluster.delete(r.CLUSTER_TRAINING_RUNTIME, cluster.namespace)


async def test_both_kinds_are_checked_on_update(operator: Operator, cluster: Cluster, cluster_runtime: str) -> None:
    await cluster.create(runtime("rt", cluster.namespace))
    await cluster.create(runtime(cluster_runtime))
    two = {"spec": {"template": {"spec": {"replicatedJobs": [{**replicated_job(), "replicas": 2}]}}}}
    for resource, name in ((TRAINING_RUNTIME, "rt"), (r.CLUSTER_TRAINING_RUNTIME, cluster_runtime)):
        error = await refusal(cluster.patch(resource, name, two))
        assert (error.status, "replicatedJobs[0].replicas: Invalid value: 2" in error.message) == (403, True)
        await cluster.patch(resource, name, {"spec": runtime_spec(image="acme/other:1")})


async def test_a_label_leaves_a_runtime_out(operator: Operator, cluster: Cluster) -> None:
    broken = runtime("rt", cluster.namespace, spec=runtime_spec())
    broken["spec"]["template"]["spec"]["replicatedJobs"][0]["replicas"] = 2
    await refusal(cluster.create(broken))
    broken["metadata"]["labels"] = {"trainer.kubeflow.org/webhook-validation": "disabled"}
    await cluster.create(broken)

    # No job starts from it all the same, at the door or behind it.
    error = await refusal(cluster.create(train_job("job", cluster.namespace)))
    assert (
        "spec.runtimeRef: Invalid value: the runtime has spec.template.spec.replicatedJobs[0].replicas" in error.message
    )
    async with without_webhooks(cluster.api, cluster.namespace):
        await cluster.create(train_job("job", cluster.namespace))
    job = await cluster.until(TRAIN_JOB, "job", lambda found: condition(found, "Blocked"))
    blocked = condition(job, "Blocked")
    assert blocked is not None
    assert (blocked["reason"], "replicatedJobs[0].replicas" in blocked["message"]) == ("RuntimeInvalid", True)
    assert await cluster.find(TRAINING_RUNTIME_SNAPSHOT, "job") is None


async def test_a_deprecated_runtime_is_warned_of(operator: Operator, cluster: Cluster, cluster_runtime: str) -> None:
    obj = runtime(cluster_runtime)
    obj["metadata"]["labels"] = {"trainer.kubeflow.org/support": "deprecated"}
    made = await cluster.api.request("POST", r.CLUSTER_TRAINING_RUNTIME.path(), body=obj)
    assert "is labelled as deprecated" in made.headers["warning"]
    job = train_job("job", cluster.namespace, cluster_runtime, kind="ClusterTrainingRuntime")
    path = TRAIN_JOB.path(cluster.namespace)
    created = await cluster.api.request("POST", path, body=job)
    assert f"ClusterTrainingRuntime '{cluster_runtime}' is deprecated" in created.headers["warning"]
    await cluster.until(TRAINING_RUNTIME_SNAPSHOT, "job")
    change = {"spec": {"suspend": True}}
    kind = "application/merge-patch+json"
    paused = await cluster.api.request("PATCH", f"{path}/job", body=change, content_type=kind)
    assert "is deprecated" in paused.headers["warning"]
    labelled = await cluster.api.request(
        "PATCH", f"{path}/job", body={"metadata": {"labels": {"a": "b"}}}, content_type=kind
    )
    assert "warning" not in labelled.headers, "it is not even asked"


async def test_a_runtime_whose_policy_has_no_effect_is_warned_of(operator: Operator, cluster: Cluster) -> None:
    path = TRAINING_RUNTIME.path(cluster.namespace)
    kind = "application/merge-patch+json"
    good = runtime("good", cluster.namespace, torch=True)
    made = await cluster.api.request("POST", path, body=good)
    assert "warning" not in made.headers
    unlabelled = {"mlPolicy": {"torch": {}}, "template": {"spec": {"replicatedJobs": [replicated_job(trainer=False)]}}}
    made = await cluster.api.request("POST", path, body=runtime("bare", cluster.namespace, spec=unlabelled))
    assert "trainjob-ancestor-step: trainer" in made.headers["warning"]
    changed = await cluster.api.request(
        "PATCH", f"{path}/good", body={"spec": {"template": unlabelled["template"]}}, content_type=kind
    )
    assert "nor spec.mlPolicy has an effect" in changed.headers["warning"]
    labelled = await cluster.api.request(
        "PATCH", f"{path}/good", body={"metadata": {"labels": {"a": "b"}}}, content_type=kind
    )
    assert "warning" not in labelled.headers, "it is not even asked"


# Without the operator


async def test_what_goes_on_while_the_operator_hangs(operator: Operator, cluster: Cluster) -> None:
    await started(cluster, suspend=True)
    await cluster.create(train_job("second", cluster.namespace))
    await cluster.patch(TRAIN_JOB, "second", {"metadata": {"finalizers": ["acme.io/held"]}})
    operator.pause()
    await cluster.patch(TRAIN_JOB, "job", {"metadata": {"labels": {"a": "b"}}})
    await cluster.patch(TRAIN_JOB, "job", {"status": {"jobsStatus": []}}, subresource="status")
    await cluster.patch(TRAINING_RUNTIME, "rt", {"metadata": {"labels": {"a": "b"}}})
    await cluster.delete(TRAIN_JOB, "second")
    await cluster.patch(TRAIN_JOB, "second", {"spec": {"suspend": True}})
    await cluster.patch(TRAIN_JOB, "second", {"metadata": {"finalizers": []}})
    await cluster.until_gone(TRAIN_JOB, "second")
    await cluster.delete(TRAIN_JOB, "job")
    await cluster.delete(TRAINING_RUNTIME, "rt")


async def test_what_is_refused_while_the_operator_is_gone(operator: Operator, cluster: Cluster) -> None:
    await started(cluster, suspend=True)
    operator.kill()
    for call in (
        cluster.create(train_job("more", cluster.namespace)),
        cluster.patch(TRAIN_JOB, "job", {"spec": {"suspend": False}}),
        cluster.create(runtime("more", cluster.namespace)),
        cluster.patch(TRAINING_RUNTIME, "rt", {"spec": {"mlPolicy": {"numNodes": 2}}}),
    ):
        error = await refusal(call)
        assert (error.status, "failed calling webhook" in error.message) == (500, True)
    operator.start()
    await cluster.patch(TRAIN_JOB, "job", {"spec": {"suspend": False}})


async def test_an_operator_that_stops_takes_its_webhooks_out(operator: Operator, cluster: Cluster) -> None:
    assert operator.stop() == 0
    await eventually(
        lambda: cluster.find(r.VALIDATING_WEBHOOK_CONFIGURATION, "validator.trainer.kubeflow.org"),
        lambda found: found is None,
        what="no webhook",
    )
    assert await cluster.find(r.MUTATING_WEBHOOK_CONFIGURATION, "defaulter.trainer.kubeflow.org") is None


# The server


async def test_readiness_needs_the_configurations(operator: Operator, cluster: Cluster, admin: Transport) -> None:
    assert operator.get("health", "/readyz")[0] == 200
    async with without_webhooks(admin, cluster.namespace):

        async def ready() -> tuple[int, str]:
            return operator.get("health", "/readyz")

        _, text = await eventually(ready, lambda found: found[0] == 500, what="not ready")
        assert (
            "[-]webhooks failed: ValidatingWebhookConfiguration validator.trainer.kubeflow.org does not exist" in text
        )
    await eventually(ready, lambda found: found[0] == 200, what="ready again")


@pytest.mark.parametrize(
    ("body", "content_type", "status", "want"),
    [
        pytest.param(b"{", "application/json", 400, "the body is not JSON", id="not JSON"),
        pytest.param(b"{}", "text/plain", 400, "content-type must be application/json", id="content type"),
    ],
)
def test_malformed_reviews(operator: Operator, body: bytes, content_type: str, status: int, want: str) -> None:
    request = urllib.request.Request(webhook(operator), body, {"content-type": content_type})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, context=unverified(), timeout=10)
    with refused.value as answer:
        assert (answer.code, want in answer.read().decode()) == (status, True)


def test_a_review_that_is_too_large_is_refused_before_it_is_sent(operator: Operator) -> None:
    address = urllib.parse.urlsplit(webhook(operator))
    assert address.hostname is not None
    head = (
        f"POST {address.path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 8388608\r\n\r\n"
    )
    with (
        socket.create_connection((address.hostname, address.port or 443), timeout=10) as plain,
        unverified().wrap_socket(plain) as connection,
    ):
        connection.sendall(head.encode())
        assert connection.recv(64).startswith(b"HTTP/1.1 413 ")


def webhook(operator: Operator) -> str:
    return operator.url("webhooks") + paths.VALIDATE_TRAIN_JOB


def unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def test_requests_are_counted(operator: Operator, cluster: Cluster) -> None:
    name = "controller_runtime_webhook_requests_total"
    before = operator.metric(name, webhook=paths.VALIDATE_TRAIN_JOB, code="200")
    await started(cluster)
    assert operator.metric(name, webhook=paths.VALIDATE_TRAIN_JOB, code="200") == before + 1
    assert operator.metric("controller_runtime_webhook_requests_in_flight") == 0
