# SPDX-License-Identifier: Apache-2.0
"""What callers get wrong is said in one line, before anything is sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import MappingProxyType
from typing import Any

import pytest

from support.loopback import pair
from support.misbehaving import reply
from support.objects import train_job
from trainsnap_api.client import AsyncClient, InvalidName, Listing
from trainsnap_api.models import ObjectMeta, RuntimeRef, TrainerStatus, TrainJob, TrainJobSpec, TrainJobStatus

pytestmark = pytest.mark.anyio

JOB = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/ns/trainjobs/a"
Call = Callable[[AsyncClient], Awaitable[object]]
WANT = "a TrainJob or a mapping is needed, not "


async def first(stream: Any) -> None:
    async for _ in stream:
        return


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda client, name: client.jobs.get(name), id="get"),
        pytest.param(lambda client, name: client.jobs.status(name), id="status"),
        pytest.param(lambda client, name: client.jobs.patch(name, {}), id="patch"),
        pytest.param(lambda client, name: client.jobs.patch_status(name, {}), id="patch_status"),
        pytest.param(lambda client, name: client.jobs.delete(name), id="delete"),
        pytest.param(lambda client, name: client.jobs.delete(name, dry_run=True), id="delete, dry run"),
        pytest.param(lambda client, name: client.cluster_runtimes.delete(name), id="delete of a cluster kind"),
        pytest.param(lambda client, name: client.snapshots.get(name), id="snapshot"),
    ],
)
@pytest.mark.parametrize("name", [None, 5, TrainJob(), ["a"]])
async def test_what_is_no_name_is_never_all_objects(
    call: Callable[[AsyncClient, Any], Awaitable[object]], name: Any
) -> None:
    """The path of an object without its name is that of the collection: a DELETE of it deletes every job."""
    async with pair() as (server, transport):
        with pytest.raises(TypeError, match=f"name must be a string, not {type(name).__name__}"):
            await call(AsyncClient(transport, namespace="ns"), name)
        assert server.seen == []


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        pytest.param(lambda c: c.jobs.create(None), TypeError, WANT + "NoneType", id="create nothing"),
        pytest.param(lambda c: c.jobs.create([]), TypeError, WANT + "list", id="create a list"),
        pytest.param(lambda c: c.jobs.replace(TrainJobSpec()), TypeError, WANT + "TrainJobSpec", id="replace"),
        pytest.param(
            lambda c: c.jobs.apply({"metadata": "a"}), TypeError, "metadata must be a mapping, not str", id="metadata"
        ),
        pytest.param(lambda c: c.jobs.create({"metadata": []}), TypeError, "must be a mapping, not list", id="empty"),
        pytest.param(lambda c: c.jobs.patch("a", "{}"), TypeError, "list of operations is needed, not str", id="patch"),
        pytest.param(lambda c: c.jobs.patch("a", None), TypeError, "operations is needed, not NoneType", id="no patch"),
        pytest.param(lambda c: c.apply("x"), TypeError, "or a mapping is needed, not str", id="apply text"),
        pytest.param(lambda c: c.apply({}), ValueError, "needs kind and apiVersion", id="apply without a kind"),
        pytest.param(
            lambda c: c.apply({"kind": "Pod", "apiVersion": "v1"}),
            ValueError,
            "v1 Pod is not a kind",
            id="a Pod",
        ),
        pytest.param(lambda c: c.apply(TrainJobSpec()), ValueError, "TrainJobSpec is not the class", id="apply a spec"),
        pytest.param(lambda c: c.jobs.wait_for(None), TypeError, "its name is needed, not NoneType", id="wait, none"),
        pytest.param(lambda c: c.jobs.wait_for({}), TypeError, "its name is needed, not dict", id="wait, mapping"),
        pytest.param(lambda c: c.jobs.wait_for(TrainJob()), ValueError, "the job has no name", id="wait, no name"),
        pytest.param(lambda c: c.jobs.wait_for("a", ["Complete"]), ValueError, "not a state of a job", id="states"),
        pytest.param(lambda c: c.jobs.suspend(None), TypeError, "its name is needed, not NoneType", id="pause none"),
        pytest.param(lambda c: c.jobs.resume(TrainJob()), ValueError, "the job has no name", id="resume, no name"),
        pytest.param(lambda c: c.jobs.effective_runtime(None), TypeError, "its name is needed", id="no runtime"),
        pytest.param(lambda c: c.snapshots.diff(5), TypeError, "its name is needed, not int", id="diff"),
        pytest.param(
            lambda c: first(c.jobs.watch(since=[])), TypeError, "a Listing or a resourceVersion is needed", id="a list"
        ),
        pytest.param(lambda c: first(c.jobs.watch(since="abc")), ValueError, "no resourceVersion", id="no version"),
        pytest.param(lambda c: first(c.jobs.watch(since="")), ValueError, "no resourceVersion", id="empty version"),
        pytest.param(lambda c: first(c.jobs.watch(since=Listing())), ValueError, "no resource_version", id="made list"),
        pytest.param(lambda c: c.jobs.list(""), InvalidName, "namespace '' cannot be", id="empty namespace"),
        pytest.param(lambda c: c.in_namespace("").jobs.list(), InvalidName, "namespace ''", id="in none"),
        pytest.param(lambda c: c.jobs.create({}, namespace=""), ValueError, "namespace is needed", id="create there"),
    ],
)
async def test_misuse_is_named_before_anything_is_sent(call: Call, error: type[Exception], message: str) -> None:
    async with pair() as (server, transport):
        with pytest.raises(error, match=message):
            await call(AsyncClient(transport, namespace="ns"))
        assert server.seen == []


async def test_mappings_may_hold_models() -> None:
    async with pair() as (server, transport):
        server.then(reply(train_job("a", "ns")))
        jobs = AsyncClient(transport, namespace="ns").jobs
        spec = TrainJobSpec(runtime_ref=RuntimeRef(name="r"))
        await jobs.create({"metadata": ObjectMeta(name="a"), "spec": spec})
        await jobs.patch("a", {"spec": TrainJobSpec(suspend=True)})
        await jobs.patch("a", [{"op": "replace", "path": "/spec", "value": MappingProxyType({"x": (spec,)})}])
        await jobs.patch_status("a", TrainJobStatus(trainer_status=TrainerStatus(progress_percentage=5)))
        await jobs.patch_status("a", {"trainerStatus": TrainerStatus(progress_percentage=6)})
        sent = [seen.json() for seen in server.seen]
    assert sent[0]["spec"] == {"runtimeRef": {"name": "r"}}
    assert sent[0]["metadata"] == {"name": "a", "namespace": "ns"}
    assert sent[1:] == [
        {"spec": {"suspend": True}},
        [{"op": "replace", "path": "/spec", "value": {"x": [{"runtimeRef": {"name": "r"}}]}}],
        {"status": {"trainerStatus": {"progressPercentage": 5}}},
        {"status": {"trainerStatus": {"progressPercentage": 6}}},
    ]


async def test_a_job_is_paused_by_its_name_or_as_that_very_one() -> None:
    stored = train_job("a", "ns")
    stored["metadata"]["uid"] = "u1"
    async with pair() as (server, transport):
        server.then(reply(stored))
        jobs = AsyncClient(transport, namespace="other").jobs
        await jobs.suspend("a", "ns")
        await jobs.suspend(TrainJob.model_validate(stored))
        await jobs.resume(TrainJob.model_validate(stored), dry_run=True)
        assert [(seen.path, seen.json()) for seen in server.seen] == [
            (JOB, {"spec": {"suspend": True}}),
            (JOB, {"spec": {"suspend": True}, "metadata": {"uid": "u1"}}),
            (JOB, {"spec": {"suspend": False}, "metadata": {"uid": "u1"}}),
        ]


async def test_a_derived_class_may_be_sent_and_read() -> None:
    class MyJob(TrainJob):
        @property
        def image(self) -> str | None:
            return self.spec.trainer.image if self.spec and self.spec.trainer else None

    async with pair() as (server, transport):
        server.then(reply(train_job("a", "ns", trainer={"image": "i"})))
        client = AsyncClient(transport, namespace="ns")
        read = await client.kind(MyJob).get("a")
        assert (type(read), read.image) == (MyJob, "i")
        await client.apply(read)
        await client.jobs.replace(read)
        assert {seen.path for seen in server.seen} == {JOB}


async def test_a_name_is_no_part_of_a_selector() -> None:
    async with pair() as (server, transport):
        server.then(reply({"metadata": {"resourceVersion": "1"}, "items": []}))
        async for _ in AsyncClient(transport, namespace="ns").jobs.watch(name="a,b=c\\", timeout=0.05):
            pass
        assert server.seen[0].query["fieldSelector"] == "metadata.name=a\\,b\\=c\\\\"
