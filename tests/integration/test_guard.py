# SPDX-License-Identifier: Apache-2.0
"""The snapshot guard: who may create, change and delete snapshots, whatever rights they have otherwise."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.cluster import Cluster, eventually
from support.identity import service_account, user_with
from support.objects import runtime, train_job
from support.operator import Operator
from support.plane import Target
from trainsnap_api.transport import ApiError, Forbidden, Transport
from trainsnap_api.transport import resources as r
from trainsnap_api.transport.resources import JOB_SET, TRAINING_RUNTIME_SNAPSHOT

pytestmark = [pytest.mark.anyio, pytest.mark.api]

JSON = dict[str, Any]
MARK = "snapshot.trainer.kubeflow.org/break-glass"
MARKED: JSON = {"metadata": {"annotations": {MARK: "ticket 42"}}}


@pytest.fixture
async def snapshot(operator: Operator, cluster: Cluster) -> JSON:
    """The snapshot of a running job called ``job``."""
    await cluster.create(runtime("rt", cluster.namespace))
    await cluster.create(train_job("job", cluster.namespace))
    await cluster.until(JOB_SET, "job")
    return await cluster.get(TRAINING_RUNTIME_SNAPSHOT, "job")


@pytest.fixture
async def editor(snapshot: JSON, plane: Target, admin: Transport, cluster: Cluster) -> AsyncIterator[Cluster]:
    """A user of the namespace with every right on snapshots but the verb break-glass."""
    rules = [
        {
            "apiGroups": [TRAINING_RUNTIME_SNAPSHOT.group],
            "resources": [TRAINING_RUNTIME_SNAPSHOT.plural],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"],
        }
    ]
    role = f"snapshots-{cluster.namespace}"
    metadata = {"name": role}
    await admin.create(
        r.CLUSTER_ROLE,
        {"apiVersion": r.CLUSTER_ROLE.api_version, "kind": "ClusterRole", "metadata": metadata, "rules": rules},
    )
    try:
        async with user_with(str(plane.kubeconfig), admin, cluster.namespace, "editor", role) as api:
            user = Cluster(api, cluster.namespace)
            await _until_allowed(user)
            yield user
    finally:
        await admin.delete(r.CLUSTER_ROLE, role)


async def _until_allowed(user: Cluster) -> None:
    """The authorizer has seen the role."""

    async def look() -> bool:
        try:
            await user.get(TRAINING_RUNTIME_SNAPSHOT, "job")
        except Forbidden:
            return False
        return True

    await eventually(look, bool, what="the role counts")


def copy_of(snapshot: JSON, name: str) -> JSON:
    """A snapshot that somebody made up."""
    metadata = {"name": name, "namespace": snapshot["metadata"]["namespace"]}
    return {**snapshot, "metadata": metadata}


async def test_an_admin_cannot_create_one(snapshot: JSON, cluster: Cluster) -> None:
    with pytest.raises(Forbidden, match="only trainsnap creates a TrainingRuntimeSnapshot"):
        await cluster.create(copy_of(snapshot, "forged"))


async def test_an_admin_cannot_delete_one(snapshot: JSON, cluster: Cluster) -> None:
    with pytest.raises(Forbidden, match="is deleted with its TrainJob, not by hand"):
        await cluster.delete(TRAINING_RUNTIME_SNAPSHOT, "job")
    assert await cluster.get(TRAINING_RUNTIME_SNAPSHOT, "job") == snapshot


async def test_an_admin_cannot_delete_them_all(snapshot: JSON, cluster: Cluster) -> None:
    with pytest.raises(ApiError, match="is deleted with its TrainJob, not by hand"):
        await cluster.api.request("DELETE", TRAINING_RUNTIME_SNAPSHOT.path(cluster.namespace))
    assert await cluster.get(TRAINING_RUNTIME_SNAPSHOT, "job") == snapshot


async def test_break_glass_works_for_those_who_may(snapshot: JSON, cluster: Cluster) -> None:
    await cluster.patch(TRAINING_RUNTIME_SNAPSHOT, "job", MARKED)
    await cluster.delete(TRAINING_RUNTIME_SNAPSHOT, "job")
    # It is gone, and taken anew from the same runtime, since the JobSet says that it is the same.
    again = await cluster.until(
        TRAINING_RUNTIME_SNAPSHOT, "job", lambda found: found["metadata"]["uid"] != snapshot["metadata"]["uid"]
    )
    assert again["spec"] == snapshot["spec"]


async def test_break_glass_only_deletes(snapshot: JSON, cluster: Cluster) -> None:
    await cluster.patch(TRAINING_RUNTIME_SNAPSHOT, "job", MARKED)
    with pytest.raises(ApiError, match="immutable"):
        await cluster.patch(TRAINING_RUNTIME_SNAPSHOT, "job", {"spec": {"mlPolicy": {"numNodes": 9}}})


async def test_an_editor_cannot_break_the_glass(editor: Cluster, cluster: Cluster) -> None:
    with pytest.raises(Forbidden, match="needs the verb break-glass"):
        await editor.patch(TRAINING_RUNTIME_SNAPSHOT, "job", MARKED)
    with pytest.raises(Forbidden, match="not by hand"):
        await editor.delete(TRAINING_RUNTIME_SNAPSHOT, "job")
    # Once somebody who may has set it, the editor's own right to delete is enough.
    await cluster.patch(TRAINING_RUNTIME_SNAPSHOT, "job", MARKED)
    with pytest.raises(Forbidden, match="needs the verb break-glass"):
        await editor.patch(TRAINING_RUNTIME_SNAPSHOT, "job", {"metadata": {"annotations": {MARK: "mine now"}}})
    await editor.delete(TRAINING_RUNTIME_SNAPSHOT, "job")


async def test_anyone_may_close_the_glass_again(editor: Cluster, cluster: Cluster) -> None:
    await cluster.patch(TRAINING_RUNTIME_SNAPSHOT, "job", MARKED)
    await editor.patch(TRAINING_RUNTIME_SNAPSHOT, "job", {"metadata": {"annotations": {MARK: None}}})
    with pytest.raises(Forbidden, match="not by hand"):
        await editor.delete(TRAINING_RUNTIME_SNAPSHOT, "job")


async def test_the_role_for_breaking_the_glass_is_enough(
    snapshot: JSON, plane: Target, admin: Transport, cluster: Cluster
) -> None:
    async with user_with(str(plane.kubeconfig), admin, cluster.namespace, "fireman", "trainsnap-break-glass") as api:
        fireman = Cluster(api, cluster.namespace)
        await _until_allowed(fireman)
        await fireman.patch(TRAINING_RUNTIME_SNAPSHOT, "job", MARKED)
        await fireman.delete(TRAINING_RUNTIME_SNAPSHOT, "job")


async def test_users_of_the_namespace_may_look(
    snapshot: JSON, plane: Target, admin: Transport, cluster: Cluster
) -> None:
    async with user_with(
        str(plane.kubeconfig), admin, cluster.namespace, "viewer", "trainsnap-view", "trainsnap-edit"
    ) as api:
        viewer = Cluster(api, cluster.namespace)
        await _until_allowed(viewer)
        assert await viewer.get(TRAINING_RUNTIME_SNAPSHOT, "job") == snapshot
        with pytest.raises(Forbidden):
            await viewer.patch(TRAINING_RUNTIME_SNAPSHOT, "job", {"metadata": {"labels": {"a": "b"}}})


async def test_the_operator_itself_cannot_edit_one(
    snapshot: JSON, plane: Target, admin: Transport, cluster: Cluster
) -> None:
    async with service_account(str(plane.kubeconfig), admin, "kubeflow-system", "trainsnap") as api:
        with pytest.raises(ApiError, match="immutable"):
            await Cluster(api, cluster.namespace).patch(
                TRAINING_RUNTIME_SNAPSHOT, "job", {"spec": {"mlPolicy": {"numNodes": 9}}}
            )


async def test_a_namespace_that_is_terminating_can_be_emptied(snapshot: JSON, cluster: Cluster) -> None:
    await cluster.api.delete(r.NAMESPACE, cluster.namespace)
    await eventually(
        lambda: cluster.api.get(r.NAMESPACE, cluster.namespace),
        lambda found: found["status"]["phase"] == "Terminating",
        what="the namespace terminates",
    )

    async def deleted() -> bool:
        try:
            await cluster.delete(TRAINING_RUNTIME_SNAPSHOT, "job")
        except Forbidden:
            return False  # the policy's own view of the namespace is a moment behind
        return True

    await eventually(deleted, bool, what="a delete in a terminating namespace passes")
