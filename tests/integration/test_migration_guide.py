# SPDX-License-Identifier: Apache-2.0
"""The shell lines of docs/migration.md, run as they are typed there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from support import pages
from support.cluster import Cluster, eventually
from support.eras import remove_webhooks
from support.legacy import left_by_reference
from support.objects import image_of, runtime, runtime_spec, train_job
from support.operator import Operator
from support.plane import Target
from trainsnap_api.transport import ApiError, Transport
from trainsnap_api.transport.resources import (
    CONFIG_MAP,
    DEPLOYMENT,
    JOB_SET,
    TRAIN_JOB,
    TRAINING_RUNTIME,
    TRAINING_RUNTIME_SNAPSHOT,
)

pytestmark = [pytest.mark.anyio, pytest.mark.api, pytest.mark.timeout(300)]

JSON = dict[str, Any]
BLOCKS = pages.blocks("docs/migration.md", "sh")


def block(containing: str) -> str:
    """The one block of the guide that holds a text."""
    found = [text for text in BLOCKS if containing in text]
    assert len(found) == 1, containing
    return found[0]


class Shell:
    """Types lines of the guide: in the checkout, on one namespace where the guide means all."""

    def __init__(self, plane: Target, namespace: str, folder: Path) -> None:
        if shutil.which("jq") is None:
            pytest.skip("there is no jq, which lines of the guide use")
        self._namespace = namespace
        tools = folder / "bin"
        tools.mkdir()
        (tools / "kubectl").symlink_to(plane.kubectl)
        path = os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ["PATH"]])
        self._environment = {**os.environ, "PATH": path, "KUBECONFIG": str(plane.kubeconfig), "HOME": str(folder)}
        self._folder = folder

    async def __call__(self, text: str, *, where: Path | None = None) -> str:
        """Run lines to their end and return what they say. Fails when the last one does."""
        mine = text.replace(" -A ", f" -n {self._namespace} ")
        command = re.compile(r"^trainsnap migrate \w+", re.MULTILINE)
        mine = command.sub(rf"\g<0> -n {self._namespace}", mine)
        ran = await anyio.run_process(
            ["bash", "-euo", "pipefail", "-c", mine], cwd=where or self._folder, env=self._environment, check=False,
            stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT,
        )  # fmt: skip
        said = ran.stdout.decode()
        assert ran.returncode == 0, said
        return said


@pytest.fixture
async def shell(stopped: Operator, admin: Transport, plane: Target, namespace: str, tmp_path: Path) -> Shell:
    """A shell, while no operator runs."""
    if stopped.running:
        stopped.stop()
    await remove_webhooks(admin)
    return Shell(plane, namespace, tmp_path)


async def test_what_is_installed_beside_the_reference_lets_plan_try_every_content(
    shell: Shell, cluster: Cluster
) -> None:
    await cluster.create(runtime("rt", cluster.namespace))
    await left_by_reference(cluster, train_job("job", cluster.namespace))
    lines = block("-k crds").splitlines()
    (begin,) = (number for number, line in enumerate(lines) if line.startswith("trainsnap migrate plan"))
    said = await shell("\n".join(lines[: begin + 1]), where=pages.ROOT)
    assert "the API server would store it as it is" in said
    assert "contents are not tried" not in said


async def test_a_backup_is_restored_by_the_lines_of_the_guide(
    shell: Shell, stopped: Operator, cluster: Cluster, admin: Transport
) -> None:
    await cluster.create(runtime("rt", cluster.namespace, image="acme/train:1"))
    for name in ("job", "other", "bare"):
        await left_by_reference(
            cluster, train_job(name, cluster.namespace), with_config_map=name != "bare", with_job_set=False
        )
    await shell(block("> runtime-snapshots.json"))

    # Everything is lost, and the runtime is another one by now. Webhooks of a Deployment that is gone are left.
    for name in ("job", "other", "bare"):
        await cluster.delete(TRAIN_JOB, name)
    for name in ("job", "other"):
        await cluster.delete(CONFIG_MAP, f"{name}-runtime-snapshot")
    await cluster.patch(TRAINING_RUNTIME, "rt", {"spec": runtime_spec(image="acme/train:2")})
    await admin.create(DEPLOYMENT, deployment("trainsnap"))
    try:
        await shell("kubectl apply --server-side -f deploy/kustomize/base/webhooks.yaml", where=pages.ROOT)
        await eventually(
            lambda: refusal(cluster), lambda said: "failed calling webhook" in said, what="webhooks are asked"
        )
        await shell(block("delete mutatingwebhookconfiguration"))
        await eventually(lambda: refusal(cluster), lambda said: said == "", what="webhooks are not asked any more")
        for name in ("job", "other", "bare"):
            await cluster.create(train_job(name, cluster.namespace))
        said = await shell(block("apply --server-side -f runtime-snapshots.json"))
    finally:
        await admin.delete(DEPLOYMENT, "trainsnap", "kubeflow-system")
        await remove_webhooks(admin)
    assert "2 done" in said
    for name in ("job", "other"):
        assert image_of(await cluster.get(TRAINING_RUNTIME_SNAPSHOT, name)) == "acme/train:1"
    stopped.start()
    for name, image in (("job", "acme/train:1"), ("other", "acme/train:1"), ("bare", "acme/train:2")):
        assert image_of(await cluster.until(JOB_SET, name)) == image


async def refusal(cluster: Cluster) -> str:
    """What the API server has against a TrainJob."""
    try:
        await cluster.api.create(TRAIN_JOB, train_job("probe", cluster.namespace), dry_run=True)
    except ApiError as error:
        return error.message
    return ""


def deployment(name: str) -> JSON:
    """One that nothing runs here."""
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "kubeflow-system"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": pod}}  # fmt: skip
