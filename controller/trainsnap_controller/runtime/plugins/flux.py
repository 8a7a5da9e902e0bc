# SPDX-License-Identifier: Apache-2.0
"""``mlPolicy.flux``: a Flux instance over the nodes; the user's command runs inside it.

An init container brings Flux along, so the user's image needs none. The command is wrapped in a script of ours.
"""

from __future__ import annotations

import secrets
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from trainsnap_api.transport.resources import CONFIG_MAP, SECRET
from trainsnap_controller import constants as c
from trainsnap_controller.runtime import flux_scripts, resources, upsert
from trainsnap_controller.runtime.component import Component, Write
from trainsnap_controller.runtime.curve import certificate
from trainsnap_controller.runtime.errors import FieldError
from trainsnap_controller.runtime.info import PodSet, RuntimeInfo
from trainsnap_controller.runtime.job import Job, Trainer
from trainsnap_controller.runtime.observed import Need, Observed

JSON = dict[str, Any]

INSTALLER: Final = "flux-installer"
_VIEW_IMAGE: Final = "FLUX_VIEW_IMAGE"
_NETWORK_DEVICE: Final = "FLUX_NETWORK_DEVICE"
_QUEUE_POLICY: Final = "FLUX_QUEUE_POLICY"
_DEFAULTS: Final = {
    _VIEW_IMAGE: "ghcr.io/converged-computing/flux-view-ubuntu:tag-jammy",
    _NETWORK_DEVICE: "eth0",
    _QUEUE_POLICY: "fcfs",
}
_SCRIPTS_FOLDER: Final = "/etc/flux-config"
_INSTALL: Final = "flux-install"
_SOFTWARE: Final = "spack-install"
_CURVE: Final = "flux-curve"
_MEMORY: Final = "shared-memory"


def new_secret_key() -> bytes:
    """A random key of 32 bytes."""
    return secrets.token_bytes(32)


class Flux:
    """Runs for runtimes with ``mlPolicy.flux``, behind plainml, which has counted the nodes by then.

    ``secret_key`` is called when a job's Secret is made, once a job.
    """

    name = "flux"

    def __init__(self, *, secret_key: Callable[[], bytes] = new_secret_key) -> None:
        self._secret_key = secret_key

    def needs(self, job: Job, spec: JSON) -> Sequence[Need]:
        """Whether the Secret exists, and what the scripts say."""
        if (spec.get("mlPolicy") or {}).get("flux") is None:
            return []
        return [
            Need(SECRET, job.namespace, _secret_name(job)),
            Need(CONFIG_MAP, job.namespace, _config_map_name(job)),
        ]

    def enforce_ml_policy(self, job: Job, info: RuntimeInfo) -> RuntimeInfo:
        """Wraps the command, and adds the installer with all that it shares with the container ``node``."""
        workload = _workload(info)
        if info.policy("flux") is None or workload is None:
            return info
        trainer = job.trainer or Trainer()
        command = ("/bin/bash", f"{_SCRIPTS_FOLDER}/entrypoint.sh", _original_command(trainer, info))
        info = replace(info, trainer=replace(trainer, command=command, args=None))
        return info.with_pod_set(_with_flux(job, workload, _settings(info)))

    def components(self, job: Job, info: RuntimeInfo, observed: Observed) -> Sequence[Component]:
        """The certificate, once, and the scripts, kept equal."""
        del observed
        if info.policy("flux") is None:
            return []
        secret = Component(SECRET, job.namespace, _secret_name(job), Write.ONCE, lambda: self._secret(job))
        return [secret, Component.of(CONFIG_MAP, _config_map(job, info))]

    def validate(self, job: Job, info: RuntimeInfo, observed: Observed, old: Job | None) -> Sequence[FieldError]:
        """The installer's name is free."""
        del job, observed, old
        workload = _workload(info)
        if info.policy("flux") is None or workload is None:
            return []
        taken = any(item["name"] == INSTALLER for item in workload.init_containers)
        rule = "the runtime has an init container of this name, which Flux needs for its own"
        return [FieldError("spec.trainer.initContainers", INSTALLER, rule)] if taken else []

    def _secret(self, job: Job) -> JSON:
        text = certificate(self._secret_key(), job.name)
        return {
            "apiVersion": SECRET.api_version,
            "kind": SECRET.kind,
            "metadata": job.child_metadata(_secret_name(job)),
            "data": {"curve.cert": b64encode(text.encode()).decode()},
        }


def _secret_name(job: Job) -> str:
    return f"{job.name}-{_CURVE}"


def _config_map_name(job: Job) -> str:
    return f"{job.name}-flux-entrypoint"


def _workload(info: RuntimeInfo) -> PodSet | None:
    """The replicated job that Flux spans: the trainer's, else the one named ``node``."""
    return info.by_ancestor(c.TRAINER) or info.by_name(c.NODE)


def _original_command(trainer: Trainer, info: RuntimeInfo) -> str:
    """What Flux runs: the job's command or else the runtime's, and the job's arguments, in one line.

    The runtime's arguments stay on the container and reach the script behind the line.
    """
    pod_set = info.by_ancestor(c.TRAINER)
    container = (pod_set.container(c.NODE) if pod_set else None) or {}
    command: Iterable[str] = container.get("command") or () if trainer.command is None else trainer.command
    return " ".join([*command, *(trainer.args or ())]).strip()


def _settings(info: RuntimeInfo) -> dict[str, str]:
    """Defaults, under what the container's variables say; those of the job are among them by now."""
    pod_set = info.by_ancestor(c.TRAINER)
    container = (pod_set.container(c.NODE) if pod_set else None) or {}
    given = {item["name"]: item.get("value", "") for item in container.get("env") or []}
    return {name: given.get(name) or default for name, default in _DEFAULTS.items()}


def _with_flux(job: Job, pod_set: PodSet, settings: dict[str, str]) -> PodSet:
    scripts = _config_map_name(job)
    volumes: list[JSON] = [
        {"name": _SOFTWARE, "emptyDir": {}},
        {"name": _INSTALL, "emptyDir": {}},
        {"name": scripts, "configMap": {"name": scripts, "defaultMode": 0o755}},
        {"name": _MEMORY, "emptyDir": {"medium": "Memory"}},
        {"name": _CURVE, "secret": {"secretName": _secret_name(job), "defaultMode": 0o400}},
    ]
    install: JSON = {"name": _INSTALL, "mountPath": "/mnt/flux"}
    read_scripts = {"name": scripts, "mountPath": _SCRIPTS_FOLDER, "readOnly": True}
    installer = {
        "name": INSTALLER,
        "image": settings[_VIEW_IMAGE],
        "command": ["/bin/bash", f"{_SCRIPTS_FOLDER}/init.sh"],
        "volumeMounts": [install, read_scripts],
    }
    mounts: list[JSON] = [
        install,
        {"name": _SOFTWARE, "mountPath": "/opt/software"},
        read_scripts,
        {"name": _CURVE, "mountPath": "/curve", "readOnly": True},
        {"name": _MEMORY, "mountPath": "/dev/shm", "readOnly": True},
    ]
    pod_set = pod_set.with_volumes(volumes)
    pod_set = pod_set.with_pod_spec(initContainers=[*pod_set.init_containers, installer])
    return pod_set.with_container(c.NODE, upsert.on_container(volume_mounts=mounts))


def _config_map(job: Job, info: RuntimeInfo) -> JSON:
    policy, settings = info.policy("flux") or {}, _settings(info)
    workload = _workload(info)
    per_node = job.trainer.num_proc_per_node if job.trainer else None
    cluster = flux_scripts.Cluster(
        prefix=f"{job.name}-{workload.name if workload else c.NODE}-0",
        domain=f"{info.subdomain or job.name}.{job.namespace}.svc",
        nodes=workload.count if workload else 0,
        processes=int(policy.get("numProcPerNode", 1)) if per_node is None else per_node,
        gpus=resources.gpus(resources.of_trainer(job, info)),
        network_device=settings[_NETWORK_DEVICE],
        queue_policy=settings[_QUEUE_POLICY],
    )
    return {
        "apiVersion": CONFIG_MAP.api_version,
        "kind": CONFIG_MAP.kind,
        "metadata": job.child_metadata(_config_map_name(job)),
        "data": {
            "entrypoint.sh": flux_scripts.entrypoint(cluster),
            "init.sh": flux_scripts.init_script(cluster),
        },
    }
