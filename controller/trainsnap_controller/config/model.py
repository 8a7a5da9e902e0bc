# SPDX-License-Identifier: Apache-2.0
"""The configuration file: kind ``Configuration`` of ``config.trainer.kubeflow.org/v1alpha1``, read strictly.

The fields are the reference's, so that an existing file keeps working; what is trainsnap's own lies under
``snapshots``. Durations are written as Go writes them (``15s``, ``1m30s``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from trainsnap_controller import constants as c

API_VERSION: Final = "config.trainer.kubeflow.org/v1alpha1"
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d*)?)(ns|us|µs|ms|s|m|h)")


def _seconds(value: Any) -> Any:
    """A Go duration as seconds; anything else is left for pydantic to refuse."""
    if not isinstance(value, str):
        return value
    parts = _DURATION.findall(value)
    if not parts or "".join(number + unit for number, unit in parts) != value:
        raise ValueError("must be a duration such as 15s or 1m30s")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


Port = Annotated[int, Field(ge=1, le=65535)]
Seconds = Annotated[float, Field(gt=0), BeforeValidator(_seconds)]
FEATURE_GATES = {"TrainJobStatus": False}
"""Every feature gate and whether it is on by default."""


class _Section(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", strict=True, frozen=True)


class Webhook(_Section):
    port: Port = 9443
    host: str = ""


class MetricsAuth(_Section):
    enabled: bool = False


class Metrics(_Section):
    bind_address: str = ":8443"
    secure_serving: bool = True
    auth: MetricsAuth = MetricsAuth()


class Health(_Section):
    health_probe_bind_address: str = ":8081"
    readiness_endpoint_name: str = "readyz"
    liveness_endpoint_name: str = "healthz"


class LeaderElection(_Section):
    """Off when the section is absent. Durations default to those that the reference ships."""

    leader_elect: bool = False
    lease_duration: Seconds = 15.0
    renew_deadline: Seconds = 10.0
    retry_period: Seconds = 2.0
    resource_lock: Literal["leases"] = "leases"
    resource_name: str = c.LEASE_NAME
    resource_namespace: str = ""

    @model_validator(mode="after")
    def _ordered(self) -> LeaderElection:
        if not self.retry_period < self.renew_deadline < self.lease_duration:
            raise ValueError("must have retryPeriod < renewDeadline < leaseDuration")
        return self


class Controller(_Section):
    group_kind_concurrency: Mapping[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)


class CertManagement(_Section):
    """Where the webhook certificate comes from. ``provider`` and ``certDir`` are trainsnap's own.

    Without ``provider``, ``enable`` decides as in the reference: trainsnap makes the certificates, or they are files.
    """

    enable: bool = True
    webhook_service_name: str = "kubeflow-trainer-controller-manager"
    webhook_secret_name: str = "kubeflow-trainer-webhook-cert"
    provider: Literal["", "trainsnap", "cert-manager", "files"] = ""
    cert_dir: str = "/tmp/k8s-webhook-server/serving-certs"
    """Folder with ``tls.crt`` and ``tls.key``, used by the provider ``files``."""

    @property
    def effective_provider(self) -> str:
        """``trainsnap``, ``cert-manager`` or ``files``."""
        return self.provider or ("trainsnap" if self.enable else "files")

    @model_validator(mode="after")
    def _consistent(self) -> CertManagement:
        if not self.enable and self.provider == "trainsnap":
            raise ValueError("provider trainsnap needs enable: true")
        return self


class ClientConnection(_Section):
    qps: Annotated[float, Field(ge=0, strict=False)] = 50.0
    burst: Annotated[int, Field(ge=0)] = 100


class StatusServer(_Section):
    port: Port = 10443
    qps: Annotated[float, Field(ge=0, strict=False)] = 5.0
    burst: Annotated[int, Field(ge=0)] = 10


class Tls(_Section):
    min_version: str = ""
    cipher_suites: tuple[str, ...] = Field(default=(), strict=False)
    next_protos: tuple[str, ...] = Field(default=("http/1.1",), strict=False)


class OpaqueRuntime(_Section):
    """A runtime kind that trainsnap does not know, whose snapshots it takes for another controller."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True


class Snapshots(_Section):
    """trainsnap's own settings."""

    opaque_runtimes: tuple[OpaqueRuntime, ...] = Field(default=(), strict=False)
    keep_annotations: tuple[str, ...] = Field(default=(), strict=False)
    """Annotations of a runtime that are copied into ``source.annotations``; none by default, they may hold secrets."""


class Configuration(_Section):
    """The whole file. Every section may be left out."""

    api_version: Literal["config.trainer.kubeflow.org/v1alpha1"] = API_VERSION
    kind: Literal["Configuration"] = "Configuration"
    webhook: Webhook = Webhook()
    metrics: Metrics = Metrics()
    health: Health = Health()
    leader_election: LeaderElection | None = None
    controller: Controller = Controller()
    cert_management: CertManagement = CertManagement()
    client_connection: ClientConnection = ClientConnection()
    status_server: StatusServer = StatusServer()
    feature_gates: Mapping[str, bool] = Field(default_factory=dict)
    tls: Tls = Tls()
    snapshots: Snapshots = Snapshots()

    def workers(self, kind_group: str, default: int) -> int:
        """How many reconciles of a ``Kind.group`` may run at once."""
        return self.controller.group_kind_concurrency.get(kind_group, default)

    def gate(self, name: str) -> bool:
        """Whether a feature gate is on."""
        return self.feature_gates.get(name, FEATURE_GATES[name])

    @model_validator(mode="after")
    def _known_gates(self) -> Configuration:
        unknown = sorted(set(self.feature_gates) - set(FEATURE_GATES))
        if unknown:
            raise ValueError(f"featureGates.{unknown[0]}: unknown gate; known are {', '.join(sorted(FEATURE_GATES))}")
        return self
