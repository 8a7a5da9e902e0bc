# SPDX-License-Identifier: Apache-2.0
"""The control plane that tests run on, and namespaces in it. The conftest files of integration/ and e2e/ wrap this
thinly.

By default a local plane of the wanted profile, started at most once a session and ended with it, however the session
ends. With `make test CLUSTER=FILE` (TRAINSNAP_TEST_CLUSTER) it is the cluster behind that kubeconfig, for every
profile; tests that do things to the plane itself are skipped then. An exported KUBECONFIG is never used.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from trainsnap_plane import Plane
from trainsnap_plane.api import ApiClient, ApiFailure
from trainsnap_plane.components import ProfileName

CLUSTER_VARIABLE = "TRAINSNAP_TEST_CLUSTER"
JSON = dict[str, Any]

# What tests make of the built-in kinds; custom resources are found by discovery.
_BUILT_IN = (
    "/api/v1/{0}/configmaps",
    "/api/v1/{0}/secrets",
    "/api/v1/{0}/services",
    "/api/v1/{0}/pods",
    "/apis/batch/v1/{0}/jobs",
    "/apis/coordination.k8s.io/v1/{0}/leases",
)


@dataclass(frozen=True, slots=True)
class Target:
    """Where tests run. `plane` is None when it is somebody's own cluster."""

    kubeconfig: Path
    kubectl: Path
    profile: ProfileName
    plane: Plane | None

    @property
    def has_controllers(self) -> bool:
        """Whether pods run, owners' deletion spreads and namespaces vanish by themselves."""
        return self.plane is None or self.profile == "full"

    @property
    def local(self) -> Plane:
        """For tests that stop, pause or look into the plane itself: skips the test on a user's cluster."""
        if self.plane is None:
            pytest.skip("needs a plane of our own, to do things to it")
        return self.plane

    def client(self) -> ApiClient:
        return ApiClient.from_kubeconfig(self.kubeconfig)


def target(profile: ProfileName, folder: Path, *, environment: Mapping[str, str] = os.environ) -> Iterator[Target]:
    """The body of a session fixture: yields the target, ends the plane afterwards."""
    if named := environment.get(CLUSTER_VARIABLE):
        kubectl = shutil.which("kubectl", path=environment.get("PATH"))
        if kubectl is None:
            pytest.fail("CLUSTER= needs a kubectl on PATH")
        yield Target(Path(named), Path(kubectl), profile, None)
        return
    # Building takes minutes and belongs to `make test`, which shows its progress.
    with Plane.start(folder, profile, build=False) as plane:
        yield Target(plane.kubeconfig, plane.kubectl, profile, plane)


@contextlib.contextmanager
def fresh_namespace(where: Target, *, prefix: str = "t") -> Iterator[str]:
    """A namespace of a name that was never used, removed with all that is in it."""
    name = f"{prefix}-{uuid.uuid4().hex[:10]}"
    client = where.client()
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    try:
        yield name
    finally:
        remove_namespace(client, name, has_controllers=where.has_controllers)


def remove_namespace(client: ApiClient, name: str, *, has_controllers: bool) -> None:
    """Delete a namespace; where no namespace controller runs, do its work too, so that nothing of one test meets the
    next.
    """
    with contextlib.suppress(ApiFailure):
        client.request("DELETE", f"/api/v1/namespaces/{name}")
    if has_controllers:
        return
    custom = [path.format(f"namespaces/{name}") for path in _custom_collections(client)]
    for path in [*custom, *(path.format(f"namespaces/{name}") for path in _BUILT_IN)]:
        with contextlib.suppress(ApiFailure):
            client.request("DELETE", path)
    for path in custom:
        _drop_finalizers(client, path)
    with contextlib.suppress(ApiFailure):
        namespace = client.request("GET", f"/api/v1/namespaces/{name}")
        namespace["spec"]["finalizers"] = []
        client.request("PUT", f"/api/v1/namespaces/{name}/finalize", namespace)


def _custom_collections(client: ApiClient) -> list[str]:
    """Paths, with a hole for the namespace, of all namespaced custom resources."""
    found = []
    for crd in client.request("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]:
        spec = crd["spec"]
        version = next((v["name"] for v in spec["versions"] if v["served"]), None)
        if spec["scope"] == "Namespaced" and version:
            found.append(f"/apis/{spec['group']}/{version}/{{0}}/{spec['names']['plural']}")
    return found


def _drop_finalizers(client: ApiClient, path: str) -> None:
    with contextlib.suppress(ApiFailure):
        for left in client.request("GET", path)["items"]:
            body = {"metadata": {"finalizers": None}}
            with contextlib.suppress(ApiFailure):
                kind = "application/merge-patch+json"
                client.request("PATCH", f"{path}/{left['metadata']['name']}", body, content_type=kind)
