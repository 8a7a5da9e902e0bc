# SPDX-License-Identifier: Apache-2.0
"""The SDK-like backend of examples/ on the full plane: the whole life of a job, its runtime deleted on the way."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from anyio import to_thread

from support.cluster import Cluster
from support.objects import runtime
from support.operator import Operator
from support.plane import Target
from support.pods import Pods, images
from trainsnap_api import Client
from trainsnap_api.transport.resources import TRAINING_RUNTIME

pytestmark = [pytest.mark.anyio, pytest.mark.full]

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "sdk_backend.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sdk_backend", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


async def test_a_job_from_train_to_delete(
    example: ModuleType, operator: Operator, cluster: Cluster, plane: Target
) -> None:
    pods = await Pods.on(cluster)
    await cluster.create(runtime("rt", cluster.namespace, image="acme/train:1"))
    client = Client.connect(kubeconfig=str(plane.kubeconfig), namespace=cluster.namespace)
    with example.Backend(client) as backend:

        async def call(name: str, *args: Any, **kwargs: Any) -> Any:
            return await to_thread.run_sync(lambda: getattr(backend, name)(*args, **kwargs))

        await call("train", "mine", "rt", nodes=2, env={"A": "1"}, resources={"cpu": 1})
        await call("train", "other", "rt", image="acme/own:1")
        progress: list[str] = []
        await call("wait", "mine", "Running", timeout=30, on_progress=lambda seen: progress.append(seen.state))
        assert progress[-1] == "Running"
        await pods.running("mine", 2)

        await cluster.delete(TRAINING_RUNTIME, "rt")
        jobs = {job.name: job for job in await call("list")}
        assert {name: (job.runtime_origin, job.image) for name, job in jobs.items()} == {
            "mine": ("snapshot", "acme/train:1"),
            "other": ("snapshot", "acme/own:1"),
        }
        await call("suspend", "mine")
        await call("wait", "mine", "Suspended", timeout=30)
        await pods.gone("mine")
        await call("resume", "mine")
        assert images(await pods.running("mine", 2)) == {"acme/train:1"}
        await call("wait", "mine", "Running", timeout=30)
        await pods.finish("mine")
        await call("wait", "mine", timeout=30)
        assert (await call("get", "mine")).state == "Complete"
        await call("delete", "mine")
        assert [job.name for job in await call("list")] == ["other"]


async def test_the_command_line(
    example: ModuleType, operator: Operator, cluster: Cluster, plane: Target, capsys: pytest.CaptureFixture[str]
) -> None:
    head = ["--kubeconfig", str(plane.kubeconfig), "--namespace", cluster.namespace]

    def run(*arguments: str) -> tuple[int, str, str]:
        code = example.main([*head, *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    await cluster.create(runtime("rt", cluster.namespace))
    code, said, _ = await to_thread.run_sync(lambda: run("train", "--name", "job", "--nodes", "1", "rt", "sh"))
    assert (code, said) == (0, f"<TrainJob {cluster.namespace}/job: Created, 1 node, TrainingRuntime rt>\n")
    code, said, _ = await to_thread.run_sync(lambda: run("list"))
    assert (code, said.split("\t")[0]) == (0, "job")
    code, _, said = await to_thread.run_sync(lambda: run("train", "--name", "Bad", "--nodes", "-1", "rt"))
    assert code == 1
    assert said.startswith("ValidationFailed: metadata.name: ")
    assert "spec.trainer.numNodes: must be at least 0" in said
    code, _, said = await to_thread.run_sync(lambda: run("get", "none"))
    assert (code, said) == (1, 'NotFound: trainjobs.trainer.kubeflow.org "none" not found\n')
