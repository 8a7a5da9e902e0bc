# SPDX-License-Identifier: Apache-2.0
"""What a real API server answers to writes that it refuses is typed the same, whichever way the object was written.

The server has other words, and other codes, for the same fault in a create, a patch and an apply.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from support.cluster import Cluster
from support.objects import runtime, train_job
from support.operator import Operator
from support.plane import Target
from trainsnap_api import AsyncClient, TrainJob
from trainsnap_api.client import Invalid, UnknownFields

pytestmark = [pytest.mark.anyio, pytest.mark.api]

Write = Callable[[AsyncClient, dict[str, Any]], Awaitable[object]]
WRITES: dict[str, Write] = {
    "create": lambda client, job: client.jobs.create(job, dry_run=True),
    "apply": lambda client, job: client.jobs.apply(job, dry_run=True),
    "replace": lambda client, job: client.jobs.replace(job, dry_run=True),
    "merge patch": lambda client, job: client.jobs.patch("job", {"spec": job["spec"]}, dry_run=True),
    "JSON patch": lambda client, job: client.jobs.patch(
        "job", [{"op": "replace", "path": "/spec", "value": job["spec"]}], dry_run=True
    ),
}


@pytest.fixture
async def client(plane: Target, namespace: str) -> AsyncIterator[AsyncClient]:
    async with await AsyncClient.connect(kubeconfig=str(plane.kubeconfig), namespace=namespace, probe=True) as made:
        yield made


@pytest.fixture
async def job(operator: Operator, client: AsyncClient, cluster: Cluster) -> dict[str, Any]:
    """A job that is there; another name for the create."""
    await client.apply(runtime("rt", cluster.namespace))
    return (await client.jobs.create(train_job("job", cluster.namespace, suspend=True))).dump()


def changed(job: dict[str, Any], way: str, **spec: Any) -> dict[str, Any]:
    """The job with another spec; its version where a replace needs it."""
    metadata = {"name": "other" if way == "create" else "job"}
    if way == "replace":
        metadata["resourceVersion"] = job["metadata"]["resourceVersion"]
    return {"metadata": metadata, "spec": {**job["spec"], **spec}}


@pytest.mark.parametrize("way", WRITES)
async def test_a_refusal_has_one_type_for_all_ways_to_write(client: AsyncClient, job: dict[str, Any], way: str) -> None:
    write = WRITES[way]
    with pytest.raises(UnknownFields) as unknown:
        await write(client, changed(job, way, trainer={"imagee": "x"}))
    assert unknown.value.fields == ("spec.trainer.imagee",)
    assert len(str(unknown.value)) < 300
    with pytest.raises(Invalid) as wrong:
        await write(client, changed(job, way, suspend="yes"))
    assert "spec.suspend" in [cause.field for cause in wrong.value.causes]
    twice = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    with pytest.raises(Invalid) as doubled:
        await write(client, changed(job, way, trainer={"env": twice}))
    assert any(cause.field.startswith("spec.trainer.env") for cause in doubled.value.causes)


async def test_a_successor_of_a_job_is_not_paused(client: AsyncClient, job: dict[str, Any]) -> None:
    first = TrainJob.model_validate(job)
    assert (await client.jobs.resume(first, dry_run=True)).dump()["spec"]["suspend"] is False
    assert first.metadata is not None
    first.metadata.uid = "of-an-earlier-one"
    with pytest.raises(Invalid, match="of-an-earlier-one") as refused:
        await client.jobs.resume(first)
    assert {cause.field for cause in refused.value.causes} == {"metadata.uid"}


async def test_a_replace_without_a_version_is_refused(client: AsyncClient, job: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match="must be specified for an update") as refused:
        await client.jobs.replace(changed(job, "apply"))
    assert [cause.field for cause in refused.value.causes] == ["metadata.resourceVersion"]
