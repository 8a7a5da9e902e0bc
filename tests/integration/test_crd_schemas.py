# SPDX-License-Identifier: Apache-2.0
"""The CRDs alone on a real API server: no operator, no webhook, no policy.

A plane of its own, since the snapshot guard of the shared one would hide what the CRD itself refuses, and since one
test changes a CRD.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.objects import API_VERSION, runtime, runtime_spec, train_job
from support.plane import CLUSTER_VARIABLE
from trainsnap_plane import Plane
from trainsnap_plane.api import ApiClient, ApiFailure

pytestmark = pytest.mark.api

JSON = dict[str, Any]

CRDS = Path(__file__).resolve().parents[2] / "crds"
PLURALS = {
    "TrainJob": "trainjobs",
    "TrainingRuntime": "trainingruntimes",
    "ClusterTrainingRuntime": "clustertrainingruntimes",
    "TrainingRuntimeSnapshot": "trainingruntimesnapshots",
}
JSON_PATCH = "application/json-patch+json"
CONTAINERS = "/spec/template/spec/replicatedJobs/0/template/spec/template/spec/containers"


class Server:
    """An API server with our CRDs and nothing else of ours."""

    def __init__(self, plane: Plane) -> None:
        self.kubeconfig, self.kubectl_path = plane.kubeconfig, plane.kubectl
        self.client = ApiClient.from_kubeconfig(plane.kubeconfig)

    def kubectl(self, *arguments: str) -> str:
        command = [str(self.kubectl_path), "--kubeconfig", str(self.kubeconfig), *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def await_kinds(self) -> None:
        """`kubectl wait` fails on a CRD that has no conditions yet."""
        end = time.monotonic() + 120
        for kind in PLURALS:
            while self.client.raw("GET", self.path(kind))[0] != 200:
                assert time.monotonic() < end, f"{kind} is not served"
                time.sleep(0.05)

    def path(self, kind: str, name: str = "") -> str:
        scope = "" if kind == "ClusterTrainingRuntime" else "/namespaces/default"
        return f"/apis/{API_VERSION}{scope}/{PLURALS[kind]}" + (f"/{name}" if name else "")

    def create(self, obj: JSON) -> JSON:
        return self.client.request("POST", self.path(obj["kind"]), obj, fieldValidation="Strict")

    def get(self, kind: str, name: str) -> JSON:
        return self.client.request("GET", self.path(kind, name))

    def patch(
        self, kind: str, name: str, body: Any, *, sub: str = "", how: str = "application/merge-patch+json"
    ) -> JSON:
        return self.client.request("PATCH", self.path(kind, name) + sub, body, content_type=how)

    def refused(self, call: Any, *arguments: Any, **options: Any) -> str:
        """The message of a call that must answer 422."""
        with pytest.raises(ApiFailure) as failure:
            call(*arguments, **options)
        assert failure.value.status == 422, failure.value
        return str(failure.value)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if os.environ.get(CLUSTER_VARIABLE):
        pytest.skip("changes CRDs: not on somebody's cluster")
    with Plane.start(tmp_path_factory.mktemp("plane-crds"), "api", build=False) as plane:
        server = Server(plane)
        # Client-side on purpose: it keeps the whole object in an annotation, which is what limits the size.
        server.kubectl("apply", "-k", str(CRDS))
        server.await_kinds()
        yield server


@pytest.fixture
def name() -> str:
    return f"t-{uuid.uuid4().hex[:10]}"


def snapshot(name: str, **content: JSON) -> JSON:
    source = {"kind": "TrainingRuntime", "name": "rt", "generation": 3, "origin": "Runtime", "labels": {"a": "b"}}
    metadata = {"name": name, "namespace": "default"}
    kind = "TrainingRuntimeSnapshot"
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "source": source, **content}


def with_spec(**changes: Any) -> JSON:
    return {**runtime_spec(env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]), **changes}


# The CRDs themselves


def test_server_has_nothing_to_object(server: Server) -> None:
    for plural in PLURALS.values():
        crd = json.loads(server.kubectl("get", "crd", f"{plural}.trainer.kubeflow.org", "-o", "json"))
        state = {item["type"]: item["status"] for item in crd["status"]["conditions"]}
        assert state == {"NamesAccepted": "True", "Established": "True"}


def test_applying_the_same_again_changes_nothing(server: Server) -> None:
    said = server.kubectl("apply", "-k", str(CRDS)).splitlines()
    assert len(said) == 4
    assert all(line.endswith("unchanged") for line in said), said


def test_category_and_short_name(server: Server, name: str) -> None:
    server.create(snapshot(name, spec=with_spec()))
    assert name in server.kubectl("get", "trsnap", "-n", "default")
    assert f"trainingruntimesnapshot.trainer.kubeflow.org/{name}" in server.kubectl("get", "trainer", "-n", "default")


def test_state_column_shows_the_condition_that_holds(server: Server, name: str) -> None:
    server.create(train_job(name, "default"))
    row = {"message": "m", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    conditions = [
        {**row, "type": "Complete", "status": "True"},
        {**row, "type": "Suspended", "status": "False"},
    ]
    server.patch("TrainJob", name, {"status": {"conditions": conditions}}, sub="/status")
    assert server.kubectl("get", "trainjob", name, "-n", "default", "--no-headers").split()[:2] == [name, "Complete"]


# The snapshot's own rules


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(
            [{"op": "replace", "path": "/spec/mlPolicy/numNodes", "value": 9}], "spec is immutable", id="edit"
        ),
        pytest.param(
            [{"op": "add", "path": f"{CONTAINERS}/0/tty", "value": True}], "spec is immutable", id="deep edit"
        ),
        pytest.param([{"op": "remove", "path": "/spec"}], "spec is immutable", id="removal"),
        pytest.param(
            [{"op": "remove", "path": "/spec"}, {"op": "add", "path": "/opaque", "value": {"spec": {}}}],
            "spec is immutable",
            id="swap",
        ),
        pytest.param(
            [{"op": "replace", "path": "/source/name", "value": "x"}], "source is immutable", id="other runtime"
        ),
        pytest.param([{"op": "remove", "path": "/source/labels"}], "source is immutable", id="less provenance"),
        pytest.param([{"op": "add", "path": "/source/uid", "value": "u"}], "source is immutable", id="more provenance"),
        pytest.param([{"op": "remove", "path": "/source"}], "source: Required value", id="no provenance"),
        pytest.param([{"op": "add", "path": "/opaque", "value": {"spec": {}}}], "at most one", id="both"),
    ],
)
def test_a_typed_snapshot_cannot_change(server: Server, name: str, change: list[JSON], want: str) -> None:
    server.create(snapshot(name, spec=with_spec()))
    before = server.get("TrainingRuntimeSnapshot", name)
    assert want in server.refused(server.patch, "TrainingRuntimeSnapshot", name, change, how=JSON_PATCH)
    assert server.get("TrainingRuntimeSnapshot", name) == before


@pytest.mark.parametrize(
    "change",
    [
        pytest.param([{"op": "move", "from": "/opaque/spec/c", "path": "/opaque/spec/d"}], id="key renamed"),
        pytest.param([{"op": "move", "from": "/opaque/spec/a/b", "path": "/opaque/spec/a/x"}], id="inner key renamed"),
        pytest.param([{"op": "replace", "path": "/opaque/spec/a/b/0", "value": 2}], id="value"),
        pytest.param([{"op": "move", "from": "/opaque/spec/a/b/0", "path": "/opaque/spec/a/b/1"}], id="order"),
        pytest.param([{"op": "remove", "path": "/opaque"}], id="removal"),
    ],
)
def test_an_opaque_snapshot_cannot_change(server: Server, name: str, change: list[JSON]) -> None:
    server.create(snapshot(name, opaque={"spec": {"a": {"b": [1, 3]}, "c": None, "d0": "x"} | {"c": 1}}))
    assert "opaque is immutable" in server.refused(
        server.patch, "TrainingRuntimeSnapshot", name, change, how=JSON_PATCH
    )


def test_a_snapshot_without_content_stays_without(server: Server, name: str) -> None:
    server.create(snapshot(name))
    contents: tuple[JSON, ...] = ({"spec": with_spec()}, {"opaque": {"spec": {}}})
    for content in contents:
        assert "is immutable" in server.refused(server.patch, "TrainingRuntimeSnapshot", name, content)


def test_labels_and_owners_can_change(server: Server, name: str) -> None:
    server.create(snapshot(name, spec=with_spec()))
    owner = {"apiVersion": API_VERSION, "kind": "TrainJob", "name": name, "uid": "u"}
    got = server.patch(
        "TrainingRuntimeSnapshot", name, {"metadata": {"labels": {"a": "1"}, "ownerReferences": [owner]}}
    )
    assert got["metadata"]["labels"] == {"a": "1"}
    assert got["metadata"]["generation"] == 1


def test_the_rules_do_not_see_the_order_of_a_keyed_list(server: Server, name: str) -> None:
    """What CEL takes for equal; the admission policy compares again. If this fails, the policy can be simpler."""
    server.create(snapshot(name, spec=with_spec()))
    move = [{"op": "move", "from": f"{CONTAINERS}/0/env/0", "path": f"{CONTAINERS}/0/env/1"}]
    got = server.patch("TrainingRuntimeSnapshot", name, move, how=JSON_PATCH)
    env = got["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    assert [item["name"] for item in env["env"]] == ["B", "A"]


def test_history_is_limited(server: Server, name: str) -> None:
    obj = snapshot(name)
    obj["source"]["previous"] = [{"generation": number} for number in range(17)]
    assert "must have at most 16 items" in server.refused(server.create, obj)
    obj["source"]["previous"].pop(0)
    server.create(obj)


def test_a_field_that_gains_a_default_shows_on_old_snapshots_without_a_write(server: Server, name: str) -> None:
    server.create(snapshot(name, spec=with_spec()))
    before = server.get("TrainingRuntimeSnapshot", name)
    file = CRDS / "trainer.kubeflow.org_trainingruntimesnapshots.yaml"
    crd = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
    newer = copy.deepcopy(crd)
    policy = newer["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["mlPolicy"]
    policy["properties"]["flavour"] = {"type": "string", "default": "plain"}
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd['metadata']['name']}"
    try:
        server.client.request("PATCH", path, newer, content_type="application/merge-patch+json")
        end = time.monotonic() + 60
        while (seen := server.get("TrainingRuntimeSnapshot", name)) == before:
            assert time.monotonic() < end, "the new schema is not in use"
            time.sleep(0.05)
        want = copy.deepcopy(before)
        want["spec"]["mlPolicy"]["flavour"] = "plain"
        assert seen == want, "the default alone, at the same resourceVersion and generation"
        # The rules compare the old object as it is read now, so metadata can still change.
        server.patch("TrainingRuntimeSnapshot", name, {"metadata": {"labels": {"a": "1"}}})
        assert "spec is immutable" in server.refused(
            server.patch, "TrainingRuntimeSnapshot", name, {"spec": {"mlPolicy": {"flavour": "other"}}}
        )
    finally:
        policy["properties"].pop("flavour")
        patch = [{"op": "replace", "path": "/spec/versions/0/schema", "value": crd["spec"]["versions"][0]["schema"]}]
        server.client.request("PATCH", path, patch, content_type=JSON_PATCH)  # type: ignore[arg-type]


# Defaults and limits of the other kinds


def test_defaults_appear_only_where_the_parent_is(server: Server, name: str) -> None:
    assert server.create(runtime(name, "default", spec={"mlPolicy": {}}))["spec"] == {"mlPolicy": {}}
    got = server.create(runtime(f"{name}-mpi", "default", spec={"mlPolicy": {"mpi": {"numProcPerNode": 4}}}))
    assert got["spec"]["mlPolicy"]["mpi"] == {
        "mpiImplementation": "OpenMPI",
        "numProcPerNode": 4,
        "runLauncherAsNode": False,
        "sshAuthMountPath": "/root/.ssh",
    }
    job = server.create({**train_job(name, "default"), "spec": {"runtimeRef": {"name": "r"}}})
    assert job["spec"] == {
        "managedBy": "trainer.kubeflow.org/trainjob-controller",
        "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime", "name": "r"},
        "suspend": False,
    }


def patch_entry(**pod: Any) -> JSON:
    jobs = [{"name": "node", "template": {"spec": {"template": {"spec": pod}}}}]
    return {"manager": "acme.io/x", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"trainer": {"numNodes": -1}}, "spec.trainer.numNodes", id="negative number of nodes"),
        pytest.param({"trainer": {"numProcPerNode": 0}}, "numProcPerNode must be at least 1", id="no process"),
        pytest.param({"trainer": {"numProcPerNode": "auto"}}, "spec.trainer.numProcPerNode", id="auto"),
        pytest.param({"trainer": {"image": "x" * 501}}, "spec.trainer.image", id="long image"),
        pytest.param({"trainer": {"args": ["x"] * 129}}, "spec.trainer.args", id="many arguments"),
        pytest.param({"trainer": {"command": ["x" * 1048577]}}, "spec.trainer.command[0]", id="long argument"),
        pytest.param({"trainer": {"resourcesPerNode": {"limits": {"cpu": "1x"}}}}, "limits.cpu", id="bad quantity"),
        pytest.param({"initializer": {"model": {"storageUri": "s3://"}}}, "scheme://path", id="no path in a URI"),
        pytest.param({"initializer": {"dataset": {"storageUri": "invalid"}}}, "scheme://path", id="no scheme in a URI"),
        pytest.param({"activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds", id="no time"),
        pytest.param({"managedBy": "acme.io/x"}, "spec.managedBy", id="unknown controller"),
        pytest.param({"runtimePatches": [patch_entry(tolerations=[{}] * 129)]}, "tolerations", id="many tolerations"),
        pytest.param(
            {"runtimePatches": [patch_entry(containers=[{"name": str(n)} for n in range(65)])]},
            "containers",
            id="many containers",
        ),
        pytest.param(
            {"runtimePatches": [patch_entry(imagePullSecrets=[{"name": "a"}, {"name": "a"}])]},
            "imagePullSecrets[1]: Duplicate value",
            id="a pull secret twice",
        ),
        pytest.param({"runtimeRef": {"name": ""}}, "spec.runtimeRef.name", id="no runtime name"),
    ],
)
def test_a_trainjob_that_is_refused(server: Server, name: str, spec: JSON, want: str) -> None:
    assert want in server.refused(server.create, train_job(name, "default", **spec))


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"trainer": {"numNodes": 0}}, id="no nodes"),
        pytest.param({"trainer": {"args": ["x" * 1048576]}}, id="an argument of a mebibyte"),
        pytest.param({"initializer": {"dataset": {"storageUri": ""}}}, id="an empty URI"),
        pytest.param({"initializer": {"dataset": {"storageUri": "hf://x"}, "model": {}}}, id="a URI"),
        pytest.param({"managedBy": "kueue.x-k8s.io/multikueue"}, id="managed by Kueue"),
        pytest.param({"runtimePatches": [patch_entry(terminationGracePeriodSeconds=0)]}, id="no grace"),
    ],
)
def test_a_trainjob_that_is_accepted(server: Server, name: str, spec: JSON) -> None:
    server.create(train_job(name, "default", **spec))


@pytest.mark.parametrize(
    ("bad", "want"),
    [
        pytest.param("A", "lower case", id="upper case"),
        pytest.param("1a", "metadata.name must consist of", id="leading digit"),
        pytest.param("a.b", "metadata.name must consist of", id="dot"),
        pytest.param("a" * 64, "metadata.name must have at most 63 characters", id="64 characters"),
    ],
)
def test_names_of_trainjobs(server: Server, bad: str, want: str) -> None:
    assert want in server.refused(server.create, train_job(bad, "default"))
    server.create(train_job(f"a{uuid.uuid4().hex}{uuid.uuid4().hex}"[:63], "default"))


@pytest.mark.parametrize(
    ("path", "value", "verdict"),
    [
        pytest.param("/spec/runtimeRef/name", "other", "field is immutable", id="other runtime"),
        pytest.param("/spec/trainer/image", "other", "field is immutable", id="other image"),
        pytest.param(
            "/spec/trainer/resourcesPerNode/limits/cpu", "1", "field is immutable", id="same amount respelled"
        ),
        pytest.param("/spec/activeDeadlineSeconds", 6, "field is immutable", id="other deadline"),
        pytest.param("/spec/managedBy", "kueue.x-k8s.io/multikueue", "field is immutable", id="other manager"),
        pytest.param("/spec/suspend", True, None, id="suspended"),
        pytest.param("/metadata/labels", {"a": "b"}, None, id="labelled"),
    ],
)
def test_what_of_a_trainjob_can_change(server: Server, name: str, path: str, value: Any, verdict: str | None) -> None:
    trainer = {"image": "a", "resourcesPerNode": {"limits": {"cpu": "1000m"}}}
    server.create(train_job(name, "default", trainer=trainer, activeDeadlineSeconds=5))
    change = [{"op": "add", "path": path, "value": value}]
    if verdict is None:
        server.patch("TrainJob", name, change, how=JSON_PATCH)
    else:
        assert verdict in server.refused(server.patch, "TrainJob", name, change, how=JSON_PATCH)


@pytest.mark.parametrize(
    ("policy", "want"),
    [
        pytest.param({"torch": {}, "mpi": {}}, "at most one of torch", id="two frameworks"),
        pytest.param({"mpi": {"mpiImplementation": "MPICH"}}, "mpiImplementation", id="unknown implementation"),
        pytest.param({"flux": {"numProcPerNode": 0}}, "numProcPerNode must be at least 1", id="no process"),
        pytest.param({"mpi": {"sshAuthMountPath": "x" * 4097}}, "sshAuthMountPath", id="long path"),
        pytest.param(
            {"torch": {"envInjection": {"targets": [{"jobName": "a", "containerNames": ["node"]}]}}},
            "must not be listed",
            id="the node container injected",
        ),
        pytest.param(
            {"torch": {"envInjection": {"targets": [{"jobName": "a", "containerNames": []}]}}},
            "at least 1 items",
            id="no container",
        ),
    ],
)
def test_a_runtime_that_is_refused(server: Server, name: str, policy: JSON, want: str) -> None:
    for namespace in ("default", None):
        assert want in server.refused(server.create, runtime(name, namespace, spec={"mlPolicy": policy}))


def test_unknown_fields_are_refused_strictly_and_pruned_otherwise(server: Server, name: str) -> None:
    obj = runtime(name, "default", spec=with_spec(newField=1))
    with pytest.raises(ApiFailure, match="unknown field"):
        server.create(obj)
    got = server.client.request("POST", server.path("TrainingRuntime"), obj)
    assert "newField" not in got["spec"]
