# SPDX-License-Identifier: Apache-2.0
"""Snapshots that are the job's but do not say so, and runtimes of which none is taken.

Capture itself is tested on an API server.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from trainsnap_api.transport import Resource
from trainsnap_api.transport.resources import TRAIN_JOB
from trainsnap_controller.blocked import Blocked
from trainsnap_controller.runtime.job import Job, RuntimeRef
from trainsnap_controller.snapshot.capture import Snapshots
from trainsnap_controller.snapshot.document import Origin, snapshot_of

pytestmark = pytest.mark.anyio

JSON = dict[str, Any]
TRAINJOB: JSON = {"metadata": {"name": "job", "namespace": "team", "uid": "u1"}}
JOB = Job.from_json(TRAINJOB)
AUDITOR: JSON = {"apiVersion": "v1", "kind": "ConfigMap", "name": "audit", "uid": "a1"}


class Server:
    """Holds the TrainJob and one snapshot, and remembers what it is asked to change."""

    def __init__(self, snapshot: JSON) -> None:
        self.snapshot = snapshot
        self.patches: list[JSON] = []

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> JSON:
        return TRAINJOB if resource is TRAIN_JOB else self.snapshot

    async def merge_patch(
        self, resource: Resource, name: str, namespace: str | None, body: JSON, *, field_manager: str
    ) -> JSON:
        self.patches.append(body)
        return {**self.snapshot, "metadata": {**self.snapshot["metadata"], **body["metadata"]}}

    async def create(self, *args: Any, **options: Any) -> JSON:
        raise AssertionError("nothing is to be made")

    async def delete(self, *args: Any, **options: Any) -> None:
        raise AssertionError("nothing is to be removed")


async def unchecked(runtime: JSON) -> None:
    raise AssertionError("nothing is to be checked")


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(None, [JOB.owner_reference], id="all were taken off"),
        pytest.param([AUDITOR], [AUDITOR, JOB.owner_reference], id="those of others stay"),
        pytest.param(
            [{**JOB.owner_reference, "controller": False}, AUDITOR],
            [AUDITOR, JOB.owner_reference],
            id="ours that does not control is replaced",
        ),
    ],
)
async def test_the_owner_reference_is_put_back(found: list[JSON] | None, want: list[JSON]) -> None:
    runtime = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime", "metadata": {"name": "rt"}}
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    snapshot = snapshot_of(JOB, runtime, origin=Origin.RUNTIME, captured_at=moment)
    snapshot["metadata"] |= {"resourceVersion": "7", "ownerReferences": found}
    server = Server(snapshot)
    remembered: list[JSON] = []
    snapshots = Snapshots(server, lambda namespace, name: snapshot, remembered.append, lambda: moment)
    answer = await snapshots.obtain(JOB, JOB.runtime_ref, None, unchecked)
    assert server.patches == [{"metadata": {"resourceVersion": "7", "ownerReferences": want}}]
    assert remembered == [answer]


SLURM = RuntimeRef("slurm.acme", "SlurmRuntime", "rt")


class Taking(Server):
    async def create(self, resource: Resource, obj: JSON, **options: Any) -> JSON:
        return obj


def of_slurm(spec: JSON) -> Snapshots:
    """With a runtime of a kind that another controller builds from."""
    return Snapshots(
        Taking({"apiVersion": "slurm.acme/v1", "kind": "SlurmRuntime", "metadata": {"name": "rt"}, "spec": spec}),
        lambda namespace, name: None,
        lambda snapshot: None,
        lambda: datetime(2026, 1, 1, tzinfo=UTC),
        opaque_kinds={SLURM.key: Resource("slurm.acme", "v1", "SlurmRuntime", "slurmruntimes")},
    )


async def test_a_runtime_that_nobody_could_read_again_is_refused() -> None:
    deep: JSON = {}
    for _ in range(150):
        deep = {"a": deep}
    with pytest.raises(Blocked, match="SlurmRuntime rt is nested more than 100 levels deep"):
        await of_slurm(deep).obtain(JOB, SLURM, None, unchecked)


async def test_a_runtime_of_another_controller_is_not_judged_by_our_rules() -> None:
    async def judged(_: JSON) -> None:
        raise AssertionError

    spec = {"template": {"spec": {"replicatedJobs": "none"}}}
    assert (await of_slurm(spec).obtain(JOB, SLURM, None, judged))["opaque"] == {"spec": {"spec": spec}}
