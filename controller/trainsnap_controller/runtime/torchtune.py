# SPDX-License-Identifier: Apache-2.0
"""torchtune: which recipe and which built-in config a job means, and the command that says so.

A job asks for it with exactly ``["tune", "run"]`` as its command. Helper of the torch plugin.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from trainsnap_controller.runtime.errors import FieldError
from trainsnap_controller.runtime.job import Job

COMMAND: Final = ("tune", "run")
MANAGED: Final = ("output_dir", "tokenizer.path", "tokenizer.merges_file", "checkpointer.checkpoint_dir")
"""Overrides that the runtime decides on: they name places in its volumes."""

_SINGLE_LORA: Final = "lora_finetune_single_device"
_SINGLE_FULL: Final = "full_finetune_single_device"
_MANY_LORA: Final = "lora_finetune_distributed"
_MANY_FULL: Final = "full_finetune_distributed"

_QWEN: Final = "qwen2_5/1.5B"
_LARGEST: Final = "llama3_3/70B"
_SMALL: Final = ("llama3_2/1B", "llama3_2/3B")
_MODELS: Final = (*_SMALL, _LARGEST, _QWEN)
_QLORA: Final = "_qlora"
_QLORA_SINGLE: Final = "_qlora_single_device"
_SUPPORTED: Final = ", ".join(_MODELS)


@dataclass(frozen=True, slots=True)
class Devices:
    """What a job runs on. ``processes`` is the number per node, or None where torchrun finds out by itself."""

    nodes: int
    processes: int | None
    gpus: int

    @property
    def single(self) -> bool:
        """Whether the recipe for one device is meant."""
        return self.nodes == 1 and (self.processes == 1 or self.gpus == 1)

    @property
    def several_processes(self) -> bool:
        """Whether processes must find each other."""
        if self.nodes > 1:
            return True
        return self.gpus > 1 if self.processes is None else self.processes > 1


def asked_for(job: Job) -> bool:
    """Whether the job's command is torchtune's."""
    return job.trainer is not None and job.trainer.command == COMMAND


def command(job: Job, devices: Devices, endpoint: str, template: Sequence[str]) -> tuple[str, ...]:
    """The whole command. ``endpoint`` is the rendezvous; ``template`` the runtime's command, whose managed overrides
    are kept in their order."""
    recipe, suffix = _recipe(job, devices)
    meeting = (f"--rdzv_endpoint={endpoint}",) if devices.several_processes else ()
    kept = tuple(item for item in template if item.partition("=")[0] in MANAGED)
    return (*COMMAND, *meeting, recipe, "--config", f"{model(job)}{suffix}", *kept)


def model(job: Job) -> str:
    """The model in the runtime's name: ``torchtune-llama3.2-1b`` means ``llama3_2/1B``; "" for any other form."""
    parts = job.runtime_ref.name.split("-")
    return f"{parts[1].replace('.', '_')}/{parts[2].upper()}" if len(parts) == 3 else ""


def validate(job: Job, devices: Devices) -> Iterator[FieldError]:
    """What torchtune has no config for, and overrides that are not the job's."""
    _, suffix = _recipe(job, devices)
    name, chosen = job.runtime_ref.name, model(job)
    if chosen not in _MODELS:
        yield FieldError("spec.runtimeRef.name", name, f"names no supported model, which are {_SUPPORTED}")
    if devices.nodes > 1 and chosen != _LARGEST:
        yield FieldError("spec.trainer.numNodes", devices.nodes, f"must be 1 for any model but {_LARGEST}")
    if suffix.startswith(_QLORA) and chosen == _QWEN:
        yield FieldError("spec.runtimeRef.name", name, f"QLoRA is not supported for {_QWEN}")
    if suffix.startswith(_QLORA) and suffix != _QLORA_SINGLE and chosen in _SMALL:
        per_node = job.trainer.num_proc_per_node if job.trainer else None
        rule = f"must be 1 or not set for QLoRA with {chosen}"
        yield FieldError("spec.trainer.numProcPerNode", per_node, rule)
        resources = job.trainer.resources if job.trainer else None
        yield FieldError("spec.trainer.resourcesPerNode", resources, f"must have one GPU for QLoRA with {chosen}")
    if devices.nodes > 1 and (_lora(_args(job)) or _qlora(_args(job))):
        yield FieldError("spec.trainer.numNodes", devices.nodes, "must be 1 for LoRA and QLoRA")
    yield from _managed_overrides(job)


def _managed_overrides(job: Job) -> Iterator[FieldError]:
    for index, item in enumerate(_args(job)):
        if item.partition("=")[0] in MANAGED:
            yield FieldError(f"spec.trainer.args[{index}]", item, "is set by the runtime and cannot be overridden")


def _recipe(job: Job, devices: Devices) -> tuple[str, str]:
    """Recipe, and what its config's name ends with."""
    args = _args(job)
    qlora, lora = _qlora(args), _lora(args)
    if devices.single:
        if qlora:
            return _SINGLE_LORA, _QLORA_SINGLE
        return (_SINGLE_LORA, "_lora_single_device") if lora else (_SINGLE_FULL, "_full_single_device")
    if devices.nodes == 1 and qlora:
        return _MANY_LORA, _QLORA
    if devices.nodes == 1 and lora:
        return _MANY_LORA, "_lora"
    return _MANY_FULL, "_full_multinode" if devices.nodes > 1 else "_full"


def _args(job: Job) -> tuple[str, ...]:
    return (job.trainer.args if job.trainer else None) or ()


def _lora(args: Sequence[str]) -> bool:
    return any("model.lora_attn_modules" in item for item in args)


def _qlora(args: Sequence[str]) -> bool:
    return _switched_on(args, "model.quantize_base") and not _switched_on(args, "model.use_dora")


def _switched_on(args: Sequence[str], name: str) -> bool:
    pairs = (item.partition("=") for item in args)
    return any(name in key and equals and value.strip().lower() == "true" for key, equals, value in pairs)
