# SPDX-License-Identifier: Apache-2.0
"""The sample runtimes without a cluster: complete, labelled, the same through the models, and good to build from."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from support import building
from support.offline_golden import defaulted, schemas
from support.samples import FOLDER, kustomized, samples
from trainsnap_api.models import ClusterTrainingRuntime
from trainsnap_controller import constants as c

JSON = dict[str, Any]

FRAMEWORKS = {
    "torch-distributed": "torch",
    "torch-distributed-with-cache": "torch",
    "jax-distributed": "jax",
    "xgboost-distributed": "xgboost",
    "deepspeed-distributed": "deepspeed",
    "mlx-distributed": "mlx",
    "flux-distributed": "flux",
    "torchtune-llama3.2-1b": "torchtune",
    "torchtune-llama3.2-3b": "torchtune",
    "torchtune-qwen2.5-1.5b": "torchtune",
}
EXAMPLES = {"flux-distributed", "torch-distributed-with-cache"}
"""Applied on their own."""

each = pytest.mark.parametrize("name", FRAMEWORKS)


@functools.cache
def _schema() -> JSON:
    return schemas()["TrainingRuntime"]


def runtime(name: str) -> JSON:
    """A sample as the API server stores it."""
    stored: JSON = defaulted(samples()[name], _schema())
    return stored


def test_there_is_one_for_everything_that_is_shipped_elsewhere() -> None:
    assert samples().keys() == FRAMEWORKS.keys()
    assert kustomized() == FRAMEWORKS.keys() - EXAMPLES
    assert kustomized(FOLDER / "data-cache") == {"torch-distributed-with-cache"}


@each
def test_a_sample_says_its_framework_and_needs_no_webhook(name: str) -> None:
    sample = samples()[name]
    assert sample["kind"] == "ClusterTrainingRuntime"
    assert sample["metadata"]["labels"] == {
        c.FRAMEWORK_LABEL: FRAMEWORKS[name],
        c.WEBHOOK_VALIDATION_LABEL: "disabled",
    }


@each
def test_a_sample_comes_back_from_the_models_as_it_was(name: str) -> None:
    sample = samples()[name]
    assert ClusterTrainingRuntime.model_validate(sample).dump() == sample


@each
def test_images_have_a_version(name: str) -> None:
    images = [
        container["image"]
        for rjob in samples()[name]["spec"]["template"]["spec"]["replicatedJobs"]
        for container in rjob["template"]["spec"]["template"]["spec"]["containers"]
    ]
    assert all(image.rpartition("/")[2].partition(":")[2] not in ("", "latest") for image in images), images


@each
@pytest.mark.parametrize("nodes", [None, 1, 3])
def test_a_plain_job_fits_and_is_built(name: str, nodes: int | None) -> None:
    trainer = {"command": ["run"]} if nodes is None else {"command": ["run"], "numNodes": nodes}
    job = building.job(trainer, ref=name)
    spec = runtime(name)["spec"]
    assert building.rules(job, spec) == []
    job_set = building.job_set(job, spec)
    label = "trainer.kubeflow.org/trainjob-ancestor-step"
    trainers = [
        rjob
        for rjob in job_set["spec"]["replicatedJobs"]
        if (rjob["template"].get("metadata") or {}).get("labels", {}).get(label) == "trainer"
    ]
    assert len(trainers) == 1


@pytest.mark.parametrize("name", [name for name in FRAMEWORKS if "tune" in name or "cache" in name])
def test_a_job_may_bring_its_own_data_set(name: str) -> None:
    job = building.job({"command": ["run"]}, ref=name, initializer={"dataset": {"storageUri": "hf://acme/data"}})
    spec = runtime(name)["spec"]
    assert building.rules(job, spec) == []
    container = building.container(job, spec, "dataset-initializer", "dataset-initializer")
    assert building.env(container)["STORAGE_URI"] == "hf://acme/data"


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("torchtune-llama3.2-1b", "llama3_2/1B_full"),
        ("torchtune-llama3.2-3b", "llama3_2/3B_full"),
        ("torchtune-qwen2.5-1.5b", "qwen2_5/1.5B_full"),
    ],
)
def test_tune_run_keeps_the_paths_of_the_sample(name: str, config: str) -> None:
    spec = runtime(name)["spec"]
    job = building.job({"command": ["tune", "run"]}, ref=name)
    command = building.container(job, spec)["command"]
    # "auto" and two GPUs: the processes have to find each other.
    assert command[:2] == ["tune", "run"]
    assert command[command.index("--config") + 1] == config
    assert "full_finetune_distributed" in command
    assert {"output_dir=/workspace/output", "checkpointer.checkpoint_dir=/workspace/model"} <= set(command)
    assert not [word for word in command if word.startswith("dataset")]
