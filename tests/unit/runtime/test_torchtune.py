# SPDX-License-Identifier: Apache-2.0
"""torchtune: the command that a job's two words become, and what there is no config for."""

from __future__ import annotations

from typing import Any

import pytest

from support.building import box, container, env, job, rjob, rules, runtime

JSON = dict[str, Any]

KEPT = ["output_dir=/o", "tokenizer.path=/t", "checkpointer.checkpoint_dir=/c"]
TEMPLATE = [
    "tune",
    "run",
    "--rdzv_endpoint=localhost:29500",
    "recipe",
    "--config",
    "x",
    "dataset.source=parquet",
    *KEPT,
]
LORA = "model.lora_attn_modules=['q_proj']"
QLORA = "model.quantize_base=True"
DORA = "model.use_dora= true "
SMALL = "torchtune-llama3.2-1b"
LARGE = "torchtune-llama3.3-70b"
QWEN = "torchtune-qwen2.5-1.5b"


def gpus(count: int) -> JSON:
    return {"limits": {"nvidia.com/gpu": count}}


def tune(*args: str, ref: str = SMALL, **trainer: Any) -> Any:
    return job({"command": ["tune", "run"], "args": list(args), **trainer}, ref=ref)


def spec(resources: JSON | None = None, nodes: int = 1) -> JSON:
    node = box("node", command=TEMPLATE, resources=resources or {})
    return runtime(rjob("node", node), ml={"numNodes": nodes, "torch": {}})


COMMANDS: list[Any] = [
    pytest.param(tune(), gpus(1), "full_finetune_single_device llama3_2/1B_full_single_device", id="one device"),
    pytest.param(tune(LORA), gpus(1), "lora_finetune_single_device llama3_2/1B_lora_single_device", id="LoRA"),
    pytest.param(tune(LORA, QLORA), gpus(1), "lora_finetune_single_device llama3_2/1B_qlora_single_device", id="QLoRA"),
    pytest.param(
        tune(LORA, QLORA, DORA), gpus(1), "lora_finetune_single_device llama3_2/1B_lora_single_device", id="DoRA"
    ),
    pytest.param(tune(LORA), gpus(2), "rdzv lora_finetune_distributed llama3_2/1B_lora", id="LoRA, two devices"),
    pytest.param(tune(), gpus(2), "rdzv full_finetune_distributed llama3_2/1B_full", id="two devices"),
    pytest.param(
        tune(ref=LARGE, numNodes=2), gpus(8), "rdzv full_finetune_distributed llama3_3/70B_full_multinode", id="nodes"
    ),
    pytest.param(tune(ref=QWEN), gpus(2), "rdzv full_finetune_distributed qwen2_5/1.5B_full", id="another model"),
    pytest.param(
        tune(numProcPerNode=1), gpus(4), "full_finetune_single_device llama3_2/1B_full_single_device", id="one process"
    ),
    pytest.param(
        tune(numProcPerNode=3), gpus(1), "rdzv full_finetune_single_device llama3_2/1B_full_single_device", id="three"
    ),
    pytest.param(
        tune(resourcesPerNode={"requests": {"cpu": 4}}),
        gpus(2),
        "rdzv full_finetune_distributed llama3_2/1B_full",
        id="processes counted from CPUs",
    ),
]


@pytest.mark.parametrize(("a_job", "resources", "want"), COMMANDS)
def test_commands(a_job: Any, resources: JSON, want: str) -> None:
    meeting = ["--rdzv_endpoint=alpha-node-0-0.alpha:29500"] if want.startswith("rdzv ") else []
    recipe, config = want.removeprefix("rdzv ").split()

    got = container(a_job, spec(resources))

    assert got["command"] == ["tune", "run", *meeting, recipe, "--config", config, *KEPT]
    assert got.get("args", []) == list(a_job.trainer.args)
    assert not {"PET_MASTER_ADDR", "PET_MASTER_PORT"} & set(env(got))


@pytest.mark.parametrize("command", [["tune"], ["tune", "run", "x"], ["torchrun"], ["run", "tune"]], ids=" ".join)
def test_other_commands_are_ordinary_ones(command: list[str]) -> None:
    got = container(job({"command": command}, ref=SMALL), spec())
    assert got["command"] == command
    assert "PET_MASTER_ADDR" in env(got)


def test_the_job_itself_is_left_as_it_was() -> None:
    a_job = tune()
    before = repr(a_job)
    container(a_job, spec())
    assert repr(a_job) == before


REFUSED: list[Any] = [
    pytest.param(tune(), gpus(1), [], id="fine"),
    pytest.param(tune(ref="torchtune-gpt-2"), gpus(1), ["spec.runtimeRef.name"], id="no such model"),
    pytest.param(tune(ref="mine"), gpus(1), ["spec.runtimeRef.name"], id="no model in the name"),
    pytest.param(tune(numNodes=2), gpus(1), ["spec.trainer.numNodes"], id="nodes for a small model"),
    pytest.param(tune(ref=LARGE, numNodes=2), gpus(8), [], id="nodes for the large model"),
    pytest.param(tune(LORA, ref=LARGE, numNodes=2), gpus(8), ["spec.trainer.numNodes"], id="LoRA on nodes"),
    pytest.param(tune(LORA, QLORA, ref=QWEN), gpus(1), ["spec.runtimeRef.name"], id="no QLoRA for Qwen"),
    pytest.param(
        tune(LORA, QLORA),
        gpus(2),
        ["spec.trainer.numProcPerNode", "spec.trainer.resourcesPerNode"],
        id="QLoRA of a small model on several devices",
    ),
    pytest.param(tune(LORA, QLORA, DORA), gpus(2), [], id="DoRA is not QLoRA"),
    pytest.param(
        tune("a=b", "output_dir=/x", "tokenizer.path"),
        gpus(1),
        ["spec.trainer.args[1]", "spec.trainer.args[2]"],
        id="overrides of the runtime's own",
    ),
]


@pytest.mark.parametrize(("a_job", "resources", "want"), REFUSED)
def test_rules(a_job: Any, resources: JSON, want: list[str]) -> None:
    assert [rule.split(": ")[0] for rule in rules(a_job, spec(resources))] == want


def test_rules_are_for_torchtune_only() -> None:
    assert rules(job({"command": ["torchrun"], "args": ["output_dir=/x"], "numNodes": 2}, ref="mine"), spec()) == []
