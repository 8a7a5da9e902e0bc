# SPDX-License-Identifier: Apache-2.0
"""ServiceAccount tokens for an operator that runs outside its cluster.

The installer's rights are used for one thing only: to ask for a short-lived token of the operator's own
ServiceAccount, and for the next one well before it ends. The operator never sees the installer's credentials.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import structlog

from trainsnap_api.transport import Transport, TransportError
from trainsnap_controller import constants as c

LIFETIME_SECONDS: Final = 3600
"""What is asked for; the API server's own limits may change it."""
RENEW_AFTER: Final = 0.5
"""Part of the lifetime after which the next token is fetched."""

_log = structlog.stdlib.get_logger(__name__)


class TokenSource:
    """Gives the transport the current token of a ServiceAccount, and fetches the next one in time."""

    def __init__(
        self,
        installer: Transport,
        *,
        name: str = c.SERVICE_ACCOUNT,
        namespace: str = c.NAMESPACE,
        lifetime: int = LIFETIME_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._installer = installer
        self._name, self._namespace = name, namespace
        self._lifetime = lifetime
        self._clock = clock
        self._token: str | None = None
        self._renew_at = 0.0

    async def __call__(self) -> str:
        """The token to send now. Raises the transport's errors only while there is no token at all."""
        if self._token is None or self._clock() >= self._renew_at:
            try:
                fresh = await self._installer.service_account_token(self._name, self._namespace, seconds=self._lifetime)
            except TransportError as error:
                if self._token is None:
                    raise
                _log.warning("token not renewed, the old one is still used", error=str(error))
            else:
                self._token = fresh.token
                self._renew_at = self._clock() + self._lifetime * RENEW_AFTER
        return self._token
