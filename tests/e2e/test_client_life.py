# SPDX-License-Identifier: Apache-2.0
"""The client on the full plane: waiting, pausing, what a job runs with, users without rights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from support.cluster import Cluster
from support.identity import user_with
from support.objects import replicated_job, runtime, runtime_spec, train_job
from support.operator import Operator
from support.plane import Target
from support.pods import Pods
from trainsnap_api import AsyncClient, Client
from trainsnap_api.client import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Invalid,
    JobDeleted,
    JobFailed,
    NotFound,
    Progress,
    Unauthorized,
    UnknownFields,
    WaitTimedOut,
)
from trainsnap_api.models import TrainJob
from trainsnap_api.transport import Transport
from trainsnap_api.transport.resources import TRAINING_RUNTIME

pytestmark = [pytest.mark.anyio, pytest.mark.full]


@pytest.fixture
async def client(plane: Target, namespace: str) -> AsyncIterator[AsyncClient]:
    async with await AsyncClient.connect(kubeconfig=str(plane.kubeconfig), namespace=namespace, probe=True) as made:
        yield made


async def test_every_verb_and_every_refusal(operator: Operator, client: AsyncClient, cluster: Cluster) -> None:
    await client.apply(runtime("rt", cluster.namespace))
    job = train_job("job", cluster.namespace, suspend=True)
    dry = await client.jobs.create(job, dry_run=True)
    assert dry.spec is not None
    assert dry.spec.managed_by == "trainer.kubeflow.org/trainjob-controller", "what the server defaults is shown"
    with pytest.raises(NotFound):
        await client.jobs.get("job")
    made = await client.jobs.create(job)
    assert made.metadata is not None
    with pytest.raises(AlreadyExists, match='"job" already exists'):
        await client.jobs.create(job)
    with pytest.raises(UnknownFields) as unknown:
        await client.jobs.create({**job, "spec": {**job["spec"], "trainer": {"nodes": 2}}})
    assert unknown.value.fields == ("spec.trainer.nodes",)
    with pytest.raises(Invalid) as invalid:
        await client.jobs.create(train_job("bad", cluster.namespace, trainer={"numNodes": -1, "numProcPerNode": 0}))
    assert {cause.field for cause in invalid.value.causes} == {"spec.trainer.numNodes", "spec.trainer.numProcPerNode"}
    with pytest.raises(Conflict):
        await client.jobs.patch("job", {"metadata": {"resourceVersion": "1", "labels": {"a": "b"}}})
    with pytest.raises(Conflict):
        await client.jobs.delete("job", uid="another")
    await client.jobs.patch("job", {"metadata": {"labels": {"a": "b"}}})
    assert [item.metadata and item.metadata.name for item in await client.jobs.list(label_selector="a=b")] == ["job"]
    assert await client.jobs.list(label_selector="a=c") == []
    for name in ("x", "y"):
        await client.jobs.create(train_job(name, cluster.namespace, suspend=True))
    assert [item.metadata and item.metadata.name async for item in client.jobs.iterate(page_size=1)] == [
        "job",
        "x",
        "y",
    ]
    await client.jobs.delete("x", dry_run=True)
    await client.jobs.get("x")
    await client.jobs.delete("job", uid=made.metadata.uid)
    with pytest.raises(NotFound):
        await client.jobs.delete("job")


async def test_waiting_with_progress(operator: Operator, client: AsyncClient, cluster: Cluster) -> None:
    pods = await Pods.on(cluster)
    await client.apply(runtime("rt", cluster.namespace))
    job = await client.jobs.create(train_job("job", cluster.namespace))
    seen: list[Progress] = []
    await client.jobs.wait_for(job, "Running", timeout=30, on_progress=seen.append)
    assert (seen[0].state, seen[-1].state) == ("Created", "Running")
    with pytest.raises(WaitTimedOut, match="TrainJob job is Running") as late:
        await client.jobs.wait_for(job, timeout=0.5)
    assert isinstance(late.value, TimeoutError)
    await pods.running("job")

    async with asyncio.TaskGroup() as group:
        done = group.create_task(client.jobs.wait_for(job, timeout=30))
        await pods.finish("job")
    result: TrainJob = done.result()
    assert "Complete" in repr(result)
    assert (await client.jobs.wait_for(job, "Running")).metadata == result.metadata, "it has run"
    assert (await client.jobs.status("job")).conditions


async def test_waiting_for_what_does_not_come(operator: Operator, client: AsyncClient, cluster: Cluster) -> None:
    pods = await Pods.on(cluster)
    spec = runtime_spec()
    spec["template"]["spec"]["replicatedJobs"] = [replicated_job()]
    spec["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["backoffLimit"] = 0
    await client.apply(runtime("rt", cluster.namespace, spec=spec))
    failing = await client.jobs.create(train_job("failing", cluster.namespace))
    await pods.running("failing")
    await pods.finish("failing", "failed")
    with pytest.raises(JobFailed) as failed:
        await client.jobs.wait_for(failing, timeout=30)
    assert failed.value.progress.state == "Failed"

    going = await client.jobs.create(train_job("going", cluster.namespace))
    await client.jobs.wait_for(going, "Running", timeout=30)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(_outcome(client, going))
        await client.jobs.delete("going")
    assert isinstance(waiting.result(), JobDeleted)
    with pytest.raises(NotFound):
        await client.jobs.wait_for("going")


async def _outcome(client: AsyncClient, job: TrainJob) -> object:
    try:
        return await client.jobs.wait_for(job, timeout=30)
    except JobDeleted as error:
        return error


async def test_what_a_job_runs_with_whatever_becomes_of_the_runtime(
    operator: Operator, client: AsyncClient, cluster: Cluster
) -> None:
    await client.apply(runtime("rt", cluster.namespace, image="acme/train:1"))
    job = await client.jobs.create(train_job("job", cluster.namespace))
    await client.jobs.wait_for(job, "Running", timeout=30)
    assert (await client.snapshots.diff(job)).changed is False
    await cluster.patch(TRAINING_RUNTIME, "rt", {"spec": runtime_spec(image="acme/train:2", num_nodes=4)})
    diff = await client.snapshots.diff(job)
    assert (diff.live, diff.generation, diff.live_generation) == ("same", 1, 2)
    node = "spec.template.spec.replicatedJobs[node].template.spec.template.spec.containers[node]"
    assert [(change.path, change.old, change.new) for change in diff.changes] == [
        ("spec.mlPolicy.numNodes", 1, 4),
        (f"{node}.image", "acme/train:1", "acme/train:2"),
    ]
    await client.runtimes.delete("rt")
    assert (await client.snapshots.diff(job)).live == "deleted"
    # Managed from outside, so that it never gets a snapshot here.
    await client.apply(runtime("short-lived", cluster.namespace))
    await client.jobs.create(
        train_job("orphan", cluster.namespace, "short-lived", managedBy="kueue.x-k8s.io/multikueue", suspend=True)
    )
    assert (await client.jobs.effective_runtime("orphan")).origin == "live"
    await client.runtimes.delete("short-lived")
    listed = {j.metadata.name: r for j, r in await client.jobs.list_with_runtimes() if j.metadata}
    assert {name: found.origin for name, found in listed.items()} == {"job": "snapshot", "orphan": "missing"}
    assert listed["job"].spec == (await client.snapshots.get("job")).spec
    assert (await client.jobs.effective_runtime("orphan")).problem.endswith('"short-lived" not found')
    await client.apply(runtime("rt", cluster.namespace, image="acme/train:1"))
    assert (await client.snapshots.diff("job")).live == "recreated"
    assert (await client.snapshots.diff("job")).changes == ()
    with pytest.raises(NotFound):
        await client.snapshots.diff("orphan")


async def test_users_without_rights_get_the_servers_words(
    client: AsyncClient, plane: Target, admin: Transport, namespace: str
) -> None:
    async with user_with(str(plane.kubeconfig), admin, namespace, "nobody") as transport:
        nobody = AsyncClient(transport, namespace=namespace)
        with pytest.raises(
            Forbidden, match=f"nobody.* cannot list resource .*trainjobs.* in the namespace .*{namespace}"
        ):
            await nobody.jobs.list()
        with pytest.raises(Forbidden):
            async for _ in nobody.jobs.watch():
                pass
        with pytest.raises(Forbidden):
            await nobody.jobs.create(train_job("a", namespace))
    with pytest.raises(Unauthorized):
        async with await AsyncClient.connect(
            kubeconfig=str(plane.kubeconfig), token_provider=lambda: "expired", namespace=namespace
        ) as stranger:
            await stranger.jobs.list()


async def test_the_sync_face_under_a_running_loop(plane: Target, namespace: str) -> None:
    """This test's own loop runs while the sync client is used in its thread, as in a notebook."""
    with Client.connect(kubeconfig=str(plane.kubeconfig), namespace=namespace) as client:
        client.runtimes.apply(runtime("rt", namespace))
        client.jobs.create(train_job("job", namespace, suspend=True))
        assert [job.metadata and job.metadata.name for job in client.jobs.list()] == ["job"]
        with client.jobs.watch(timeout=5) as events:
            assert next(events).type == "ADDED"
        assert client.server_version()["major"] == "1"
