# SPDX-License-Identifier: Apache-2.0
"""mpi: counts of launcher and nodes, slots, the key, the list of hosts."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_public_key

from support.building import box, container, documents, env, job, plan, pods, rjob, rjobs, rules, runtime
from trainsnap_controller.runtime.component import Write
from trainsnap_controller.runtime.errors import BuildError
from trainsnap_controller.runtime.registry import standard

JSON = dict[str, Any]


def mpi(
    *, launcher: bool = True, node: bool = True, resources: JSON | None = None, nodes: int = 1, **policy: Any
) -> JSON:
    """A runtime with a launcher, which is the trainer, and nodes."""
    jobs = [rjob("node", box("node", resources=resources or {}), ancestor=None)] if node else []
    jobs += [rjob("launcher", box("node"))] if launcher else []
    return runtime(*jobs, ml={"numNodes": nodes, "mpi": policy})


def hosts(a_job: Any, spec: JSON) -> list[str]:
    text: str = documents(a_job, spec)["ConfigMap/alpha-mpi-hostfile"]["data"]["hostfile"]
    return text.splitlines()


COUNTS: list[Any] = [
    pytest.param(True, 1, None, {"launcher": 1, "node": 1}, id="launcher is a node, nothing said"),
    pytest.param(True, 1, 1, {"launcher": 1, "node": 1}, id="launcher is a node, one asked for"),
    pytest.param(True, 1, 4, {"launcher": 1, "node": 3}, id="launcher is a node, four asked for"),
    pytest.param(True, 3, None, {"launcher": 3, "node": 1}, id="the runtime's number counts for the trainer"),
    pytest.param(True, 3, 4, {"launcher": 3, "node": 3}, id="both numbers"),
    pytest.param(False, 1, 4, {"launcher": 1, "node": 4}, id="launcher apart"),
    pytest.param(False, 1, 0, {"launcher": 1, "node": 0}, id="launcher apart, no nodes"),
]


@pytest.mark.parametrize(("as_node", "nodes", "asked", "want"), COUNTS)
def test_number_of_pods(as_node: bool, nodes: int, asked: int | None, want: JSON) -> None:
    a_job = job(None if asked is None else {"numNodes": asked})
    got = rjobs(a_job, mpi(nodes=nodes, runLauncherAsNode=as_node))
    assert {name: item["template"]["spec"]["parallelism"] for name, item in got.items()} == want


GPU = {"limits": {"nvidia.com/gpu": 4}}
SLOTS: list[Any] = [
    pytest.param({}, None, {}, "1", id="nothing said"),
    pytest.param({"numProcPerNode": 1}, GPU, {}, "4", id="GPUs where the runtime says one"),
    pytest.param({"numProcPerNode": 2}, GPU, {}, "2", id="the runtime's number"),
    pytest.param({"numProcPerNode": 2}, GPU, {"numProcPerNode": 3}, "3", id="the job's number"),
    pytest.param({}, GPU, {"resourcesPerNode": {"limits": {"nvidia.com/gpu": 8}}}, "8", id="GPUs of the job"),
]


@pytest.mark.parametrize(("policy", "resources", "trainer", "want"), SLOTS)
def test_slots(policy: JSON, resources: JSON | None, trainer: JSON, want: str) -> None:
    spec = mpi(resources=resources, **policy)
    variables = env(container(job(trainer), spec, "node", "launcher"))
    assert variables["OMPI_MCA_orte_set_default_slots"] == want
    assert hosts(job(trainer), spec) == [f"alpha-node-0-0.alpha slots={want}"]


def test_volumes_mounts_and_variables() -> None:
    spec = mpi(sshAuthMountPath="/home/mpiuser/.ssh")

    node, launcher = (pods(job(), spec)[name] for name in ("node", "launcher"))

    assert [item["name"] for item in node["volumes"]] == ["mpi-ssh-auth"]
    assert [item["name"] for item in launcher["volumes"]] == ["mpi-ssh-auth", "mpi-hostfile"]
    assert node["volumes"][0]["secret"]["defaultMode"] == 0o400
    assert [item["mode"] for item in node["volumes"][0]["secret"]["items"]] == [0o640, 0o644, 0o644]
    assert node["containers"][0]["volumeMounts"] == [{"name": "mpi-ssh-auth", "mountPath": "/home/mpiuser/.ssh"}]
    assert [item["mountPath"] for item in launcher["containers"][0]["volumeMounts"]][1:] == ["/etc/mpi"]
    assert env(node["containers"][0]) == {}
    assert list(env(launcher["containers"][0])) == [
        "OMPI_MCA_orte_default_hostfile",
        "OMPI_MCA_orte_keep_fqdn_hostnames",
        "OMPI_MCA_orte_set_default_slots",
        "OMPI_MCA_plm_rsh_args",
    ]


def test_the_users_variables_reach_the_nodes_when_the_launcher_is_one() -> None:
    a_job = job({"env": [{"name": "U", "value": "1"}]})
    assert env(container(a_job, mpi(runLauncherAsNode=True))) == {"U": "1"}
    assert env(container(a_job, mpi(runLauncherAsNode=False))) == {}
    assert list(env(container(a_job, mpi(), "node", "launcher")))[-1] == "U"


def test_hosts_in_the_order_of_the_runtime() -> None:
    spec = runtime(rjob("launcher"), rjob("node", ancestor=None), ml={"mpi": {"runLauncherAsNode": True}})
    assert hosts(job({"numNodes": 3}), spec) == [
        "alpha-launcher-0-0.alpha slots=1",
        "alpha-node-0-0.alpha slots=1",
        "alpha-node-0-1.alpha slots=1",
    ]
    assert hosts(job({"numNodes": 0}), mpi()) == []


def test_an_empty_implementation_means_open_mpi() -> None:
    assert hosts(job({"numNodes": 2}), mpi(mpiImplementation="")) == hosts(job({"numNodes": 2}), mpi())


def test_the_key_is_made_once_and_only_when_it_is_written() -> None:
    asked = []

    def key_pair() -> tuple[bytes, bytes]:
        asked.append(1)
        return b"private", b"public"

    secret = plan(job(), mpi(), framework=standard(ssh_key_pair=key_pair)).components[0]

    assert (secret.name, secret.write, asked) == ("alpha-mpi-ssh-auth", Write.ONCE, [])
    assert secret.document()["data"] == {"ssh-privatekey": "cHJpdmF0ZQ==", "ssh-publickey": "cHVibGlj"}
    assert secret.document()["immutable"] is True and secret.document()["type"] == "kubernetes.io/ssh-auth"


def test_the_two_halves_of_the_key_belong_together() -> None:
    data = documents(job(), mpi())["Secret/alpha-mpi-ssh-auth"]["data"]
    private, public = b64decode(data["ssh-privatekey"]), b64decode(data["ssh-publickey"])
    assert private.startswith(b"-----BEGIN EC PRIVATE KEY-----")
    assert public.startswith(b"ecdsa-sha2-nistp521 ") and public.endswith(b"\n") and public.count(b" ") == 1
    assert load_pem_private_key(private, None).public_key() == load_ssh_public_key(public)


def test_two_billion_hosts_are_refused_not_listed() -> None:
    with pytest.raises(BuildError, match=r"spec.trainer.numNodes: .* larger than a ConfigMap"):
        plan(job({"numNodes": 2**31 - 1}), mpi())


LAUNCHER: list[Any] = [
    pytest.param(mpi(launcher=False, runLauncherAsNode=True), 2, ["no launcher job"], id="no launcher"),
    pytest.param(mpi(node=False, runLauncherAsNode=True), 2, ["no node job"], id="no node"),
    pytest.param(mpi(node=False, runLauncherAsNode=True), 1, [], id="one node needs no second job"),
    pytest.param(mpi(launcher=False, runLauncherAsNode=False), 2, [], id="launcher apart"),
    pytest.param(mpi(runLauncherAsNode=True), 2, [], id="both there"),
]


@pytest.mark.parametrize(("spec", "nodes", "want"), LAUNCHER)
def test_a_launcher_that_is_a_node_needs_both_jobs(spec: JSON, nodes: int, want: list[str]) -> None:
    got = rules(job({"numNodes": nodes}), spec)
    assert len(got) == len(want) and all(text in rule for text, rule in zip(want, got, strict=True))


def test_reserved_variables_of_mpi() -> None:
    a_job = job({"env": [{"name": name} for name in ("OMPI_MCA_plm_rsh_args", "OMPI_MCA_other")]})
    (rule,) = rules(a_job, mpi())
    assert rule.startswith('spec.trainer.env: Invalid value: ["OMPI_MCA_plm_rsh_args"]')
