# SPDX-License-Identifier: Apache-2.0
"""A trainer pod on the full plane reports with the token and the trust that it was given, and the job completes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster import Cluster
from support.objects import condition, runtime, train_job
from support.operator import Operator
from support.plane import Target
from support.pods import Pods
from support.reporting import GATE, NOW, Answer, Trainer
from trainsnap_api.transport.resources import CONFIG_MAP, SERVICE_ACCOUNT, TRAIN_JOB

pytestmark = [pytest.mark.anyio, pytest.mark.full]


@pytest.fixture
def reporting(
    plane: Target, operator_process: Operator, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    """An operator with the gate open, in place of the other one: two never run at once."""
    if operator_process.running:
        operator_process.stop()
    operator = Operator(Path(str(plane.kubeconfig)), tmp_path_factory.mktemp("reporting") / "log", *GATE)
    operator.start()
    yield operator
    assert operator.stop() == 0, operator.tail()
    operator_process.start()


async def test_a_trainer_pod_reports_and_the_job_completes(reporting: Operator, cluster: Cluster) -> None:
    pods = await Pods.on(cluster)
    await cluster.until(SERVICE_ACCOUNT, "default")
    await cluster.create(runtime("rt", cluster.namespace, num_nodes=2))
    await cluster.create(train_job("job", cluster.namespace))
    running = await pods.running("job", 2)
    for pod in running:
        mounts = [mount for item in pod["spec"]["containers"] for mount in item["volumeMounts"]]
        assert any(mount["name"] == "kubeflow-trainer-token" for mount in mounts), "the API server took it as it is"
    trainer = await Trainer.of("job", cluster, reporting)
    # As the kubelet does: bound to this very pod.
    account = f"/api/v1/namespaces/{cluster.namespace}/serviceaccounts/default/token"
    bound = {"kind": "Pod", "apiVersion": "v1", "name": running[0]["metadata"]["name"]}
    spec = {"audiences": [trainer.audience], "expirationSeconds": 3600, "boundObjectRef": bound}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    token = (await cluster.api.request("POST", account, body=request)).json()["status"]["token"]
    report = {
        "progressPercentage": 42,
        "estimatedRemainingSeconds": 120,
        "metrics": [{"name": "loss", "value": "0.2347"}, {"name": "accuracy", "value": "0.9876"}],
        "lastUpdatedTime": NOW,
    }
    assert await trainer.post({"trainerStatus": report}, token) == Answer(200, {"trainerStatus": report})
    await pods.finish("job")
    done = await cluster.until(TRAIN_JOB, "job", lambda seen: condition(seen, "Complete"))
    assert done["status"]["trainerStatus"] == report
    assert [item["type"] for item in done["status"]["conditions"]] == ["Complete"]
    assert (await cluster.get(CONFIG_MAP, "job-tls-config"))["metadata"]["ownerReferences"][0]["name"] == "job"
