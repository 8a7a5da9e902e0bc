# SPDX-License-Identifier: Apache-2.0
"""Lets trainer pods report progress: where the status server is, whom to trust, and a token for nothing else.

Behind the feature gate ``TrainJobStatus``; it is in the registry only when the gate is open.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from trainsnap_api.transport.resources import CONFIG_MAP, SECRET
from trainsnap_controller import constants as c
from trainsnap_controller.runtime import rendezvous, upsert
from trainsnap_controller.runtime.component import Component
from trainsnap_controller.runtime.errors import BuildError
from trainsnap_controller.runtime.info import PodSet, RuntimeInfo
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.runtime.observed import Need, Observed

JSON = dict[str, Any]

_FOLDER: Final = "/var/run/secrets/kubeflow/trainer"
_VOLUME: Final = "kubeflow-trainer-token"
_CA: Final = "ca.crt"
_TOKEN_SECONDS: Final = 3600


@dataclass(frozen=True, slots=True)
class StatusServer:
    """Where the status server answers, and the Secret whose ``ca.crt`` signed its certificate."""

    namespace: str
    service: str
    port: int
    ca_secret: str


def audience(namespace: str, name: str) -> str:
    """The audience of a job's token; the status server accepts no other for this job."""
    return f"{c.API_VERSION}/namespaces/{namespace}/trainjobs/{name}/status"


class TrainJobStatus:
    """Runs for every job and every runtime."""

    name = "trainjobstatus"

    def __init__(self, server: StatusServer) -> None:
        self._server = server

    def needs(self, job: Job, spec: JSON) -> Sequence[Need]:
        """The certificate authority, and the job's copy of it."""
        del spec
        return [
            Need(SECRET, self._server.namespace, self._server.ca_secret, child=False),
            Need(CONFIG_MAP, job.namespace, _config_map_name(job)),
        ]

    def prepare_pods(self, job: Job, info: RuntimeInfo) -> RuntimeInfo:
        """Address, trust and token in every container of the trainer's pods."""
        pod_set = info.by_ancestor(c.TRAINER)
        return info if pod_set is None else info.with_pod_set(self._reporting(job, pod_set))

    def components(self, job: Job, info: RuntimeInfo, observed: Observed) -> Sequence[Component]:
        """The ConfigMap with the certificate authority.

        Raises ``BuildError`` while there is none: a pod could not report, and would not know why.
        """
        del info
        document = {
            "apiVersion": CONFIG_MAP.api_version,
            "kind": CONFIG_MAP.kind,
            "metadata": job.child_metadata(_config_map_name(job)),
            "data": {_CA: self._authority(observed)},
        }
        return [Component.of(CONFIG_MAP, document)]

    def _reporting(self, job: Job, pod_set: PodSet) -> PodSet:
        server = self._server
        path = f"apis/{audience(job.namespace, job.name)}"
        change = upsert.on_container(
            env_vars=[
                rendezvous.literal(
                    "KUBEFLOW_TRAINER_SERVER_URL",
                    f"https://{server.service}.{server.namespace}.svc:{server.port}/{path}",
                ),
                rendezvous.literal("KUBEFLOW_TRAINER_SERVER_CA_CERT", f"{_FOLDER}/{_CA}"),
                rendezvous.literal("KUBEFLOW_TRAINER_SERVER_TOKEN", f"{_FOLDER}/token"),
            ],
            volume_mounts=[{"name": _VOLUME, "mountPath": _FOLDER, "readOnly": True}],
        )
        return pod_set.with_volumes([_volume(job)]).with_each_container(change)

    def _authority(self, observed: Observed) -> str:
        server = self._server
        found = observed.find(SECRET, server.namespace, server.ca_secret) or {}
        encoded = (found.get("data") or {}).get(_CA) or ""
        try:
            text = b64decode(encoded, validate=True).decode()
        except (Base64Error, UnicodeDecodeError):
            text = ""
        if not text:
            where = f"Secret {server.namespace}/{server.ca_secret}"
            raise BuildError(where, f"must hold a certificate authority under {_CA}", retried=True)
        return text


def _config_map_name(job: Job) -> str:
    return f"{job.name}-tls-config"


def _volume(job: Job) -> JSON:
    token = {
        "audience": audience(job.namespace, job.name),
        "expirationSeconds": _TOKEN_SECONDS,
        "path": "token",
    }
    authority = {"name": _config_map_name(job), "items": [{"key": _CA, "path": _CA}]}
    return {"name": _VOLUME, "projected": {"sources": [{"serviceAccountToken": token}, {"configMap": authority}]}}
