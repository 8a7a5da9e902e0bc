# SPDX-License-Identifier: Apache-2.0
"""ServiceAccount tokens for an operator that runs outside its cluster.

The installer's rights are used for one thing only: to ask for a short-lived token of the operator's own
ServiceAccount, and for the next one well before it ends. The operator never sees the installer's credentials.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from trainsnap_api.transport import Transport, TransportError
from trainsnap_api.transport.resources import SERVICE_ACCOUNT
from trainsnap_controller import constants as c

LIFETIME_SECONDS: Final = 3600
"""What is asked for; a server may shorten it."""
RENEW_AFTER: Final = 0.5
"""Part of the lifetime after which the next token is fetched."""
RETRY_SECONDS: Final = 5.0


class TokenSource:
    """The current token of a ServiceAccount. ``token`` is what the transport asks for on each request."""

    def __init__(
        self,
        installer: Transport,
        *,
        name: str = c.SERVICE_ACCOUNT,
        namespace: str = c.NAMESPACE,
        lifetime: int = LIFETIME_SECONDS,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._installer = installer
        self._path = SERVICE_ACCOUNT.path(namespace, name, "token")
        self._lifetime = lifetime
        self._pause = pause
        self._token = ""

    def token(self) -> str:
        """The token to send now."""
        return self._token

    async def renew(self) -> None:
        """Fetch a new token. Raises the transport's errors."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": self._lifetime},
        }
        answer = await self._installer.request("POST", self._path, body=body)
        self._token = answer.json()["status"]["token"]

    async def keep_fresh(self) -> None:
        """Renew for ever; a failed renewal is tried again while the old token is still good."""
        wait = self._lifetime * RENEW_AFTER
        while True:
            await self._pause(wait)
            try:
                await self.renew()
            except TransportError:
                wait = RETRY_SECONDS
            else:
                wait = self._lifetime * RENEW_AFTER
