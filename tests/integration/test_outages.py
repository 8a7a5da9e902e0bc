# SPDX-License-Identifier: Apache-2.0
"""What the operator needs goes away or is not there yet: it says so, waits, heals, and can be stopped at any time."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from support.cluster import Cluster, eventually
from support.objects import condition, image_of, runtime, train_job
from support.operator import COMMAND, STOP_SECONDS, Operator
from support.replica import replica
from trainsnap_api.transport import AlreadyExists, Transport, TransportError
from trainsnap_api.transport.resources import CUSTOM_RESOURCE_DEFINITION, JOB_SET, TRAIN_JOB
from trainsnap_plane import Plane

pytestmark = [pytest.mark.anyio, pytest.mark.api]

JOB_SETS = "jobsets.jobset.x-k8s.io"


async def test_a_restart_of_the_api_server_heals(operator: Operator, cluster: Cluster, local_plane: Plane) -> None:
    await cluster.create(runtime("rt", cluster.namespace))
    await cluster.create(train_job("paused", cluster.namespace, suspend=True))
    await cluster.create(train_job("running", cluster.namespace))
    await cluster.until(TRAIN_JOB, "paused", lambda seen: condition(seen, "Suspended"))
    before = await cluster.until(JOB_SET, "running")

    local_plane.restart("kube-apiserver", grace=0.1)

    await eventually(lambda: created(cluster, "later"), bool, what="the API server takes jobs again")
    await cluster.until(JOB_SET, "later")
    await cluster.patch(TRAIN_JOB, "paused", {"spec": {"suspend": False}})
    await cluster.until(JOB_SET, "paused", lambda seen: seen["spec"]["suspend"] is False)
    await eventually(lambda: readiness(operator), lambda seen: seen[0] == 200, what="ready again")
    assert await cluster.get(JOB_SET, "running") == before
    assert operator.running


async def created(cluster: Cluster, name: str) -> bool:
    """Try to create a job; for a moment a server that has just started refuses nearly everything."""
    try:
        await cluster.create(train_job(name, cluster.namespace))
    except AlreadyExists:
        return True
    except TransportError:
        return False
    return True


async def readiness(operator: Operator) -> tuple[int, str]:
    return operator.get("health", "/readyz")


@pytest.mark.parametrize("state", ["answers", "hangs", "is gone"])
async def test_it_stops_in_time_whatever_the_api_server_does(
    operator: Operator, cluster: Cluster, local_plane: Plane, state: str
) -> None:
    await cluster.create(runtime("rt", cluster.namespace))
    await cluster.create(train_job("job", cluster.namespace))
    await cluster.until(JOB_SET, "job")
    if state == "hangs":
        local_plane.pause("kube-apiserver")
    if state == "is gone":
        local_plane.stop_component("kube-apiserver", grace=0.1)
    try:
        assert operator.stop(within=STOP_SECONDS) == 0
    finally:
        if state == "hangs":
            local_plane.resume("kube-apiserver")
        if state == "is gone":
            local_plane.start_component("kube-apiserver")


async def test_a_job_that_is_just_being_built_does_not_delay_the_stop(
    operator: Operator, cluster: Cluster, local_plane: Plane
) -> None:
    await cluster.create(runtime("rt", cluster.namespace))
    for number in range(5):
        await cluster.create(train_job(f"job-{number}", cluster.namespace))
    local_plane.pause("kube-apiserver")
    try:
        assert operator.stop(within=STOP_SECONDS) == 0
    finally:
        local_plane.resume("kube-apiserver")
    operator.start()
    for number in range(5):
        await cluster.until(JOB_SET, f"job-{number}")


async def test_an_uninstall_and_a_new_install(operator: Operator, cluster: Cluster, local_plane: Plane) -> None:
    """What was installed once and taken out works when it is installed again, the snapshot guard above all."""
    assert operator.stop() == 0
    command = [*COMMAND, "dev", "--kubeconfig", str(local_plane.kubeconfig), "--clean"]
    done = await anyio.run_process(command, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    operator.start()
    await cluster.create(runtime("rt", cluster.namespace))
    await cluster.create(train_job("job", cluster.namespace))
    await cluster.until(JOB_SET, "job")
    job = await cluster.get(TRAIN_JOB, "job")
    assert condition(job, "Blocked") is None


async def test_without_jobset_it_says_so_and_waits(tmp_path: Path) -> None:
    with Plane.start(tmp_path / "plane", "api", build=False) as plane:
        async with await Transport.connect(kubeconfig=str(plane.kubeconfig), probe=True) as api:
            crd = await api.get(CUSTOM_RESOURCE_DEFINITION, JOB_SETS)
            await api.delete(CUSTOM_RESOURCE_DEFINITION, JOB_SETS)
            await eventually(lambda: api.served(JOB_SET), lambda served: not served, what="no JobSets")
            arguments = ("dev", "--kubeconfig", str(plane.kubeconfig))

            with replica(tmp_path / "stopped", *arguments) as waiting:
                await waiting.until("/readyz", 500, JOB_SETS)
                assert waiting.stop(within=STOP_SECONDS) == 0, waiting.log.read_text()

            with replica(tmp_path / "waiting", *arguments) as waiting:
                await waiting.until("/readyz", 500, f"serve {JOB_SETS}: is its CustomResourceDefinition installed?")
                assert waiting.get("health", "/healthz") == (200, "ok")
                assert "health http://127.0.0.1:" in await waiting.said(), "where to ask is told at once"
                assert "READY" not in await waiting.said()
                said = [line["msg"] for line in waiting.lines() if line["level"] not in ("debug", "info")]
                assert len(said) == 1, said
                assert said[0].startswith(f"the API server does not serve {JOB_SETS}: is its CustomResourceDefinition")

                await api.create(CUSTOM_RESOURCE_DEFINITION, fresh(crd), field_validation=None)
                await waiting.until("/readyz", 200)
                await eventually(waiting.said, lambda out: out.endswith("READY\n"), what="READY")
                cluster = Cluster(api, "default")
                await cluster.create(runtime("rt", "default", image="acme/train:1"))
                await cluster.create(train_job("job", "default"))
                assert image_of(await cluster.until(JOB_SET, "job")) == "acme/train:1"
                assert waiting.stop(within=STOP_SECONDS) == 0


def fresh(crd: dict[str, object]) -> dict[str, object]:
    """A CRD as somebody would install it."""
    metadata = crd["metadata"]
    assert isinstance(metadata, dict)
    kept = {key: metadata[key] for key in ("name", "annotations", "labels") if key in metadata}
    return {"apiVersion": crd["apiVersion"], "kind": crd["kind"], "metadata": kept, "spec": crd["spec"]}
