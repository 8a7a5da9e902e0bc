# SPDX-License-Identifier: Apache-2.0
"""``snapshots.legacySnapshots``, and the moment that divides old jobs from new ones."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from support.cluster import Cluster, eventually
from support.eras import before_trainsnap, move, remove_webhooks
from support.history import events_about
from support.legacy import config_map, left_by_reference, live_runtime
from support.objects import condition, image_of, runtime, runtime_spec, train_job
from support.operator import Operator
from support.plane import Target
from trainsnap_api.transport import Transport
from trainsnap_api.transport.resources import (
    CONFIG_MAP,
    JOB_SET,
    TRAIN_JOB,
    TRAINING_RUNTIME,
    TRAINING_RUNTIME_SNAPSHOT,
)
from trainsnap_controller.migration.legacy import judge
from trainsnap_controller.runtime.job import Job

pytestmark = [pytest.mark.anyio, pytest.mark.api, pytest.mark.timeout(300)]

JSON = dict[str, Any]
Start = Callable[..., Operator]


@pytest.fixture
async def start(
    operator_process: Operator, admin: Transport, plane: Target, namespace: str, tmp_path: Path
) -> AsyncIterator[Start]:
    """Starts an operator with one setting, in a cluster in which every job counts as older than it."""
    started: list[Operator] = []

    def start_with(mode: str, **snapshots: Any) -> Operator:
        settings = {
            "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": "127.0.0.1:0"},
            "metrics": {"bindAddress": "127.0.0.1:0", "secureServing": False},
            "clientConnection": {"qps": 0, "burst": 0},
            "snapshots": {"legacySnapshots": mode, **snapshots},
        }
        file = tmp_path / f"{mode}.yaml"
        file.write_text(yaml.safe_dump(settings))
        operator = Operator(plane.kubeconfig, tmp_path / "log", "--config", str(file))
        operator.start()
        started.append(operator)
        return operator

    async with before_trainsnap(operator_process, admin):
        await anyio.sleep(0.5)
        yield start_with
        for operator in started:
            if operator.running:
                operator.stop()


async def test_dual_write_keeps_the_way_back_open(start: Start, cluster: Cluster) -> None:
    await cluster.create(runtime("rt", cluster.namespace, image="acme/train:1"))
    _, kept, _ = await left_by_reference(cluster, train_job("old", cluster.namespace))
    await move(cluster.api, (datetime.now(UTC) + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ"))
    await anyio.sleep(2)
    start("dual-write")
    await cluster.create(train_job("new", cluster.namespace))
    snapshot = await cluster.until(TRAINING_RUNTIME_SNAPSHOT, "new")
    assert snapshot["source"]["origin"] == "Runtime"
    written = await cluster.until(CONFIG_MAP, "new-runtime-snapshot")
    view = Job.from_json(await cluster.get(TRAIN_JOB, "new"))
    verdict = judge(written, view, view.runtime_ref)
    assert verdict.runtime is not None
    assert verdict.runtime["spec"] == snapshot["spec"]
    await cluster.until(TRAINING_RUNTIME_SNAPSHOT, "old")
    assert await cluster.get(CONFIG_MAP, "old-runtime-snapshot") == kept

    foreign = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"mine": "1"},
               "metadata": {"name": "taken-runtime-snapshot", "namespace": cluster.namespace}}  # fmt: skip
    mine = await cluster.create(foreign)
    await cluster.create(train_job("taken", cluster.namespace))
    await cluster.until(JOB_SET, "taken")
    assert await cluster.get(CONFIG_MAP, "taken-runtime-snapshot") == mine
    ((reason, note),) = await eventually(lambda: events_about(cluster, "taken"), bool, what="an event")
    assert reason == "LegacyConfigMapIgnored"
    assert "is not written: it exists and belongs to somebody else" in note


async def test_ignore_looks_at_no_configmap(start: Start, cluster: Cluster) -> None:
    await cluster.create(runtime("rt", cluster.namespace, image="acme/train:1"))
    _, kept, made = await left_by_reference(cluster, train_job("job", cluster.namespace))
    await cluster.patch(TRAINING_RUNTIME, "rt", {"spec": runtime_spec(image="acme/train:2")})
    start("ignore")
    snapshot = await cluster.until(TRAINING_RUNTIME_SNAPSHOT, "job")
    assert (snapshot["source"]["origin"], image_of(snapshot)) == ("LegacyJob", "acme/train:2")
    assert await cluster.get(CONFIG_MAP, "job-runtime-snapshot") == kept
    assert await cluster.get(JOB_SET, "job") == made


async def test_what_is_made_later_is_not_believed(start: Start, cluster: Cluster) -> None:
    await cluster.create(runtime("rt", cluster.namespace, image="acme/train:1"))
    old = await cluster.create(train_job("old", cluster.namespace))
    moment = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1)
    await move(cluster.api, moment.strftime("%Y-%m-%dT%H:%M:%SZ"))
    await anyio.sleep(2.5)
    evil = await live_runtime(cluster, old)
    evil["spec"] = runtime_spec(image="acme/evil:1")
    await cluster.create(config_map(old, evil))
    new = await cluster.create(train_job("new", cluster.namespace))
    await cluster.create(config_map(new, text="{{"))
    operator = start("keep")
    for name in ("old", "new"):
        snapshot = await cluster.until(TRAINING_RUNTIME_SNAPSHOT, name)
        assert (snapshot["source"]["origin"], image_of(snapshot)) == ("Runtime", "acme/train:1")
    ((reason, note),) = await eventually(lambda: events_about(cluster, "old"), bool, what="an event")
    assert reason == "LegacyConfigMapIgnored"
    assert f"not before {moment:%Y-%m-%dT%H:%M:%SZ}" in note
    assert await events_about(cluster, "new") == []
    looked_up = operator.metric("rest_client_requests_total", method="GET")
    await cluster.create(train_job("newer", cluster.namespace))
    await cluster.until(JOB_SET, "newer")
    gets = operator.metric("rest_client_requests_total", method="GET") - looked_up
    assert gets <= 2, "the live runtime, and at most one look at legacyBefore: a new job costs no look-up"


async def test_the_moment_is_set_at_the_first_start_and_kept(start: Start, cluster: Cluster) -> None:
    operator = start("keep")
    await move(cluster.api, "2026-01-05T10:00:00Z")
    operator.stop()
    await remove_webhooks(cluster.api)
    operator.start()
    kept = await cluster.api.get(CONFIG_MAP, "trainsnap-state", "kubeflow-system")
    assert kept["data"] == {"legacyBefore": "2026-01-05T10:00:00Z"}
    operator.stop()
    await cluster.api.delete(CONFIG_MAP, "trainsnap-state", "kubeflow-system")
    operator.start()

    async def again() -> JSON | None:
        found = [x for x in (await cluster.api.list(CONFIG_MAP, "kubeflow-system")).items
                 if x["metadata"]["name"] == "trainsnap-state"]  # fmt: skip
        return found[0] if found else None

    made = await eventually(again, lambda found: found is not None, what="it is made again")
    assert made is not None
    assert "data" not in made


async def test_a_runtime_of_an_unknown_kind_is_taken_over_whole_once_it_is_configured(
    start: Start, cluster: Cluster
) -> None:
    # Fields of our own kinds mean nothing here, whatever is in them.
    spec = {"partition": "gpu", "nothing": None, "deep": [{"a": [1, 1.5, "1", True, {}]}],
            "template": {"spec": {"replicatedJobs": "none"}}, "mlPolicy": 7}  # fmt: skip
    slurm = {"apiVersion": "acme.org/v1", "kind": "SlurmRuntime", "metadata": {"name": "slurm"}, "spec": spec}
    wanted = train_job("job", cluster.namespace, "slurm", kind="SlurmRuntime")
    wanted["spec"]["runtimeRef"]["apiGroup"] = "acme.org"
    job = await cluster.create(wanted)
    kept = await cluster.create(config_map(job, slurm))
    operator = start("keep")
    message = await blocked(cluster, "job", "RuntimeNotSupported")
    assert "SlurmRuntime.acme.org" in message
    assert await cluster.find(TRAINING_RUNTIME_SNAPSHOT, "job") is None
    operator.stop()
    await remove_webhooks(cluster.api)
    kind = {"group": "acme.org", "version": "v1", "kind": "SlurmRuntime", "plural": "slurmruntimes"}
    start("keep", opaqueRuntimes=[kind])
    snapshot = await cluster.until(TRAINING_RUNTIME_SNAPSHOT, "job")
    assert (snapshot["source"]["origin"], snapshot["opaque"]) == ("ConfigMap", {"spec": {"spec": spec}})
    await cluster.until(TRAIN_JOB, "job", lambda found: condition(found, "Blocked") is None)
    assert await cluster.find(JOB_SET, "job") is None, "another controller builds it"
    assert await cluster.get(CONFIG_MAP, "job-runtime-snapshot") == kept


async def blocked(cluster: Cluster, name: str, reason: str) -> str:
    """Await that a job is blocked for a reason. Returns the message."""
    job = await cluster.until(
        TRAIN_JOB, name, lambda found: (condition(found, "Blocked") or {}).get("reason") == reason
    )
    message: str = (condition(job, "Blocked") or {})["message"]
    return message
