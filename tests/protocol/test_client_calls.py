# SPDX-License-Identifier: Apache-2.0
"""What the client sends, and what becomes of answers that no healthy API server of our version would give."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.loopback import pair
from support.misbehaving import reply, silence, status
from support.objects import runtime, train_job
from trainsnap_api.client import (
    AsyncClient,
    BadRequest,
    Client,
    Conflict,
    Forbidden,
    Invalid,
    JobDeleted,
    NotUnderstood,
    TimedOut,
    UnknownFields,
)
from trainsnap_api.models import (
    ClusterTrainingRuntime,
    Model,
    ObjectMeta,
    RuntimeRef,
    TrainingRuntime,
    TrainJob,
    TrainJobSpec,
)

pytestmark = pytest.mark.anyio

JOBS = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/ns/trainjobs"
STORED = {**train_job("a", "ns"), "newTopLevel": {"x": None}}
UNKNOWN = (
    'TrainJob in version "v1alpha1" cannot be handled as a TrainJob: strict decoding error: '
    'unknown field "spec.old", unknown field "spec.trainer.older"'
)


async def test_every_write_carries_its_options() -> None:
    async with pair() as (server, transport):
        server.then(reply(STORED))
        jobs = AsyncClient(transport, namespace="ns", field_manager="me").jobs
        job = TrainJob(metadata=ObjectMeta(name="a"), spec=TrainJobSpec(runtime_ref=RuntimeRef(name="r")))
        await jobs.create(job, dry_run=True)
        await jobs.apply(job, force=True, field_manager="other")
        await jobs.replace(job, field_validation="Warn")
        await jobs.patch("a", TrainJob(spec=TrainJobSpec(suspend=True)))
        await jobs.patch("a", [{"op": "remove", "path": "/spec/trainer"}])
        await jobs.patch_status("a", {"conditions": []})
        await jobs.delete("a", uid="u", dry_run=True)
        sent = [(seen.method, seen.path, seen.query, seen.json()) for seen in server.seen]
    body = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}
    full = {"metadata": {"name": "a", "namespace": "ns"}, "spec": {"runtimeRef": {"name": "r"}}, **body}
    strict = {"fieldManager": "me", "fieldValidation": "Strict"}
    assert sent == [
        ("POST", JOBS, {**strict, "dryRun": "All"}, full),
        ("PATCH", f"{JOBS}/a", {"fieldManager": "other", "fieldValidation": "Strict", "force": "true"}, full),
        ("PUT", f"{JOBS}/a", {"fieldManager": "me", "fieldValidation": "Warn"}, full),
        ("PATCH", f"{JOBS}/a", strict, {"spec": {"suspend": True}}),
        ("PATCH", f"{JOBS}/a", strict, [{"op": "remove", "path": "/spec/trainer"}]),
        ("PATCH", f"{JOBS}/a/status", strict, {"status": {"conditions": []}}),
        ("DELETE", f"{JOBS}/a", {},
         {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"], "preconditions": {"uid": "u"}}),
    ]  # fmt: skip


async def test_fields_of_a_newer_server_are_kept() -> None:
    async with pair() as (server, transport):
        server.then(reply(STORED))
        job = await AsyncClient(transport, namespace="ns").jobs.get("a")
    assert job.dump() == STORED


async def test_fields_that_an_older_server_does_not_know_are_named() -> None:
    async with pair() as (server, transport):
        server.then(status(400, "BadRequest", UNKNOWN))
        with pytest.raises(UnknownFields) as error:
            await AsyncClient(transport, namespace="ns").jobs.create(train_job("a", "ns"))
    assert error.value.fields == ("spec.old", "spec.trainer.older")
    assert str(error.value) == UNKNOWN


@pytest.mark.parametrize(
    ("answer", "want", "message"),
    [
        (status(400, "BadRequest", "something else"), BadRequest, "something else"),
        (status(409, "Conflict", "has been modified"), Conflict, "has been modified"),
        (
            status(422, "Invalid", "no", details={"causes": [{"field": "spec.x", "reason": "R", "message": "M"}]}),
            Invalid,
            "no",
        ),
        (reply({"spec": {"runtimeRef": []}}), NotUnderstood, "TrainJob: spec.runtimeRef: Input should be"),
    ],
)
async def test_refusals_are_typed(answer: Any, want: type[Exception], message: str) -> None:
    async with pair() as (server, transport):
        server.then(answer)
        with pytest.raises(want, match=message) as error:
            await AsyncClient(transport, namespace="ns").jobs.create(train_job("a", "ns"))
    if isinstance(error.value, Invalid):
        assert [(cause.field, cause.message) for cause in error.value.causes] == [("spec.x", "M")]


@pytest.mark.parametrize(
    ("obj", "error", "message"),
    [
        (runtime("a", "ns"), ValueError, "kind is 'TrainingRuntime', 'TrainJob' is needed"),
        (TrainingRuntime(), TypeError, "a TrainJob or a mapping is needed, not TrainingRuntime"),
        ({**train_job("a", "ns"), "apiVersion": "v2"}, ValueError, "apiVersion is 'v2'"),
    ],
)
async def test_an_object_of_another_kind_is_not_sent(obj: Any, error: type[Exception], message: str) -> None:
    async with pair() as (server, transport):
        with pytest.raises(error, match=message):
            await AsyncClient(transport, namespace="ns").jobs.create(obj)
        assert server.seen == []


async def test_a_wrong_namespace_is_not_sent() -> None:
    async with pair() as (server, transport):
        client = AsyncClient(transport, namespace="ns")
        with pytest.raises(
            ValueError, match=r"metadata\.namespace is 'other', but the object is sent to namespace 'x'"
        ):
            await client.jobs.create(train_job("a", "other"), namespace="x")
        with pytest.raises(ValueError, match="ClusterTrainingRuntime has no namespace"):
            await client.cluster_runtimes.get("a", "ns")
        with pytest.raises(ValueError, match="ClusterTrainingRuntime has no namespace"):
            await client.cluster_runtimes.apply(runtime("a"), namespace="ns")
        with pytest.raises(ValueError, match="cannot both be given"):
            await client.jobs.list("ns", all_namespaces=True)
        with pytest.raises(ValueError, match="not a state of a job: Done"):
            await client.jobs.wait_for("a", "Done")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="Model is not the class of a kind of this client"):
            client.kind(Model)  # type: ignore[type-var]
        assert server.seen == []
        assert client.in_namespace("b").namespace == "b"
        assert type(client.kind(TrainJob)) is type(client.jobs)
        server.then(reply(runtime("r")))
        assert isinstance(await client.apply(runtime("r")), ClusterTrainingRuntime)
        assert server.seen[-1].path.endswith("/clustertrainingruntimes/r")


async def test_an_objects_own_namespace_wins_over_the_clients() -> None:
    async with pair() as (server, transport):
        server.then(reply(STORED))
        jobs = AsyncClient(transport, namespace="mine").jobs
        for obj in (train_job("a", "ns"), TrainJob.model_validate(train_job("a", "ns"))):
            await jobs.create(obj)
            await jobs.apply(obj)
        assert {seen.path for seen in server.seen} == {JOBS, f"{JOBS}/a"}


async def test_a_time_limit_is_for_the_whole_call() -> None:
    async with pair() as (server, transport):
        server.then(silence)
        with pytest.raises(TimedOut, match=r"get a of trainjobs\.trainer\.kubeflow\.org: not within 0\.1 s"):
            await AsyncClient(transport, namespace="ns").jobs.get("a", timeout=0.1)


async def test_what_reading_a_job_takes_is_part_of_the_time_to_wait() -> None:
    async with pair() as (server, transport):
        stored = {**STORED, "metadata": {**STORED["metadata"], "resourceVersion": "1"}}
        server.then(reply(stored), status(403, "Forbidden", "no"))
        client = AsyncClient(transport, namespace="ns", clock=lambda: 130.0 if server.seen else 100.0)
        with pytest.raises(Forbidden):
            await client.jobs.wait_for("a", timeout=50)
        assert server.seen[1].query["timeoutSeconds"] == "21"


async def test_pages_and_the_iterator_read_page_by_page() -> None:
    def page(name: str, more: str) -> Any:
        return reply({"metadata": {"resourceVersion": "9", "continue": more}, "items": [train_job(name, "ns")]})

    async with pair() as (server, transport):
        server.then(page("a", "t1"), page("b", "t2"), page("c", ""), page("a", "t1"), page("b", ""))
        jobs = AsyncClient(transport, namespace="ns").jobs
        names = []
        async for job in jobs.iterate(page_size=1):
            assert job.metadata is not None
            names.append((job.metadata.name, len(server.seen)))
        assert names == [("a", 1), ("b", 2), ("c", 3)]
        assert [(len(p.items), p.resource_version) async for p in jobs.pages(page_size=1)] == [(1, "9"), (1, "9")]
        assert server.seen[1].query == {"limit": "1", "continue": "t1"}


async def test_a_replaced_job_is_not_followed() -> None:
    async with pair() as (server, transport):
        server.then(reply({**STORED, "metadata": {**STORED["metadata"], "uid": "new", "resourceVersion": "1"}}))
        old = TrainJob(metadata=ObjectMeta(name="a", namespace="ns", uid="old"))
        with pytest.raises(JobDeleted, match="replaced by another one"):
            await AsyncClient(transport, namespace="ns").jobs.wait_for(old)


async def test_the_sync_face_says_the_same() -> None:
    async with pair() as (server, _):
        server.then(reply(STORED), status(400, "BadRequest", UNKNOWN), silence)

        def use() -> list[Any]:
            with Client.connect(kubeconfig=server.kubeconfig(token="t"), namespace="ns") as client:
                got: list[Any] = [client.jobs.get("a").dump(), client.namespace, client.server]
                with pytest.raises(UnknownFields):
                    client.jobs.create(train_job("a", "ns"))
                with pytest.raises(TimedOut):
                    client.jobs.get("a", timeout=0.1)
                return got

        assert await asyncio.to_thread(use) == [STORED, "ns", server.url]
