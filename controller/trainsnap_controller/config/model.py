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
_DURATION = re.compile(r"([0-9]{1,18}(?:\.[0-9]{0,18})?)(ns|us|µs|ms|s|m|h)")


def _seconds(value: Any) -> Any:
    """A Go duration as seconds; anything else is left for pydantic to refuse."""
    if not isinstance(value, str):
        return value
    parts = _DURATION.findall(value)
    if not parts or "".join(number + unit for number, unit in parts) != value:
        raise ValueError("must be a duration such as 15s or 1m30s")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


Port = Annotated[int, Field(ge=1, le=65535)]
Seconds = Annotated[float, Field(gt=0, le=86400), BeforeValidator(_seconds)]
Rate = Annotated[float, Field(ge=0, le=1_000_000, strict=False)]
Burst = Annotated[int, Field(ge=0, le=1_000_000)]
Workers = Annotated[int, Field(ge=1, le=1000)]
_LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
Label = Annotated[str, Field(pattern=f"^{_LABEL}$")]
Name = Annotated[str, Field(pattern=rf"^{_LABEL}(\.{_LABEL})*$", max_length=253)]
FEATURE_GATES = {"TrainJobStatus": False}
"""Every feature gate and whether it is on by default."""


class _Section(BaseModel):
    """Attribute docstrings become the descriptions in the reference documentation."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        strict=True,
        frozen=True,
        use_attribute_docstrings=True,
    )


class Webhook(_Section):
    port: Port = 9443
    """Port of the admission webhooks."""
    host: str = ""
    """Address that the webhooks listen on; all of them by default."""


class MetricsAuth(_Section):
    enabled: bool = False
    """Whether a scraper needs a token whose user may ``get`` the non-resource URL ``/metrics``."""


class Metrics(_Section):
    bind_address: str = ":8443"
    """HOST:PORT or :PORT of /metrics; ``0`` switches it off."""
    secure_serving: bool = True
    """HTTPS, with the webhooks' certificate, instead of HTTP."""
    auth: MetricsAuth = MetricsAuth()
    """Who may read the metrics."""


class Health(_Section):
    health_probe_bind_address: str = ":8081"
    """HOST:PORT or :PORT of the health endpoints; ``0`` switches them off."""
    readiness_endpoint_name: str = "readyz"
    """Path of the readiness probe. Accepted; no effect yet."""
    liveness_endpoint_name: str = "healthz"
    """Path of the liveness probe. Accepted; no effect yet."""


class LeaderElection(_Section):
    """Off when the section is absent. Durations default to those that the reference ships."""

    leader_elect: bool = False
    """Whether only the holder of the Lease works."""
    lease_duration: Seconds = 15.0
    """Time after which others may take over from a holder that is not heard of."""
    renew_deadline: Seconds = 10.0
    """Time after which a holder that cannot renew stops working."""
    retry_period: Seconds = 2.0
    """Pause between two tries to get or renew the Lease."""
    resource_lock: Literal["leases"] = "leases"
    """What is locked; only Leases are."""
    resource_name: Name = c.LEASE_NAME
    """Name of the Lease: the reference's, so that the two never work at once."""
    resource_namespace: Label | Literal[""] = ""
    """Namespace of the Lease; the operator's own by default."""

    @model_validator(mode="after")
    def _ordered(self) -> LeaderElection:
        if not self.retry_period * c.LEASE_JITTER < self.renew_deadline < self.lease_duration:
            raise ValueError(f"must have retryPeriod * {c.LEASE_JITTER} < renewDeadline < leaseDuration")
        return self


class Controller(_Section):
    group_kind_concurrency: Mapping[str, Workers] = Field(default_factory=dict)
    """Reconciles at once by ``Kind.group``; 5 for TrainJobs and 1 for each kind of runtime by default."""


class CertManagement(_Section):
    """Where the webhook certificate comes from. ``provider`` and ``certDir`` are trainsnap's own.

    Without ``provider``, ``enable`` decides as in the reference: trainsnap makes the certificates, or they are files.
    """

    enable: bool = True
    """Whether trainsnap makes and renews the webhooks' certificate."""
    webhook_service_name: Label = "kubeflow-trainer-controller-manager"
    """Service whose name the certificate is made for."""
    webhook_secret_name: Name = "kubeflow-trainer-webhook-cert"
    """Secret that the certificate is kept in, in the operator's namespace."""
    provider: Literal["", "trainsnap", "cert-manager", "files"] = ""
    """Who makes the certificate; by default as ``enable`` says: trainsnap, or files."""
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
    qps: Rate = 50.0
    """Requests a second to the API server in the long run; 0 for no limit."""
    burst: Burst = 100
    """Requests to the API server that may be sent at once."""


class StatusServer(_Section):
    port: Port = 10443
    """Port of the server that training code reports its progress to, with the feature gate TrainJobStatus."""
    qps: Rate = 5.0
    """Reports a second that it writes in the long run; others wait. 0 for no limit."""
    burst: Burst = 10
    """Reports that it may write at once."""


class Tls(_Section):
    min_version: str = ""
    """Lowest TLS version of our servers: 1.2, also when it says 1.0 or 1.1, or 1.3."""
    cipher_suites: tuple[str, ...] = Field(default=(), strict=False)
    """Ciphers of our servers for TLS 1.2, by their names in Go. What is not known is ignored with a warning."""
    next_protos: tuple[str, ...] = Field(default=("http/1.1",), strict=False)
    """Protocols that our servers offer by ALPN; they speak ``http/1.1`` only."""


class OpaqueRuntime(_Section):
    """A runtime kind that trainsnap does not know, whose snapshots it takes for another controller."""

    group: Name
    """API group, as in ``spec.runtimeRef.apiGroup``."""
    version: Label
    """Version of the group to read it in."""
    kind: Annotated[str, Field(pattern="^[A-Z][A-Za-z0-9]{0,62}$")]
    """Kind, as in ``spec.runtimeRef.kind``."""
    plural: Label
    """Name in URLs."""
    namespaced: bool = True
    """Whether it lives in namespaces."""


class Snapshots(_Section):
    """trainsnap's own settings."""

    opaque_runtimes: tuple[OpaqueRuntime, ...] = Field(default=(), strict=False)
    """Kinds of runtimes that other controllers build jobs from; trainsnap takes their snapshots."""
    legacy_snapshots: Literal["keep", "dual-write", "ignore"] = "keep"
    """The reference's ConfigMaps: ``keep`` reads those of jobs from before trainsnap, ``dual-write`` also writes them
    for new jobs, ``ignore`` does neither."""
    keep_annotations: tuple[str, ...] = Field(default=(), strict=False)
    """Annotations of a runtime that are copied into ``source.annotations``; none by default, they may hold secrets."""


class Configuration(_Section):
    """The whole file. Every section may be left out."""

    api_version: Literal["config.trainer.kubeflow.org/v1alpha1"] = API_VERSION
    """Must be given."""
    kind: Literal["Configuration"] = "Configuration"
    """Must be given."""
    webhook: Webhook = Webhook()
    """Where the admission webhooks listen."""
    metrics: Metrics = Metrics()
    """The metrics endpoint."""
    health: Health = Health()
    """The health endpoints."""
    leader_election: LeaderElection | None = None
    """Only one of several processes works; off without this section."""
    controller: Controller = Controller()
    """How much is done at once."""
    cert_management: CertManagement = CertManagement()
    """The webhooks' certificate."""
    client_connection: ClientConnection = ClientConnection()
    """Limits towards the API server."""
    status_server: StatusServer = StatusServer()
    """The server for the progress of training code."""
    feature_gates: Mapping[str, bool] = Field(default_factory=dict)
    """Features by name, true or false."""
    tls: Tls = Tls()
    """TLS of our servers."""
    snapshots: Snapshots = Snapshots()
    """trainsnap's own settings."""

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
