# SPDX-License-Identifier: Apache-2.0
"""``mlPolicy.torch``: the variables that torchrun reads, on the trainer and wherever the runtime wants them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from trainsnap_controller import constants as c
from trainsnap_controller.runtime import normalform, rendezvous, resources, torchtune, upsert
from trainsnap_controller.runtime.errors import BuildError, FieldError
from trainsnap_controller.runtime.info import PodSet, RuntimeInfo
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.runtime.observed import Observed

JSON = dict[str, Any]

RESERVED: Final = ("PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE")
_AUTO: Final = "auto"
_TARGETS: Final = "runtime.spec.mlPolicy.torch.envInjection.targets"


class Torch:
    """Runs for runtimes with ``mlPolicy.torch``."""

    name = "torch"

    def enforce_ml_policy(self, job: Job, info: RuntimeInfo) -> RuntimeInfo:
        """Counts, variables and the port. Raises ``BuildError`` for an injection target that does not exist."""
        if info.policy("torch") is None:
            return info
        pod_set = info.by_ancestor(c.TRAINER)
        if pod_set is not None and job.trainer is not None:
            pod_set = pod_set.with_count(job.trainer.num_nodes)
            info = info.with_pod_set(pod_set)
        processes = processes_per_node(job, info)
        variables = _variables(job, info, pod_set, processes)
        if pod_set is not None and job.trainer is not None:
            info = info.with_pod_set(_on_trainer(job, pod_set, variables))
            info = _with_tune_command(job, info, pod_set)
        for target, container in _targets(info):
            info = _injected(info, target, container, variables)
        return info

    def validate(self, job: Job, info: RuntimeInfo, observed: Observed, old: Job | None) -> Sequence[FieldError]:
        """Injection targets exist, and the job does not set what is set here."""
        del observed, old
        if info.policy("torch") is None:
            return []
        return [
            *_missing_targets(job, info),
            *rendezvous.reserved_variables(job, RESERVED, "torch"),
            *_tune_rules(job, info),
        ]


def processes_per_node(job: Job, info: RuntimeInfo) -> str:
    """Processes that torchrun starts on a node: what the job says, else ``auto`` with GPUs, else one per CPU."""
    if job.trainer is not None and job.trainer.num_proc_per_node is not None:
        return str(job.trainer.num_proc_per_node)
    node = resources.of_trainer(job, info)
    return _AUTO if resources.gpus(node) > 0 else str(max(1, resources.cpus(node)))


def _variables(job: Job, info: RuntimeInfo, pod_set: PodSet | None, processes: str) -> list[JSON]:
    return [
        rendezvous.literal("PET_NNODES", 1 if pod_set is None else pod_set.count),
        rendezvous.literal("PET_NPROC_PER_NODE", processes),
        rendezvous.from_pod_index("PET_NODE_RANK"),
        rendezvous.literal("PET_MASTER_ADDR", rendezvous.rank_zero_host(job, info)),
        rendezvous.literal("PET_MASTER_PORT", c.TRAINER_PORT),
    ]


def _on_trainer(job: Job, pod_set: PodSet, variables: list[JSON]) -> PodSet:
    own = normalform.env_list(job.trainer.env if job.trainer else (), "spec.trainer.env")
    if torchtune.asked_for(job):  # It is given the master in its command.
        variables = [item for item in variables if not item["name"].startswith("PET_MASTER_")]
    change = upsert.on_container(env_vars=[*own, *variables], port_list=[rendezvous.trainer_port()])
    return pod_set.with_container(c.NODE, change)


def _with_tune_command(job: Job, info: RuntimeInfo, pod_set: PodSet) -> RuntimeInfo:
    """torchtune's whole command in place of the job's two words."""
    container = pod_set.container(c.NODE)
    if job.trainer is None or container is None or not torchtune.asked_for(job):
        return info
    processes = processes_per_node(job, info)
    devices = torchtune.Devices(
        nodes=pod_set.count, processes=None if processes == _AUTO else int(processes), gpus=_gpus(job, info)
    )
    endpoint = f"{rendezvous.rank_zero_host(job, info)}:{c.TRAINER_PORT}"
    command = torchtune.command(job, devices, endpoint, container.get("command") or [])
    return replace(info, trainer=replace(job.trainer, command=command))


def _tune_rules(job: Job, info: RuntimeInfo) -> Iterator[FieldError]:
    """Counted from the job alone, as in the reference: nodes of the runtime and CPUs are not looked at."""
    if job.trainer is not None and torchtune.asked_for(job):
        nodes = 1 if job.trainer.num_nodes is None else job.trainer.num_nodes
        devices = torchtune.Devices(nodes, job.trainer.num_proc_per_node, _gpus(job, info))
        yield from torchtune.validate(job, devices)


def _gpus(job: Job, info: RuntimeInfo) -> int:
    return resources.gpus(resources.of_trainer(job, info))


def _injected(info: RuntimeInfo, target: str, container: str, variables: list[JSON]) -> RuntimeInfo:
    """The variables in one container, or init container, of the replicated job of that name."""
    pod_set = info.by_name(target)
    if pod_set is None or not pod_set.has(container):
        raise BuildError(_TARGETS, f"replicated job {target!r} has no container named {container!r}")
    change = upsert.on_container(env_vars=variables)
    if pod_set.container(container) is not None:
        return info.with_pod_set(pod_set.with_container(container, change))
    return info.with_pod_set(pod_set.with_init_container(container, change))


def _targets(info: RuntimeInfo) -> Iterator[tuple[str, str]]:
    """Replicated job and container of every injection, in the runtime's order."""
    injection = (info.policy("torch") or {}).get("envInjection") or {}
    for target in injection.get("targets") or []:
        for container in target["containerNames"]:
            yield target["jobName"], container


def _missing_targets(job: Job, info: RuntimeInfo) -> Iterator[FieldError]:
    for target, container in _targets(info):
        pod_set = info.by_name(target)
        if pod_set is None or not pod_set.has(container):
            value = {"jobName": target, "containerName": container}
            rule = f"the runtime injects variables into container {container!r} of {target!r}, which it does not have"
            yield FieldError("spec.runtimeRef", value, rule)
