# SPDX-License-Identifier: Apache-2.0
"""Puts a plane's files and objects in place, before and after its API server runs. Called by `Plane` only.

Everything is applied, so that it can be done again over data that was kept.
"""

from __future__ import annotations

import base64
import shutil
import time
from typing import TYPE_CHECKING

import yaml

from . import manifests
from .certs import Authority, signing_keys
from .components import AUDIT_POLICY, USERS
from .errors import PlaneError
from .kubeconfigs import with_certificate, with_token
from .layout import write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from .api import ApiClient
    from .layout import Layout

_TOKEN_SECONDS = 30 * 24 * 3600


def write_files(layout: Layout, ports: Mapping[str, int]) -> None:
    """Certificates, kubeconfigs and configuration files: all that can be written before anything runs."""
    authority = Authority(layout.pki, "ca")
    etcd_authority = Authority(layout.pki, "etcd-ca")
    etcd_authority.server("etcd", also_client=True)
    etcd_authority.client("etcd-client", "kube-apiserver")
    authority.server("kube-apiserver", ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "10.96.0.1"])
    components = authority.server("components")
    signing_keys(layout.pki)
    server = server_url(ports)
    for name, (user, groups) in USERS.items():
        path = layout.kubeconfig if name == "admin" else layout.config / f"{name}.kubeconfig"
        pair = authority.client(name, user, groups)
        with_certificate(path, server=server, authority=authority.pair.certificate, user=user, pair=pair)
    write_atomically(layout.config / "audit.yaml", yaml.safe_dump(AUDIT_POLICY))
    if "jobset_webhook_port" in ports:
        certificates = layout.config / "jobset-certificates"
        certificates.mkdir(mode=0o700, exist_ok=True)
        shutil.copyfile(components.certificate, certificates / "tls.crt")
        write_atomically(certificates / "tls.key", components.key.read_text())
        config = manifests.jobset_config(
            webhook_port=ports["jobset_webhook_port"],
            health_port=ports["jobset_health_port"],
            certificates=certificates,
        )
        write_atomically(layout.config / "jobset.yaml", yaml.safe_dump(config))
        write_atomically(layout.config / "kwok.yaml", manifests.kwok_stages())


def server_url(ports: Mapping[str, int]) -> str:
    return f"https://127.0.0.1:{ports['apiserver_port']}"


def install_crds(client: ApiClient, modules: Path, *, check: Callable[[], None], patience: float = 60.0) -> None:
    """Install the CRDs and wait until the API server serves them. `check` raises when a component died meanwhile."""
    wanted = manifests.crds(modules)
    for crd in wanted:
        client.apply(crd)
    deadline = time.monotonic() + patience
    for crd in wanted:
        group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
        version = next(v["name"] for v in crd["spec"]["versions"] if v["served"])
        # The condition Established comes a little before the paths answer everywhere; the path itself is the proof.
        while client.raw("GET", f"/apis/{group}/{version}/{plural}", limit="1")[0] != 200:
            check()
            if time.monotonic() > deadline:
                raise PlaneError(f"the API server does not serve {plural}.{group}")
            time.sleep(0.05)


def install_controllers(client: ApiClient, layout: Layout, modules: Path, ports: Mapping[str, int]) -> None:
    """Identities, roles and kubeconfigs of JobSet and kwok, and the nodes. The webhooks follow when JobSet answers."""
    for obj in [*manifests.jobset_identity(modules), *manifests.kwok_identity(), *manifests.nodes()]:
        client.apply(obj)
    accounts = {
        "jobset-controller": (manifests.JOBSET_NAMESPACE, manifests.JOBSET_ACCOUNT),
        "kwok": (manifests.KWOK_NAMESPACE, manifests.KWOK_ACCOUNT),
    }
    for file, (namespace, account) in accounts.items():
        with_token(
            layout.config / f"{file}.kubeconfig",
            server=server_url(ports),
            authority=layout.pki / "ca.crt",
            user=account,
            token=client.token(namespace, account, seconds=_TOKEN_SECONDS),
        )


def install_webhooks(client: ApiClient, layout: Layout, modules: Path, ports: Mapping[str, int]) -> None:
    """JobSet's webhooks, once its server answers."""
    bundle = base64.b64encode((layout.pki / "ca.crt").read_bytes()).decode()
    for obj in manifests.jobset_webhooks(modules, port=ports["jobset_webhook_port"], ca_bundle=bundle):
        client.apply(obj)
