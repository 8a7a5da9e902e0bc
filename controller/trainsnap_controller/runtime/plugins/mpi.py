# SPDX-License-Identifier: Apache-2.0
"""``mlPolicy.mpi``: a launcher that starts processes on the nodes through SSH, with the key and the list of hosts.

OpenMPI is the only implementation; an empty name means it too. The Secret and the ConfigMap are not watched, so the
operator needs no right to list them; one that a user deletes comes back at the next reconcile of the job.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from trainsnap_api.transport.resources import CONFIG_MAP, SECRET
from trainsnap_controller import constants as c
from trainsnap_controller.runtime import rendezvous, resources, upsert
from trainsnap_controller.runtime.component import Component, Write
from trainsnap_controller.runtime.errors import BuildError, FieldError
from trainsnap_controller.runtime.info import PodSet, RuntimeInfo
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.runtime.observed import Need, Observed

JSON = dict[str, Any]
KeyPair = tuple[bytes, bytes]
"""Private key as PEM, public key as a line of authorized_keys."""

_SSH_VOLUME: Final = "mpi-ssh-auth"
_HOSTFILE_VOLUME: Final = "mpi-hostfile"
_HOSTFILE_FOLDER: Final = "/etc/mpi"
_PRIVATE: Final = "ssh-privatekey"
_PUBLIC: Final = "ssh-publickey"
_HOSTFILE_ENV: Final = "OMPI_MCA_orte_default_hostfile"
_FQDN_ENV: Final = "OMPI_MCA_orte_keep_fqdn_hostnames"
_SLOTS_ENV: Final = "OMPI_MCA_orte_set_default_slots"
_RSH_ENV: Final = "OMPI_MCA_plm_rsh_args"
_LARGEST_CONFIG_MAP: Final = 1024 * 1024
RESERVED: Final = (_HOSTFILE_ENV, _FQDN_ENV, _SLOTS_ENV, _RSH_ENV)


def new_key_pair() -> KeyPair:
    """A fresh ECDSA P-521 key, in the forms that sshd and ssh read."""
    key = ec.generate_private_key(ec.SECP521R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return private, public + b"\n"


class MPI:
    """Runs for runtimes with ``mlPolicy.mpi``. ``key_pair`` is called when a job's Secret is made, once a job."""

    name = "mpi"

    def __init__(self, *, key_pair: Callable[[], KeyPair] = new_key_pair) -> None:
        self._key_pair = key_pair

    def needs(self, job: Job, spec: JSON) -> Sequence[Need]:
        """Whether the Secret exists, and what the list of hosts says."""
        if (spec.get("mlPolicy") or {}).get("mpi") is None:
            return []
        return [
            Need(SECRET, job.namespace, _secret_name(job)),
            Need(CONFIG_MAP, job.namespace, _config_map_name(job)),
        ]

    def enforce_ml_policy(self, job: Job, info: RuntimeInfo) -> RuntimeInfo:
        """Counts, volumes, mounts and the launcher's variables."""
        policy = info.policy("mpi")
        if policy is None:
            return info
        node = info.by_name(c.NODE)
        if node is not None and job.trainer is not None and job.trainer.num_nodes is not None:
            nodes = job.trainer.num_nodes
            info = info.with_pod_set(node.with_count(max(nodes - 1, 1) if _launcher_as_node(policy) else nodes))
        for name in (c.NODE, c.LAUNCHER):
            pod_set = info.by_name(name)
            if pod_set is not None:
                info = info.with_pod_set(_prepared(job, info, policy, pod_set))
        return info

    def components(self, job: Job, info: RuntimeInfo, observed: Observed) -> Sequence[Component]:
        """The Secret, once, and the list of hosts, kept equal."""
        policy = info.policy("mpi")
        if policy is None:
            return []
        secret = Component(SECRET, job.namespace, _secret_name(job), Write.ONCE, lambda: self._secret(job))
        return [secret, Component.of(CONFIG_MAP, _config_map(job, info, policy))]

    def validate(self, job: Job, info: RuntimeInfo, observed: Observed, old: Job | None) -> Sequence[FieldError]:
        """A launcher that is a node needs both jobs, and the job does not set what is set here."""
        del observed, old
        policy = info.policy("mpi")
        if policy is None or job.trainer is None:
            return []
        return [*_launcher_rule(job, info, policy), *rendezvous.reserved_variables(job, RESERVED, "MPI")]

    def _secret(self, job: Job) -> JSON:
        private, public = self._key_pair()
        return {
            "apiVersion": SECRET.api_version,
            "kind": SECRET.kind,
            "metadata": job.child_metadata(_secret_name(job)),
            "type": "kubernetes.io/ssh-auth",
            "immutable": True,
            "data": {_PRIVATE: b64encode(private).decode(), _PUBLIC: b64encode(public).decode()},
        }


def _secret_name(job: Job) -> str:
    return f"{job.name}-{_SSH_VOLUME}"


def _config_map_name(job: Job) -> str:
    return f"{job.name}-{_HOSTFILE_VOLUME}"


def _launcher_as_node(policy: JSON) -> bool:
    return bool(policy.get("runLauncherAsNode"))


def _slots(job: Job, info: RuntimeInfo, policy: JSON) -> int:
    """Processes per node: what the job says, else the GPUs where the runtime says 1, else what the runtime says."""
    if job.trainer is not None and job.trainer.num_proc_per_node is not None:
        return job.trainer.num_proc_per_node
    per_node = int(policy.get("numProcPerNode", 1))
    return max(1, resources.gpus(resources.of_trainer(job, info))) if per_node == 1 else per_node


def _prepared(job: Job, info: RuntimeInfo, policy: JSON, pod_set: PodSet) -> PodSet:
    """The key in both jobs; the list of hosts and the variables in the launcher."""
    volumes, mounts, variables = [_ssh_volume(job)], [_mount(_SSH_VOLUME, policy["sshAuthMountPath"])], []
    if pod_set.name == c.LAUNCHER:
        volumes.append(_hostfile_volume(job))
        mounts.append(_mount(_HOSTFILE_VOLUME, _HOSTFILE_FOLDER))
        variables = [
            rendezvous.literal(_HOSTFILE_ENV, f"{_HOSTFILE_FOLDER}/hostfile"),
            rendezvous.literal(_FQDN_ENV, "true"),
            rendezvous.literal(_SLOTS_ENV, _slots(job, info, policy)),
            rendezvous.literal(_RSH_ENV, "-o ConnectionAttempts=10"),
        ]
    change = upsert.on_container(env_vars=variables, volume_mounts=mounts)
    return pod_set.with_volumes(volumes).with_container(c.NODE, change)


def _ssh_volume(job: Job) -> JSON:
    """The private key is 0640: readable by a pod's group, as sshd of a user other than root needs."""
    items = [
        {"key": _PRIVATE, "path": "id_rsa", "mode": 0o640},
        {"key": _PUBLIC, "path": "id_rsa.pub", "mode": 0o644},
        {"key": _PUBLIC, "path": "authorized_keys", "mode": 0o644},
    ]
    return {"name": _SSH_VOLUME, "secret": {"secretName": _secret_name(job), "defaultMode": 0o400, "items": items}}


def _hostfile_volume(job: Job) -> JSON:
    items = [{"key": "hostfile", "path": "hostfile", "mode": 0o444}]
    return {"name": _HOSTFILE_VOLUME, "configMap": {"name": _config_map_name(job), "items": items}}


def _mount(name: str, path: str) -> JSON:
    return {"name": name, "mountPath": path}


def _config_map(job: Job, info: RuntimeInfo, policy: JSON) -> JSON:
    slots = _slots(job, info, policy)
    names = (c.NODE, c.LAUNCHER) if _launcher_as_node(policy) else (c.NODE,)
    hosts = (host for pod_set in info.pod_sets if pod_set.name in names for host in pod_set.endpoints)
    return {
        "apiVersion": CONFIG_MAP.api_version,
        "kind": CONFIG_MAP.kind,
        "metadata": job.child_metadata(_config_map_name(job)),
        "data": {"hostfile": _host_list(hosts, slots)},
    }


def _host_list(hosts: Iterable[str], slots: int) -> str:
    lines, size = [], 0
    for host in hosts:
        line = f"{host} slots={slots}\n"
        size += len(line)
        if size > _LARGEST_CONFIG_MAP:
            raise BuildError("spec.trainer.numNodes", "the list of hosts is larger than a ConfigMap may be (1 MiB)")
        lines.append(line)
    return "".join(lines)


def _launcher_rule(job: Job, info: RuntimeInfo, policy: JSON) -> Iterator[FieldError]:
    nodes = 1 if job.trainer is None or job.trainer.num_nodes is None else job.trainer.num_nodes
    missing = [name for name in (c.LAUNCHER, c.NODE) if info.by_name(name) is None]
    if nodes >= 2 and _launcher_as_node(policy) and missing:
        rule = f"must be 1, since the runtime counts its launcher as a node but has no {' and no '.join(missing)} job"
        yield FieldError("spec.trainer.numNodes", nodes, rule)
