# SPDX-License-Identifier: Apache-2.0
"""The samples of docs/writing-jobs.md: good for the schema and for admission, and built to the effect told."""

from __future__ import annotations

import copy
import functools
import json
import re
from typing import Any

import pytest
import yaml

from support import building, pages
from support.offline_golden import defaulted, schemas
from trainsnap_api import validate
from trainsnap_controller.runtime.blueprint import broken_rules, without_effect
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.runtime.registry import standard

JSON = dict[str, Any]
PAGE = "docs/writing-jobs.md"
SAMPLES: list[JSON] = [yaml.safe_load(block) for block in pages.blocks(PAGE, "yaml")]
RUNTIMES = {item["metadata"]["name"]: item for item in SAMPLES if item["kind"] != "TrainJob"}
JOBS = {item["metadata"]["name"]: item for item in SAMPLES if item["kind"] == "TrainJob"}
LABEL = "trainer.kubeflow.org/trainjob-ancestor-step"


@functools.cache
def _schemas() -> dict[str, JSON]:
    return schemas()


def spec_of(name: str) -> JSON:
    """A runtime's spec as the API server stores it."""
    sample = RUNTIMES[name]
    spec: JSON = defaulted(sample, _schemas()[sample["kind"]])["spec"]
    return spec


def built(name: str, *, unlabelled: bool = False, **changes: Any) -> tuple[Job, JSON]:
    """A job of the page as it is stored, with other fields in its spec, and the runtime that it names."""
    sample = copy.deepcopy(JOBS[name])
    sample["metadata"] |= {"namespace": "team", "uid": "uid-1"}
    sample["spec"] |= changes
    job = Job.from_json(defaulted(sample, _schemas()["TrainJob"]))
    spec = spec_of(job.runtime_ref.name)
    for replicated in spec["template"]["spec"]["replicatedJobs"] if unlabelled else ():
        replicated["template"].get("metadata", {}).pop("labels", None)
    return job, spec


def node(name: str, rjob: str = "node", **options: Any) -> JSON:
    return building.container(*built(name, **options), "node", rjob)


def pods(name: str, **options: Any) -> dict[str, int]:
    found = building.rjobs(*built(name, **options))
    return {rjob: item["template"]["spec"]["parallelism"] for rjob, item in found.items()}


def test_the_page_has_samples_of_everything() -> None:
    assert RUNTIMES.keys() == {"plain", "torch", "mpi", "torch-with-data"}
    assert JOBS.keys() == {"hello", "resnet", "ring", "bert-data", "bert-placed"}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample["metadata"]["name"])
def test_the_schema_takes_a_sample(sample: JSON) -> None:
    assert validate(sample).problems == ()


@pytest.mark.parametrize("name", RUNTIMES)
def test_admission_takes_a_runtime_without_a_word(name: str) -> None:
    assert [*broken_rules(spec_of(name)), *without_effect(spec_of(name))] == []


@pytest.mark.parametrize("name", JOBS)
def test_admission_takes_a_job(name: str) -> None:
    job, spec = built(name)
    kind = RUNTIMES[job.runtime_ref.name]["kind"]
    assert job.runtime_ref.key == f"{kind}.trainer.kubeflow.org"
    assert standard().validate_new(job, spec) == ()


def test_plain() -> None:
    container = node("hello")
    assert container["command"] == ["python", "-c"]
    assert container["args"] == ['import os; print(os.environ["WHO"])']
    assert building.env(container) == {"WHO": "world"}
    assert container["resources"] == {"requests": {"cpu": "1", "memory": "2Gi"}}, "key by key"
    assert pods("hello") == {"node": 1}


def test_torch_on_two_nodes() -> None:
    container = node("resnet")
    assert pods("resnet") == {"node": 2}
    assert (container["image"], container["command"]) == ("registry.example/resnet:v1", ["torchrun", "train.py"])
    variables = building.env(container)
    assert variables.pop("PET_NODE_RANK").keys() == {"fieldRef"}
    assert variables == {
        "PET_NNODES": "2",
        "PET_NPROC_PER_NODE": "auto",
        "PET_MASTER_ADDR": "resnet-node-0-0.resnet",
        "PET_MASTER_PORT": "29500",
    }
    assert building.env(node("resnet", trainer={}))["PET_NPROC_PER_NODE"] == "1"
    assert building.env(node("resnet", trainer={"resourcesPerNode": {"requests": {"cpu": "3"}}}))[
        "PET_NPROC_PER_NODE"
    ] == ("3")
    assert building.env(node("resnet", trainer={"numProcPerNode": 8}))["PET_NPROC_PER_NODE"] == "8"
    assert building.env(node("resnet", trainer=None)) == {}, "without a trainer section"


def test_mpi_with_a_launcher() -> None:
    job, spec = built("ring")
    assert pods("ring") == {"node": 2, "launcher": 1}
    assert building.container(job, spec, "node", "launcher")["command"] == ["mpirun", "python", "ring.py"]
    assert building.container(job, spec)["command"] == ["/usr/sbin/sshd", "-De"]
    documents = building.documents(job, spec)
    assert documents["ConfigMap/ring-mpi-hostfile"]["data"]["hostfile"].splitlines() == [
        "ring-node-0-0.ring slots=2",
        "ring-node-0-1.ring slots=2",
        "ring-launcher-0-0.ring slots=2",
    ]
    assert "Secret/ring-mpi-ssh-auth" in documents
    spec["mlPolicy"]["mpi"]["runLauncherAsNode"] = False
    found = building.rjobs(job, spec)
    assert {name: item["template"]["spec"]["parallelism"] for name, item in found.items()} == {"node": 3, "launcher": 1}


def test_a_launcher_that_is_a_node_shares_variables_and_resources_with_the_nodes() -> None:
    trainer = {"env": [{"name": "A", "value": "1"}], "resourcesPerNode": {"limits": {"cpu": "2"}}, "numNodes": 2}
    for rjob in ("node", "launcher"):
        container = node("ring", rjob, trainer=trainer)
        assert building.env(container)["A"] == "1"
        assert container["resources"] == {"limits": {"cpu": "2"}}


def test_a_data_set() -> None:
    job, spec = built("bert-data")
    container = building.container(job, spec, "dataset-initializer", "dataset-initializer")
    assert building.env(container) == {"STORAGE_URI": "hf://registry.example/reviews"}
    assert container["envFrom"] == [{"secretRef": {"name": "hub-token"}}]
    assert pods("bert-data") == {"dataset-initializer": 1, "node": 2}
    assert building.rjobs(job, spec)["node"]["dependsOn"] == [{"name": "dataset-initializer", "status": "Complete"}]


def test_patches() -> None:
    job, spec = built("bert-placed")
    pod = building.pods(job, spec)["node"]
    assert pod["nodeSelector"] == {"acme.example/pool": "a100"}
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert pod["volumes"] == [{"name": "scratch", "emptyDir": {}}]
    container = building.container(job, spec)
    assert container["volumeMounts"] == [{"name": "scratch", "mountPath": "/scratch"}]
    assert container["command"] == ["torchrun", "train.py"], "what is not patched stays"


def test_a_job_is_resumed_by_the_command_of_the_page() -> None:
    job, spec = built("bert-placed")
    assert building.job_set(job, spec)["spec"]["suspend"] is True
    (command,) = (block for block in pages.blocks(PAGE, "console") if "kubectl patch" in block)
    name, patch = re.fullmatch(r"kubectl patch trainjob (\S+) --type=merge -p '(.*)'\n", command).groups()  # type: ignore[union-attr]
    resumed, spec = built(name, **json.loads(patch)["spec"])
    assert building.job_set(resumed, spec)["spec"]["suspend"] is False


def test_without_the_label() -> None:
    _, spec = built("resnet", unlabelled=True)
    assert len(list(without_effect(spec))) == 1
    trainer = {"image": "other", "numNodes": 5, "command": ["x"], "env": [{"name": "A", "value": "1"}]}
    assert node("resnet", unlabelled=True, trainer=trainer) == {
        "name": "node",
        "image": "pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime",
        "command": ["torchrun", "train.py"],
        "resources": {},
    }
    assert pods("resnet", unlabelled=True, trainer=trainer) == {"node": 1}


def test_mpi_without_the_label_goes_by_name() -> None:
    assert pods("ring", unlabelled=True) == {"node": 2, "launcher": 1}
    launcher = node("ring", "launcher", unlabelled=True)
    assert "command" not in launcher
    assert "OMPI_MCA_orte_default_hostfile" in building.env(launcher)
