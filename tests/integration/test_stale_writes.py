# SPDX-License-Identifier: Apache-2.0
"""What was looked at may be gone, or another one, when it is written: nothing is made anew, nothing is changed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from support.cluster import Cluster
from trainsnap_api.transport import NotFound, Resource, Transport
from trainsnap_api.transport.resources import CONFIG_MAP, JOB_SET, SECRET
from trainsnap_controller.blocked import CacheBehind
from trainsnap_controller.reconcile.act import Writer
from trainsnap_controller.runtime.component import Component, Plan
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.runtime.observed import Need, Observed

pytestmark = [pytest.mark.anyio, pytest.mark.api]

JSON = dict[str, Any]
Write = Callable[[Writer, Job, JSON], Awaitable[None]]


def paused(cluster: Cluster) -> Job:
    metadata = {"name": "job", "namespace": cluster.namespace, "uid": "of-the-job", "generation": 1}
    return Job.from_json({"metadata": metadata, "spec": {"suspend": True}})


def document(cluster: Cluster, *, suspend: bool) -> JSON:
    pod = {"spec": {"restartPolicy": "Never", "containers": [{"name": "node", "image": "acme/train:1"}]}}
    jobs = [{"name": "node", "template": {"spec": {"template": pod}}}]
    return {"apiVersion": JOB_SET.api_version, "kind": JOB_SET.kind,
            "metadata": {"name": "job", "namespace": cluster.namespace},
            "spec": {"suspend": suspend, "replicatedJobs": jobs}}  # fmt: skip


def component(cluster: Cluster, resource: Resource, **content: Any) -> Component:
    metadata = {"name": "job", "namespace": cluster.namespace}
    kind = {"apiVersion": resource.api_version, "kind": resource.kind}
    return Component.of(resource, {**kind, "metadata": metadata, **content})


async def update(writer: Writer, job: Job, live: JSON) -> None:
    wanted = Component.of(JOB_SET, {**live, "metadata": {k: live["metadata"][k] for k in ("name", "namespace")},
                                    "spec": {**live["spec"], "suspend": True}})  # fmt: skip
    seen = Observed({Need(JOB_SET, job.namespace, job.name): live})
    await writer.carry_out(job, Plan((wanted,)), seen)


async def pause(writer: Writer, job: Job, live: JSON) -> None:
    await writer.follow_suspend(job, live)


def writer(api: Transport) -> Writer:
    return Writer(api, lambda resource, answer: None, lambda job, differences: None)


EITHER = pytest.mark.parametrize("write", [update, pause], ids=["applied", "paused by one field"])


@EITHER
async def test_what_is_still_there_is_changed(cluster: Cluster, admin: Transport, write: Write) -> None:
    live = await admin.apply(JOB_SET, document(cluster, suspend=False), field_manager="trainer")
    await write(writer(admin), paused(cluster), live)
    found = await admin.get(JOB_SET, "job", cluster.namespace)
    assert found["spec"]["suspend"] is True
    assert found["metadata"]["uid"] == live["metadata"]["uid"]
    owned = [entry["fieldsV1"].get("f:metadata", {}) for entry in found["metadata"]["managedFields"]]
    assert not any("f:uid" in fields for fields in owned)


@EITHER
async def test_what_has_vanished_is_not_made_anew(cluster: Cluster, admin: Transport, write: Write) -> None:
    live = await admin.apply(JOB_SET, document(cluster, suspend=False), field_manager="trainer")
    await admin.delete(JOB_SET, "job", cluster.namespace)
    with pytest.raises(CacheBehind, match=f"JobSet {cluster.namespace}/job was changed or removed meanwhile"):
        await write(writer(admin), paused(cluster), live)
    with pytest.raises(NotFound):
        await admin.get(JOB_SET, "job", cluster.namespace)


@EITHER
async def test_what_was_replaced_is_left_alone(cluster: Cluster, admin: Transport, write: Write) -> None:
    live = await admin.apply(JOB_SET, document(cluster, suspend=False), field_manager="trainer")
    await admin.delete(JOB_SET, "job", cluster.namespace)
    other = await admin.apply(JOB_SET, document(cluster, suspend=False), field_manager="somebody")
    with pytest.raises(CacheBehind):
        await write(writer(admin), paused(cluster), live)
    assert await admin.get(JOB_SET, "job", cluster.namespace) == other


CHILDREN = [
    pytest.param(JOB_SET, {}, id="a custom resource"),
    pytest.param(CONFIG_MAP, {"data": {"a": "1"}}, id="a ConfigMap"),
    pytest.param(SECRET, {"stringData": {"a": "1"}}, id="a Secret"),
]


@pytest.mark.parametrize(("resource", "content"), CHILDREN)
async def test_what_is_not_there_is_made(cluster: Cluster, admin: Transport, resource: Resource, content: JSON) -> None:
    wanted = component(cluster, resource, **(content or {"spec": document(cluster, suspend=True)["spec"]}))
    await writer(admin).carry_out(paused(cluster), Plan((wanted,)), Observed())
    found = await admin.get(resource, "job", cluster.namespace)
    assert [entry["operation"] for entry in found["metadata"]["managedFields"]] == ["Apply"]
    assert not any("f:resourceVersion" in str(entry) for entry in found["metadata"]["managedFields"])


@pytest.mark.parametrize("same", [False, True], ids=["another content", "the same content"])
@pytest.mark.parametrize(("resource", "content"), CHILDREN)
async def test_what_has_just_appeared_is_not_taken_over(
    cluster: Cluster, admin: Transport, resource: Resource, content: JSON, same: bool
) -> None:
    wanted = component(cluster, resource, **(content or {"spec": document(cluster, suspend=True)["spec"]}))
    other = wanted.document()
    if not same:
        other = {**other, "metadata": {**other["metadata"], "labels": {"whose": "theirs"}}}
    theirs = await admin.apply(resource, other, field_manager="somebody")
    with pytest.raises(CacheBehind, match=f"{resource.kind} {cluster.namespace}/job was changed or removed meanwhile"):
        await writer(admin).carry_out(paused(cluster), Plan((wanted,)), Observed())
    assert await admin.get(resource, "job", cluster.namespace) == theirs
