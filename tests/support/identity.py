# SPDX-License-Identifier: Apache-2.0
"""Connections as somebody else: a ServiceAccount of the cluster, by a token as a Pod would have it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from trainsnap_api.transport import Transport
from trainsnap_api.transport import resources as r


@asynccontextmanager
async def service_account(kubeconfig: str, admin: Transport, namespace: str, name: str) -> AsyncIterator[Transport]:
    """A connection as an existing ServiceAccount."""
    token = await admin.service_account_token(name, namespace, seconds=600)
    async with await Transport.connect(kubeconfig=kubeconfig, token_provider=lambda: token.token) as api:
        yield api


@asynccontextmanager
async def user_with(
    kubeconfig: str, admin: Transport, namespace: str, name: str, *roles: str
) -> AsyncIterator[Transport]:
    """A connection as a fresh ServiceAccount of the namespace that has these ClusterRoles there."""
    metadata = {"name": name, "namespace": namespace}
    await admin.create(r.SERVICE_ACCOUNT, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    for role in roles:
        await admin.create(
            r.ROLE_BINDING,
            {
                "apiVersion": r.ROLE_BINDING.api_version,
                "kind": "RoleBinding",
                "metadata": {"name": f"{name}-{role}", "namespace": namespace},
                "roleRef": {"apiGroup": r.ROLE_BINDING.group, "kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
            },
        )
    async with service_account(kubeconfig, admin, namespace, name) as api:
        yield api
