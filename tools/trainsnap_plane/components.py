# SPDX-License-Identifier: Apache-2.0
"""The components of a plane and the two profiles, as data. Read by `Plane`; nothing here runs anything.

Arguments are templates: `{root}` is the plane's folder, `{pki}` and `{config}` are folders in it, `{NAME}` of a port
is its number. Whoever wants another flag adds it here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ProfileName = Literal["api", "full"]


@dataclass(frozen=True, slots=True)
class Probe:
    """What answers 200 when the component is ready. `client` names a certificate in pki/ to show, if one is needed."""

    scheme: Literal["http", "https"]
    port: str
    path: str
    authority: str = "ca"
    client: str | None = None


@dataclass(frozen=True, slots=True)
class Component:
    """One process: its binary (a part of parts.py), arguments, ports, how to see that it is ready, and for how long to
    wait.
    """

    name: str
    part: str
    args: tuple[str, ...]
    ports: tuple[str, ...]
    ready: Probe
    patience: float = 60.0


ETCD = Component(
    name="etcd",
    part="etcd",
    args=(
        "--name=plane",
        "--data-dir={root}/etcd",
        "--listen-client-urls=https://127.0.0.1:{etcd_port}",
        "--advertise-client-urls=https://127.0.0.1:{etcd_port}",
        # A single member talks to no peer; any port will do, and the kernel chooses it.
        "--listen-peer-urls=http://127.0.0.1:0",
        "--initial-advertise-peer-urls=http://127.0.0.1:0",
        "--initial-cluster=plane=http://127.0.0.1:0",
        "--cert-file={pki}/etcd.crt",
        "--key-file={pki}/etcd.key",
        "--trusted-ca-file={pki}/etcd-ca.crt",
        "--client-cert-auth",
        # The data of a test may be lost with the machine; a start is a second faster and writes do not wait for the
        # disk.
        "--unsafe-no-fsync",
        "--log-level=warn",
    ),
    ports=("etcd_port",),
    ready=Probe("https", "etcd_port", "/readyz", authority="etcd-ca", client="etcd-client"),
)

APISERVER = Component(
    name="kube-apiserver",
    part="kube-apiserver",
    args=(
        "--etcd-servers=https://127.0.0.1:{etcd_port}",
        "--etcd-cafile={pki}/etcd-ca.crt",
        "--etcd-certfile={pki}/etcd-client.crt",
        "--etcd-keyfile={pki}/etcd-client.key",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--secure-port={apiserver_port}",
        "--tls-cert-file={pki}/kube-apiserver.crt",
        "--tls-private-key-file={pki}/kube-apiserver.key",
        "--client-ca-file={pki}/ca.crt",
        "--authorization-mode=RBAC",
        "--anonymous-auth=false",
        # Proves that the operator's role may set the finalizers subresource of every owner it names.
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        "--service-account-key-file={pki}/service-accounts.pub",
        "--service-account-signing-key-file={pki}/service-accounts.key",
        "--service-cluster-ip-range=10.96.0.0/24",
        # Nothing in the plane reaches the server as a service, and an address of the loopback range may not be an
        # endpoint.
        "--endpoint-reconciler-type=none",
        "--allow-privileged=true",
        # Tests count requests in this log: who, verb, object, and nothing of the content.
        "--audit-policy-file={config}/audit.yaml",
        "--audit-log-path={root}/logs/audit.jsonl",
        "--audit-log-mode=blocking",
        "--audit-log-maxsize=1024",
        "--v=1",
    ),
    ports=("apiserver_port",),
    ready=Probe("https", "apiserver_port", "/readyz", client="admin"),
    patience=120.0,
)


def _own_client(name: str, port: str) -> tuple[str, ...]:
    """The arguments of a component of Kubernetes that is a client of the API server and serves its health."""
    kubeconfig = f"{{config}}/{name}.kubeconfig"
    return (
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--authentication-skip-lookup=true",
        "--bind-address=127.0.0.1",
        f"--secure-port={{{port}}}",
        "--tls-cert-file={pki}/components.crt",
        "--tls-private-key-file={pki}/components.key",
        "--leader-elect=false",
        "--v=1",
    )


CONTROLLER_MANAGER = Component(
    name="kube-controller-manager",
    part="kube-controller-manager",
    args=(
        *_own_client("kube-controller-manager", "controller_manager_port"),
        # Each controller as its own ServiceAccount, as on a real cluster: admission policies tell them apart by name.
        "--use-service-account-credentials=true",
        "--service-account-private-key-file={pki}/service-accounts.key",
        "--root-ca-file={pki}/ca.crt",
    ),
    ports=("controller_manager_port",),
    ready=Probe("https", "controller_manager_port", "/healthz"),
)

SCHEDULER = Component(
    name="kube-scheduler",
    part="kube-scheduler",
    args=_own_client("kube-scheduler", "scheduler_port"),
    ports=("scheduler_port",),
    ready=Probe("https", "scheduler_port", "/readyz"),
)

JOBSET = Component(
    name="jobset-controller",
    part="jobset-controller",
    args=(
        "--kubeconfig={config}/jobset-controller.kubeconfig",
        "--config={config}/jobset.yaml",
        "--zap-log-level=info",
    ),
    ports=("jobset_webhook_port", "jobset_health_port"),
    ready=Probe("http", "jobset_health_port", "/readyz"),
)

KWOK = Component(
    name="kwok",
    part="kwok",
    args=(
        "--kubeconfig={config}/kwok.kubeconfig",
        "--config={config}/kwok.yaml",
        "--manage-all-nodes=true",
        "--node-lease-duration-seconds=40",
        "--node-ip=192.0.2.1",  # An address for documentation: nothing answers there.
        "--cidr=10.244.0.0/16",
        "--server-address=127.0.0.1:{kwok_port}",
    ),
    ports=("kwok_port",),
    ready=Probe("http", "kwok_port", "/healthz"),
)

# In the order of their start. Those after the API server start together.
PROFILES: dict[ProfileName, tuple[Component, ...]] = {
    "api": (ETCD, APISERVER),
    "full": (ETCD, APISERVER, CONTROLLER_MANAGER, SCHEDULER, JOBSET, KWOK),
}

# Certificate name -> user and groups. RBAC knows the last two by the API server's own bootstrap roles.
USERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "admin": ("plane-admin", ("system:masters",)),
    "kube-controller-manager": ("system:kube-controller-manager", ()),
    "kube-scheduler": ("system:kube-scheduler", ()),
}

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {"level": "None", "nonResourceURLs": ["/readyz*", "/livez*", "/healthz*", "/openapi*"]},
        {"level": "Metadata"},
    ],
}
