# SPDX-License-Identifier: Apache-2.0
"""The reference's CRDs are upgraded in place and downgraded again, and nothing that is stored under them changes.

The reference's are stood in for by ours with what differs taken back: no snapshots, its printer columns, its marks,
no categories. Group, version, fields, defaults and rules are the same by the wire contract.
"""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from support.cluster import Cluster, eventually
from support.eras import before_trainsnap
from support.legacy import left_by_reference
from support.objects import runtime, train_job
from support.operator import Operator
from trainsnap_api.transport import NotFound, Transport
from trainsnap_api.transport import resources as r
from trainsnap_api.transport.resources import CLUSTER_TRAINING_RUNTIME, TRAIN_JOB, TRAINING_RUNTIME
from trainsnap_controller.cli import manifests
from trainsnap_controller.cli.install import FIELD_MANAGER, install

pytestmark = [pytest.mark.anyio, pytest.mark.api]

JSON = dict[str, Any]
KINDS = ("TrainJob", "TrainingRuntime", "ClusterTrainingRuntime")
RECORDED = sorted((Path(__file__).parents[1] / "golden" / "legacy-configmaps").glob("*.json"))


def ours() -> list[JSON]:
    """trainsnap's CRDs."""
    return [obj for obj in manifests.base() if obj["kind"] == "CustomResourceDefinition"]


def the_references() -> list[JSON]:
    """What the reference installs in their place."""
    found = []
    for obj in ours():
        crd = copy.deepcopy(obj)
        if crd["spec"]["names"]["kind"] not in KINDS:
            continue
        crd["metadata"]["annotations"] = {"controller-gen.kubebuilder.io/version": "v0.21.0"}
        crd["spec"]["names"].pop("categories", None)
        (version,) = crd["spec"]["versions"]
        version.pop("additionalPrinterColumns", None)
        if crd["spec"]["names"]["kind"] == "TrainJob":
            version["additionalPrinterColumns"] = [
                {"name": "State", "type": "string", "jsonPath": ".status.conditions[-1:].type"},
                {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
            ]
        found.append(crd)
    return found


async def apply(admin: Transport, crds: list[JSON], manager: str) -> None:
    """Apply CRDs, and wait until the API server serves what they say."""
    for crd in crds:
        await admin.apply(r.CUSTOM_RESOURCE_DEFINITION, crd, field_manager=manager)
    want = {"trainingruntimesnapshots"} & {crd["spec"]["names"]["plural"] for crd in crds}

    async def served() -> set[str]:
        answer = (await admin.request("GET", "/apis/trainer.kubeflow.org/v1alpha1")).json()
        return {entry["name"] for entry in answer["resources"]}

    await eventually(served, lambda names: want <= names, what="the CRDs are served")


async def stored(cluster: Cluster, names: list[tuple[Any, str]]) -> list[JSON]:
    """The objects as clients see them."""
    return [await cluster.get(resource, name) for resource, name in names]


@pytest.fixture
async def reference(operator_process: Operator, admin: Transport) -> AsyncIterator[Transport]:
    """The API server with the reference's CRDs and nothing of ours; afterwards as it was."""
    async with before_trainsnap(operator_process, admin):
        await apply(admin, the_references(), "kubectl")
        await admin.delete(r.CUSTOM_RESOURCE_DEFINITION, "trainingruntimesnapshots.trainer.kubeflow.org")

        async def there() -> bool:
            try:
                await admin.get(r.CUSTOM_RESOURCE_DEFINITION, "trainingruntimesnapshots.trainer.kubeflow.org")
            except NotFound:
                return False
            return True

        await eventually(there, lambda found: not found, what="the CRD of snapshots is gone")
        yield admin


@pytest.mark.timeout(300)
async def test_upgraded_in_place_and_downgraded_again(reference: Transport, cluster: Cluster) -> None:
    names: list[tuple[Any, str]] = []
    for number, path in enumerate(RECORDED):
        recorded = json.loads(path.read_text())["runtime"]
        kind, name = recorded["kind"], f"{cluster.namespace}-{number}"
        wanted = runtime(name, cluster.namespace if kind == "TrainingRuntime" else None, spec=recorded["spec"])
        await cluster.create(wanted)
        names.append((TRAINING_RUNTIME if kind == "TrainingRuntime" else CLUSTER_TRAINING_RUNTIME, name))
        spec = {"trainer": {"numNodes": 2, "env": [{"name": "A", "value": "="}]}, "suspend": number % 2 == 0}
        await left_by_reference(cluster, train_job(f"job-{number}", cluster.namespace, name, kind=kind, **spec))
        names.append((TRAIN_JOB, f"job-{number}"))
    status = {"conditions": [{"type": "Suspended", "status": "True", "reason": "Suspended", "message": "m",
                              "lastTransitionTime": "2026-01-05T10:00:00Z"}]}  # fmt: skip
    await cluster.patch(TRAIN_JOB, "job-0", {"status": status}, subresource="status")
    before = await stored(cluster, names)

    await install(reference, ours(), pause=anyio.sleep)
    assert await stored(cluster, names) == before
    columns = await reference.get(r.CUSTOM_RESOURCE_DEFINITION, "trainjobs.trainer.kubeflow.org")
    assert columns["spec"]["versions"][0]["additionalPrinterColumns"][0]["jsonPath"].startswith(".status.conditions[?(")
    assert FIELD_MANAGER in {entry["manager"] for entry in columns["metadata"]["managedFields"]}
    await cluster.patch(TRAIN_JOB, "job-0", {"metadata": {"labels": {"touched": "yes"}}})
    await cluster.create(train_job("ours", cluster.namespace, "any"))
    between = await stored(cluster, [*names, (TRAIN_JOB, "ours")])

    await apply(reference, the_references(), "kubectl")
    assert await stored(cluster, [*names, (TRAIN_JOB, "ours")]) == between
    again = await reference.get(r.CUSTOM_RESOURCE_DEFINITION, "trainjobs.trainer.kubeflow.org")
    assert again["spec"]["versions"][0]["additionalPrinterColumns"][0]["jsonPath"] == ".status.conditions[-1:].type"
    await cluster.patch(TRAIN_JOB, "job-0", {"spec": {"suspend": False}})
