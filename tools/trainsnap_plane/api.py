# SPDX-License-Identifier: Apache-2.0
"""Just enough of a Kubernetes client to set a plane up and to look whether it answers.

Standard library only, and on purpose not the project's transport: what tests that transport must not stand on it.
Called by the bootstrap, by the readiness checks and by test fixtures (namespaces).
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import tempfile
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import yaml

from .errors import PlaneError

if TYPE_CHECKING:
    from pathlib import Path

JSON = dict[str, Any]

# kind -> (group and version, plural, namespaced): what this package creates, and nothing more.
_KINDS: dict[str, tuple[str, str, bool]] = {
    "Namespace": ("v1", "namespaces", False),
    "Node": ("v1", "nodes", False),
    "ServiceAccount": ("v1", "serviceaccounts", True),
    "CustomResourceDefinition": ("apiextensions.k8s.io/v1", "customresourcedefinitions", False),
    "ClusterRole": ("rbac.authorization.k8s.io/v1", "clusterroles", False),
    "ClusterRoleBinding": ("rbac.authorization.k8s.io/v1", "clusterrolebindings", False),
    "Role": ("rbac.authorization.k8s.io/v1", "roles", True),
    "RoleBinding": ("rbac.authorization.k8s.io/v1", "rolebindings", True),
    "MutatingWebhookConfiguration": ("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", False),
    "ValidatingWebhookConfiguration": ("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", False),
}
_MANAGER = "trainsnap-plane"


class ApiFailure(PlaneError):
    """The API server said no. `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def path_of(obj: JSON) -> str:
    """The path of an object of one of the kinds above."""
    version, plural, namespaced = _KINDS[obj["kind"]]
    root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    scope = f"/namespaces/{obj['metadata']['namespace']}" if namespaced else ""
    return f"{root}{scope}/{plural}/{obj['metadata']['name']}"


class ApiClient:
    """One connection at a time to one server. Not thread-safe; cheap to make."""

    def __init__(
        self, server: str, context: ssl.SSLContext, *, token: str | None = None, timeout: float = 30.0
    ) -> None:
        address = urlsplit(server)
        self._host, self._port = address.hostname or "", address.port or 443
        self._context = context
        self._token = token
        self._timeout = timeout

    @classmethod
    def from_kubeconfig(cls, path: Path, *, timeout: float = 30.0) -> ApiClient:
        """For kubeconfigs with inline certificates or a token (those that a plane writes, and a test cluster's)."""
        document = yaml.safe_load(path.read_text())
        current = next(c for c in document["contexts"] if c["name"] == document["current-context"])["context"]
        cluster = next(c for c in document["clusters"] if c["name"] == current["cluster"])["cluster"]
        user = next(u for u in document["users"] if u["name"] == current["user"])["user"]
        context = ssl.create_default_context()
        if data := _inline(cluster, "certificate-authority", path):
            context = ssl.create_default_context(cadata=data.decode())
        certificate, key = _inline(user, "client-certificate", path), _inline(user, "client-key", path)
        if certificate and key:
            # The ssl module reads certificates from files only.
            with tempfile.NamedTemporaryFile(suffix=".pem") as both:
                both.write(certificate + b"\n" + key)
                both.flush()
                context.load_cert_chain(both.name)
        return cls(cluster["server"], context, token=user.get("token"), timeout=timeout)

    def request(
        self, method: str, path: str, body: JSON | None = None, *, content_type: str = "application/json", **query: str
    ) -> JSON:
        """One request. Raises ApiFailure for an HTTP error, OSError when nobody answers."""
        status, text = self.raw(method, path, body, content_type=content_type, **query)
        if status >= 400:
            try:
                message = json.loads(text)["message"]
            except (ValueError, KeyError, TypeError):
                message = text.decode(errors="replace")[:300]
            raise ApiFailure(status, f"{method} {path}: {message}")
        document: JSON = json.loads(text)
        return document

    def raw(
        self, method: str, path: str, body: JSON | None = None, *, content_type: str = "application/json", **query: str
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._context)
        headers = {"Accept": "application/json", "User-Agent": _MANAGER}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            connection.request(
                method,
                f"{path}?{urlencode(query)}" if query else path,
                None if body is None else json.dumps(body),
                headers,
            )
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def apply(self, obj: JSON) -> JSON:
        """Server-side apply, so that setting up twice (a kept folder) changes nothing."""
        kind = "application/apply-patch+yaml"
        return self.request("PATCH", path_of(obj), obj, content_type=kind, fieldManager=_MANAGER, force="true")

    def token(self, namespace: str, account: str, *, seconds: int) -> str:
        """A token of a ServiceAccount (TokenRequest)."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        answer = self.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", body)
        token: str = answer["status"]["token"]
        return token


def _inline(section: dict[str, str], field: str, path: Path) -> bytes | None:
    if data := section.get(f"{field}-data"):
        return base64.b64decode(data)
    if file := section.get(field):
        return (path.parent / file).read_bytes()
    return None
