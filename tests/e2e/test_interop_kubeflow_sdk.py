# SPDX-License-Identifier: Apache-2.0
"""The published `kubeflow` SDK against our operator, and our client where that SDK gives up."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from support import published
from support.cluster import Cluster, eventually
from support.objects import runtime, train_job
from support.operator import Operator
from support.plane import Target
from support.pods import Pods
from trainsnap_api import AsyncClient
from trainsnap_api.transport.resources import CONFIG_MAP, TRAIN_JOB, TRAINING_RUNTIME

pytestmark = [pytest.mark.anyio, pytest.mark.full, pytest.mark.timeout(600)]

FLOW = Path(__file__).resolve().parents[1] / "support" / "sdk_flow.py"
LABEL = {"trainer.kubeflow.org/framework": "torch"}


@pytest.fixture(scope="session")
def interpreter() -> Path:
    """With the published packages; the first use on a machine installs them."""
    try:
        return published.python()
    except published.NotInstallableError as reason:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"the published packages cannot be installed: {reason}")


async def test_list_train_wait_and_delete(
    interpreter: Path, operator: Operator, cluster: Cluster, plane: Target
) -> None:
    pods = await Pods.on(cluster)
    public = await cluster.api.get(CONFIG_MAP, "kubeflow-trainer-public", "kubeflow-system")
    assert public["data"]["kubeflow_trainer_version"]
    document = runtime("rt", cluster.namespace, torch=True)
    await cluster.create({**document, "metadata": {**document["metadata"], "labels": LABEL}})
    process = await asyncio.create_subprocess_exec(
        # -P: its own folder must not shadow the standard library.
        str(interpreter), "-P", str(FLOW), str(plane.kubeconfig), cluster.namespace, "rt",
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=published.environment(),
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    said: dict[str, str] = {}
    try:
        async with asyncio.timeout(180):
            while line := (await process.stdout.readline()).decode():
                step, _, result = line.strip().partition(": ")
                said[step] = result
                if step == "running":
                    await pods.running(said["train"], 2)
                    await pods.finish(said["train"])
            errors = (await process.stderr.read()).decode()
            assert await process.wait() == 0, errors
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    job = said.pop("train")
    assert "'rt'" in said.pop("runtimes")
    assert said == {
        "runtime": "rt",
        "get": "True",
        "list": "True",
        "running": "Running",
        "complete": "Complete",
        "steps": "['node-0', 'node-1']",
        "deleted": "True",
    }
    assert "version info is not available" not in errors
    await cluster.until_gone(TRAIN_JOB, job)


async def test_a_runtime_deleted_under_a_job_does_not_break_our_client(
    operator: Operator, cluster: Cluster, plane: Target
) -> None:
    """The SDK's list fails as a whole then: it reads the live runtime of every job."""
    await cluster.create(runtime("rt", cluster.namespace))
    await cluster.create(runtime("other", cluster.namespace))
    async with await AsyncClient.connect(kubeconfig=str(plane.kubeconfig), namespace=cluster.namespace) as client:
        for name, reference in (("a", "rt"), ("b", "other")):
            await client.jobs.wait_for(
                await client.jobs.create(train_job(name, cluster.namespace, reference)), "Running", timeout=30
            )
        await cluster.delete(TRAINING_RUNTIME, "rt")
        await eventually(
            lambda: cluster.find(TRAINING_RUNTIME, "rt"), lambda seen: seen is None, what="the runtime is gone"
        )
        assert len(await client.jobs.list()) == 2
        assert [found.origin for _, found in await client.jobs.list_with_runtimes()] == ["snapshot", "snapshot"]
        assert (await client.jobs.get("a")).metadata is not None
        assert (await client.jobs.effective_runtime("a")).spec is not None
