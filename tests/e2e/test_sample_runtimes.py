# SPDX-License-Identifier: Apache-2.0
"""Every sample runtime on the full plane: accepted by JobSet, started part by part, and brought to completion."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from support.cluster import Cluster, eventually
from support.history import events_about, following
from support.objects import condition, train_job
from support.operator import Operator
from support.pods import FINISH, Pods
from support.samples import samples
from trainsnap_api.transport import Resource
from trainsnap_api.transport.resources import (
    CLUSTER_TRAINING_RUNTIME,
    JOB_SET,
    POD,
    SERVICE_ACCOUNT,
    TRAIN_JOB,
    TRAINING_RUNTIME_SNAPSHOT,
)

pytestmark = [pytest.mark.anyio, pytest.mark.full]

JSON = dict[str, Any]
VOLUME = Resource("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
PART = "jobset.sigs.k8s.io/replicatedjob-name"


@dataclass(frozen=True)
class Case:
    """A job of a sample. ``steps``: which parts run at the same time, with how many pods, one step after the other.

    A part that is not in the next step ends with its own. ``end``: the part whose completion ends the job when others
    go on. ``env``: variables that a container ``node`` of
    the last step must have, ``command`` how its command must begin.
    """

    spec: JSON
    steps: list[dict[str, int]]
    end: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    command: list[str] = field(default_factory=list)


def torchtune(recipe: str, config: str) -> Case:
    """Both initializers, then the trainer with a recipe by its resources."""
    return Case(
        {"trainer": {"command": ["tune", "run"], "resourcesPerNode": {"limits": {"nvidia.com/gpu": 1}}}},
        [{"dataset-initializer": 1, "model-initializer": 1}, {"node": 1}],
        command=["tune", "run", recipe, "--config", config],
    )


def mpi() -> Case:
    """A node that answers, then the launcher, which is a node too; the node's daemon is still there at the end."""
    return Case(
        {"trainer": {"numNodes": 2, "command": ["mpirun", "hostname"]}},
        [{"node": 1}, {"node": 1, "launcher": 1}],
        end="launcher",
        env={"OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile"},
        command=["mpirun", "hostname"],
    )


CASES = {
    "torch-distributed": Case(
        {"trainer": {"numNodes": 2, "command": ["torchrun", "train.py"]}},
        [{"node": 2}],
        env={"PET_NNODES": "2", "PET_MASTER_ADDR": "job-node-0-0.job"},
        command=["torchrun", "train.py"],
    ),
    "torch-distributed-with-cache": Case(
        {"trainer": {"numNodes": 2}, "initializer": {"dataset": {"storageUri": "cache://acme/table"}}},
        [{"dataset-initializer": 1}, {"node": 2}],
        env={"PET_NNODES": "2"},
    ),
    "jax-distributed": Case(
        {"trainer": {"numNodes": 2}},
        [{"node": 2}],
        env={"JAX_NUM_PROCESSES": "2", "JAX_COORDINATOR_ADDRESS": "job-node-0-0.job:29500"},
    ),
    "xgboost-distributed": Case(
        {"trainer": {"numNodes": 2}},
        [{"node": 2}],
        env={"DMLC_NUM_WORKER": "2", "DMLC_TRACKER_URI": "job-node-0-0.job"},
    ),
    "deepspeed-distributed": mpi(),
    "mlx-distributed": mpi(),
    "flux-distributed": Case(
        {"trainer": {"numNodes": 2, "numProcPerNode": 1, "command": ["flux", "getattr", "rank"]}},
        [{"node": 2}],
        command=["/bin/bash", "/etc/flux-config/entrypoint.sh", "flux getattr rank"],
    ),
    "torchtune-llama3.2-1b": torchtune("full_finetune_single_device", "llama3_2/1B_full_single_device"),
    "torchtune-llama3.2-3b": torchtune("full_finetune_single_device", "llama3_2/3B_full_single_device"),
    "torchtune-qwen2.5-1.5b": torchtune("full_finetune_single_device", "qwen2_5/1.5B_full_single_device"),
}


@dataclass(frozen=True)
class Parts:
    """The pods of one job by the replicated job that they belong to."""

    cluster: Cluster
    pods: Pods

    async def running(self) -> dict[str, int]:
        """How many pods of each part run and are ready; parts that end are not counted."""
        found: dict[str, int] = {}
        for pod in await self.pods.of("job"):
            conditions = {item["type"]: item["status"] for item in pod["status"].get("conditions", [])}
            if pod["status"].get("phase") == "Running" and conditions.get("Ready") == "True":
                part = pod["metadata"]["labels"][PART]
                found[part] = found.get(part, 0) + 1
        return found

    async def until(self, want: dict[str, int]) -> list[JSON]:
        """Await that exactly these parts run."""
        await eventually(self.running, lambda seen: seen == want, what=f"running pods {want}", seconds=30)
        return await self.pods.of("job")

    async def finish(self, *parts: str) -> None:
        """Let the pods of some parts succeed."""
        for pod in await self.pods.of("job"):
            if pod["metadata"]["labels"][PART] in parts:
                body = {"metadata": {"annotations": {FINISH: "succeeded"}}}
                await self.cluster.patch(POD, pod["metadata"]["name"], body)


@pytest.fixture(params=CASES)
async def sample(request: pytest.FixtureRequest, operator: Operator, cluster: Cluster) -> AsyncIterator[str]:
    """The name of a sample that is in the cluster, with what it wants there."""
    await Pods.on(cluster)  # a user's cluster may have runtimes of these names
    name = str(request.param)
    runtime = samples()[name]
    await cluster.create(runtime)
    if "cache" in name:
        account = {"name": "kubeflow-trainer-cache-initializer", "namespace": cluster.namespace}
        await cluster.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
        await cluster.until(SERVICE_ACCOUNT, account["name"])
    if claims := runtime["spec"]["template"]["spec"].get("volumeClaimPolicies"):
        (template,) = claims[0]["templates"]
        await cluster.api.create(VOLUME, volume(cluster.namespace, template))
    try:
        yield name
    finally:
        await cluster.delete(CLUSTER_TRAINING_RUNTIME, name)
        if claims:
            await cluster.delete(VOLUME, cluster.namespace)


def volume(name: str, claim: JSON) -> JSON:
    """A volume that a claim of JobSet's making binds to; pods with a claim are not scheduled before."""
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": claim["spec"]["resources"]["requests"],
            "accessModes": claim["spec"]["accessModes"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": "/nowhere"},
            "claimRef": {"namespace": name, "name": f"{claim['metadata']['name']}-job"},
        },
    }


async def test_a_job_of_a_sample_runs_to_completion(sample: str, cluster: Cluster) -> None:
    case = CASES[sample]
    parts = Parts(cluster, await Pods.on(cluster))
    async with following(cluster, TRAIN_JOB) as history:
        await cluster.create(train_job("job", cluster.namespace, sample, kind="ClusterTrainingRuntime", **case.spec))
        for step, following_step in zip(case.steps, [*case.steps[1:], None], strict=True):
            pods = await parts.until(step)
            if following_step is None:
                check_containers(pods, case)
                await parts.finish(*([case.end] if case.end else step))
            else:
                await parts.finish(*(step.keys() - following_step.keys()))
        done = await cluster.until(TRAIN_JOB, "job", lambda seen: condition(seen, "Complete"), seconds=30)
    assert history.conditions("job") == {("Complete", "True", "AllJobsCompleted")}
    assert await events_about(cluster, "job") == []
    # The part that succeeded last is in the counts, and nothing failed.
    counts = {item["name"]: item for item in done["status"]["jobsStatus"]}
    assert counts[case.end or "node"]["succeeded"] == 1
    assert all(item["failed"] == 0 for item in counts.values())
    snapshot = await cluster.get(TRAINING_RUNTIME_SNAPSHOT, "job")
    assert (snapshot["source"]["name"], snapshot["source"]["origin"]) == (sample, "Runtime")
    assert (await cluster.get(JOB_SET, "job"))["spec"]["suspend"] is False


def check_containers(pods: list[JSON], case: Case) -> None:
    """What reached the containers of the part that ends the job."""
    last = [pod for pod in pods if pod["metadata"]["labels"][PART] == (case.end or "node")]
    for pod in last:
        (container,) = (item for item in pod["spec"]["containers"] if item["name"] == "node")
        env = {item["name"]: item.get("value") for item in container.get("env", [])}
        assert case.env.items() <= env.items()
        assert container.get("command", [])[: len(case.command)] == case.command
