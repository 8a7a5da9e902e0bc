# SPDX-License-Identifier: Apache-2.0
"""trainjobstatus: what trainer pods get to report with."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from support.building import box, documents, env, job, plan, pods, rjob, runtime
from trainsnap_api.transport.resources import SECRET
from trainsnap_controller.runtime.errors import BuildError
from trainsnap_controller.runtime.observed import Need, Observed
from trainsnap_controller.runtime.plugins.trainjobstatus import StatusServer
from trainsnap_controller.runtime.registry import standard

JSON = dict[str, Any]
SERVER = StatusServer("kubeflow-system", "manager", 10443, "cert")
FRAMEWORK = standard(status_server=SERVER)
FOLDER = "/var/run/secrets/kubeflow/trainer"


def seen(data: JSON | None) -> Observed:
    return Observed({Need(SECRET, "kubeflow-system", "cert", child=False): data})


CA = seen({"data": {"ca.crt": b64encode(b"PEM").decode()}})
SPEC = runtime(
    rjob("prepare", box("p"), ancestor=None), rjob("node", box("side"), box("node"), initContainers=[box("i")]), ml={}
)


def test_every_container_of_the_trainer_can_report() -> None:
    built = documents(job({"env": [{"name": "U", "value": "1"}]}), SPEC, CA, FRAMEWORK)
    jobs = {item["name"]: item for item in built["JobSet/alpha"]["spec"]["replicatedJobs"]}
    pod = jobs["node"]["template"]["spec"]["template"]["spec"]
    path = "apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/alpha/status"
    want = {
        "KUBEFLOW_TRAINER_SERVER_URL": f"https://manager.kubeflow-system.svc:10443/{path}",
        "KUBEFLOW_TRAINER_SERVER_CA_CERT": f"{FOLDER}/ca.crt",
        "KUBEFLOW_TRAINER_SERVER_TOKEN": f"{FOLDER}/token",
    }

    assert env(pod["containers"][0]) == want
    assert env(pod["containers"][1]) == {"U": "1", **want}
    assert all(
        item["volumeMounts"] == [{"name": "kubeflow-trainer-token", "mountPath": FOLDER, "readOnly": True}]
        for item in pod["containers"]
    )
    assert "env" not in pod["initContainers"][0]
    assert "volumes" not in jobs["prepare"]["template"]["spec"]["template"]["spec"]
    token, authority = pod["volumes"][0]["projected"]["sources"]
    assert token["serviceAccountToken"] == {
        "audience": path.removeprefix("apis/"),
        "expirationSeconds": 3600,
        "path": "token",
    }
    assert authority["configMap"] == {"name": "alpha-tls-config", "items": [{"key": "ca.crt", "path": "ca.crt"}]}


def test_the_authority_is_copied_before_the_job_set() -> None:
    built = documents(job(), SPEC, CA, FRAMEWORK)
    assert list(built) == ["ConfigMap/alpha-tls-config", "JobSet/alpha"]
    assert built["ConfigMap/alpha-tls-config"]["data"] == {"ca.crt": "PEM"}


@pytest.mark.parametrize("data", [None, {}, {"data": {}}, {"data": {"ca.crt": ""}}, {"data": {"ca.crt": "%"}}], ids=str)
def test_without_an_authority_nothing_is_built_yet(data: JSON | None) -> None:
    with pytest.raises(BuildError, match="Secret kubeflow-system/cert") as caught:
        plan(job(), SPEC, seen(data), FRAMEWORK)
    assert caught.value.retried


def test_nothing_of_it_without_the_gate() -> None:
    assert "volumes" not in pods(job(), SPEC)["node"]
