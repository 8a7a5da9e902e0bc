# SPDX-License-Identifier: Apache-2.0
"""plainml, torch, jax and xgboost: counts, variables in their order, and ports."""

from __future__ import annotations

from typing import Any

import pytest

from support.building import box, container, env, job, plan, rjob, rjobs, rules, runtime
from trainsnap_controller.runtime.errors import BuildError

JSON = dict[str, Any]
INDEX = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
USER = [{"name": "U", "value": "1"}]
GPUS = {"limits": {"nvidia.com/gpu": 2}}


def torch(nodes: str, processes: str, host: str = "alpha-node-0-0.alpha") -> JSON:
    return {
        "PET_NNODES": nodes,
        "PET_NPROC_PER_NODE": processes,
        "PET_NODE_RANK": INDEX,
        "PET_MASTER_ADDR": host,
        "PET_MASTER_PORT": "29500",
    }


COUNTS: list[Any] = [
    pytest.param({}, None, 1, id="nothing said"),
    pytest.param({"numNodes": 3}, None, 3, id="the runtime's number"),
    pytest.param({"numNodes": 3}, {"numNodes": 5}, 5, id="the job's number"),
    pytest.param({"numNodes": 3}, {"numNodes": 0}, 0, id="none at all"),
    pytest.param({"numNodes": -2}, {}, 1, id="a negative number of the runtime is one"),
]


@pytest.mark.parametrize(("ml", "trainer", "want"), COUNTS)
@pytest.mark.parametrize("framework", ["plain", "torch", "jax", "xgboost"])
def test_number_of_nodes(framework: str, ml: JSON, trainer: JSON | None, want: int) -> None:
    policy = ml if framework == "plain" else {**ml, framework: {}}
    assert rjobs(job(trainer), runtime(ml=policy))["node"]["template"]["spec"]["parallelism"] == want


def test_plain_runtimes_get_the_users_variables_only() -> None:
    got = container(job({"env": USER}), runtime(rjob("node", box(env=[{"name": "A", "value": "0"}])), ml={}))
    assert env(got) == {"A": "0", "U": "1"}
    assert "ports" not in got


PROCESSES: list[Any] = [
    pytest.param({}, None, "1", id="nothing said"),
    pytest.param({"numProcPerNode": 4}, GPUS, "4", id="the job's number"),
    pytest.param({}, GPUS, "auto", id="GPUs of the runtime"),
    pytest.param({"resourcesPerNode": GPUS}, None, "auto", id="GPUs of the job"),
    pytest.param({"resourcesPerNode": {"requests": {"cpu": "2500m"}}}, GPUS, "3", id="the job's resources alone count"),
    pytest.param({}, {"requests": {"cpu": "500m"}}, "1", id="half a CPU"),
]


@pytest.mark.parametrize(("trainer", "resources", "want"), PROCESSES)
def test_processes_of_torch(trainer: JSON, resources: JSON | None, want: str) -> None:
    spec = runtime(rjob("node", box(resources=resources or {})), ml={"torch": {}})
    assert env(container(job(trainer), spec)) == torch("1", want)


def test_torch_puts_its_variables_behind_the_users() -> None:
    spec = runtime(rjob("node", box(env=[{"name": "PET_NNODES", "value": "x"}])), ml={"numNodes": 2, "torch": {}})
    got = container(job({"env": USER}), spec)
    assert list(env(got)) == [
        "PET_NNODES",
        "U",
        "PET_NPROC_PER_NODE",
        "PET_NODE_RANK",
        "PET_MASTER_ADDR",
        "PET_MASTER_PORT",
    ]
    assert env(got)["PET_NNODES"] == "2"
    assert got["ports"] == [{"containerPort": 29500}]


def test_a_job_without_trainer_gets_no_rendezvous() -> None:
    """Recorded of the reference; an empty ``trainer: {}`` gets everything."""
    for framework in ("torch", "jax", "xgboost"):
        got = container(job(), runtime(ml={framework: {}}))
        assert env(got) == {} and "ports" not in got


def test_the_subdomain_of_the_job_set_is_part_of_the_host() -> None:
    mesh = {"network": {"subdomain": "mesh"}}
    host = "alpha-node-0-0.mesh"
    assert env(container(job({}), runtime(ml={"torch": {}}, **mesh)))["PET_MASTER_ADDR"] == host
    assert env(container(job({}), runtime(ml={"jax": {}}, **mesh)))["JAX_COORDINATOR_ADDRESS"] == f"{host}:29500"
    assert env(container(job({}), runtime(ml={"xgboost": {}}, **mesh)))["DMLC_TRACKER_URI"] == host


def injecting(*containers: str, target: str = "node") -> JSON:
    targets = [{"jobName": target, "containerNames": list(containers)}]
    jobs = [
        rjob("node", box("node"), box("side"), initContainers=[box("init")]),
        rjob("other", box("watch"), ancestor=None),
    ]
    return runtime(*jobs, ml={"torch": {"envInjection": {"targets": targets}}})


def test_injection_reaches_containers_and_init_containers_also_without_a_trainer() -> None:
    spec = injecting("side", "init")
    assert env(container(job(), spec, "side")) == torch("1", "1")
    assert env(container(job(), spec, "init")) == torch("1", "1")
    assert env(container(job(), spec, "node")) == {}
    assert env(container(job(), injecting("watch", target="other"), "watch", "other")) == torch("1", "1")


@pytest.mark.parametrize(("target", "name"), [("node", "ghost"), ("ghost", "side"), ("other", "side")])
def test_injection_into_what_does_not_exist(target: str, name: str) -> None:
    spec = injecting(name, target=target)
    (rule,) = rules(job({}), spec)
    assert rule.startswith("spec.runtimeRef: Invalid value") and repr(name) in rule
    with pytest.raises(BuildError, match="envInjection"):
        plan(job({}), spec)


def test_reserved_variables_of_torch_are_listed_in_one_rule() -> None:
    names = ["PET_NNODES", "OK", "PET_MASTER_ADDR"]
    a_job = job({"env": [{"name": name, "value": "1"} for name in names]})
    (rule,) = rules(a_job, runtime(ml={"torch": {}}))
    assert rule.startswith('spec.trainer.env: Invalid value: ["PET_MASTER_ADDR","PET_NNODES"]')
    assert rules(a_job, runtime(ml={})) == []


def test_jax_puts_its_variables_in_front_of_the_users() -> None:
    got = container(job({"env": USER, "numNodes": 2}), runtime(ml={"jax": {}}))
    assert list(env(got)) == ["JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "JAX_COORDINATOR_ADDRESS", "U"]
    assert env(got)["JAX_NUM_PROCESSES"] == "2"
    assert got["ports"] == [{"containerPort": 29500}]


def test_a_user_may_override_jax() -> None:
    override = [{"name": "JAX_NUM_PROCESSES", "value": "9"}]
    assert env(container(job({"env": override}), runtime(ml={"jax": {}})))["JAX_NUM_PROCESSES"] == "9"


WORKERS: list[Any] = [
    pytest.param({}, {}, "2", id="one a node"),
    pytest.param(GPUS, {}, "4", id="one a GPU"),
    pytest.param(GPUS, {"resourcesPerNode": {"limits": {"nvidia.com/gpu": 4}}}, "8", id="GPUs of the job"),
    pytest.param(GPUS, {"resourcesPerNode": {"limits": {"cpu": 4}}}, "2", id="the job's resources hide the runtime's"),
]


@pytest.mark.parametrize(("resources", "trainer", "want"), WORKERS)
def test_workers_of_xgboost(resources: JSON, trainer: JSON, want: str) -> None:
    spec = runtime(rjob("node", box(resources=resources)), ml={"numNodes": 2, "xgboost": {}})
    got = container(job({**trainer, "env": USER}), spec)
    assert list(env(got)) == ["U", "DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER"]
    assert env(got)["DMLC_NUM_WORKER"] == want
    assert got["ports"] == [{"containerPort": 29500}]


def test_each_reserved_variable_of_xgboost_is_one_rule() -> None:
    names = ["OK", "DMLC_TASK_ID", "DMLC_NUM_WORKER"]
    got = rules(job({"env": [{"name": name, "value": "1"} for name in names]}), runtime(ml={"xgboost": {}}))
    assert [rule.split(":")[0] for rule in got] == ["spec.trainer.env[1]", "spec.trainer.env[2]"]
    assert all(": Forbidden: " in rule for rule in got)
