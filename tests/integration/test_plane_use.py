# SPDX-License-Identifier: Apache-2.0
"""What a plane offers to tests: users with few rights, an audit of requests, components that stop and come back."""

from __future__ import annotations

import ssl

import pytest

from support.plane import Target, fresh_namespace
from trainsnap_plane import Plane, PlaneError
from trainsnap_plane.api import ApiClient, ApiFailure

pytestmark = pytest.mark.api

NAMESPACES = "/api/v1/namespaces"


def test_a_user_may_nothing_until_rbac_says_so(local_plane: Plane) -> None:
    user = ApiClient.from_kubeconfig(local_plane.user_kubeconfig("anna", ["readers"]))
    with pytest.raises(ApiFailure, match='User "anna" cannot list resource "namespaces"') as refused:
        user.request("GET", NAMESPACES)
    assert refused.value.status == 403
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "readers"}}
    rule = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list"]}
    subject = {"kind": "Group", "name": "readers", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "ClusterRole", "name": "readers", "apiGroup": "rbac.authorization.k8s.io"}
    admin = local_plane.api()
    admin.apply({**rbac, "kind": "ClusterRole", "rules": [rule]})
    admin.apply({**rbac, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [subject]})
    for _ in range(100):
        if user.raw("GET", NAMESPACES)[0] == 200:
            break
    assert user.request("GET", NAMESPACES)["items"]


def test_a_stranger_is_not_let_in(local_plane: Plane) -> None:
    authority = ssl.create_default_context(cafile=str(local_plane.directory / "pki" / "ca.crt"))
    for token in (None, "not-a-token"):
        assert ApiClient(local_plane.server, authority, token=token).raw("GET", NAMESPACES)[0] == 401


def test_a_service_account_by_its_token(local_plane: Plane, namespace: str) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": namespace}}
    local_plane.api().apply(account)
    robot = ApiClient.from_kubeconfig(local_plane.service_account_kubeconfig(namespace, "robot"))
    with pytest.raises(ApiFailure, match=f"system:serviceaccount:{namespace}:robot"):
        robot.request("GET", NAMESPACES)


def test_the_audit_counts_requests(local_plane: Plane, namespace: str) -> None:
    client = local_plane.api()
    before = len(local_plane.audit())
    path = f"{NAMESPACES}/{namespace}/configmaps"
    client.request("POST", path, {"metadata": {"name": "one"}})
    client.request("DELETE", f"{path}/one")
    seen = [
        (event["verb"], event["objectRef"]["name"], event["responseStatus"]["code"])
        for event in local_plane.audit()[before:]
        if event.get("objectRef", {}).get("namespace") == namespace
    ]
    assert seen == [("create", "one", 201), ("delete", "one", 200)]


def test_owner_references_need_the_right_to_set_finalizers(local_plane: Plane, namespace: str) -> None:
    admin = local_plane.api()
    owner = admin.request("POST", f"{NAMESPACES}/{namespace}/configmaps", {"metadata": {"name": "owner"}})
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "writer", "namespace": namespace}}
    rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]}
    admin.apply({**rbac, "kind": "Role", "rules": [rule]})
    role = {"kind": "Role", "name": "writer", "apiGroup": "rbac.authorization.k8s.io"}
    subject = {"kind": "User", "name": "writer", "apiGroup": "rbac.authorization.k8s.io"}
    admin.apply({**rbac, "kind": "RoleBinding", "roleRef": role, "subjects": [subject]})
    writer = ApiClient.from_kubeconfig(local_plane.user_kubeconfig("writer"))
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    secret = {"metadata": {"name": "owned", "ownerReferences": [reference]}}
    with pytest.raises(ApiFailure, match="cannot set blockOwnerDeletion"):
        writer.request("POST", f"{NAMESPACES}/{namespace}/secrets", secret)


def test_a_namespace_goes_with_all_that_is_in_it(plane: Target) -> None:
    client = plane.client()
    with fresh_namespace(plane) as name:
        path = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{name}/jobsets"
        held = {"name": "held", "finalizers": ["example.com/held"]}
        kind = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
        client.request("POST", path, {**kind, "metadata": held, "spec": {}})
        client.request("POST", f"{NAMESPACES}/{name}/configmaps", {"metadata": {"name": "one"}})
    if not plane.has_controllers:
        assert client.raw("GET", f"{NAMESPACES}/{name}")[0] == 404
        assert client.request("GET", path)["items"] == []


def test_the_api_server_restarts_with_its_data(local_plane: Plane, namespace: str) -> None:
    local_plane.restart("kube-apiserver", grace=1.0)
    assert local_plane.api().request("GET", f"{NAMESPACES}/{namespace}")["metadata"]["name"] == namespace


def test_a_paused_api_server_is_silent_until_it_goes_on(local_plane: Plane) -> None:
    client = ApiClient.from_kubeconfig(local_plane.kubeconfig, timeout=0.3)
    local_plane.pause("kube-apiserver")
    try:
        assert [one.state for one in local_plane.status()] == ["running", "paused"]
        with pytest.raises(TimeoutError):
            client.request("GET", NAMESPACES)
    finally:
        local_plane.resume("kube-apiserver")
    local_plane.wait_ready("kube-apiserver")
    assert local_plane.api().request("GET", NAMESPACES)["items"]


def test_a_component_of_another_profile_is_not_there(local_plane: Plane) -> None:
    with pytest.raises(PlaneError, match="there is no kwok in this plane"):
        local_plane.pause("kwok")
    with pytest.raises(PlaneError, match="the profile api has no kwok"):
        local_plane.start_component("kwok")
