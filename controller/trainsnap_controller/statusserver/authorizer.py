# SPDX-License-Identifier: Apache-2.0
"""Who may report for which TrainJob: whoever has a token of the cluster that was made for this very report.

The audience of such a token names the job, and only the kubelet of a pod that asks for it, or somebody with the right
to request tokens in the job's namespace, gets one. Which pod of the namespace it was is not looked at, as in the
reference.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Protocol

import structlog

from trainsnap_controller.runtime.plugins.trainjobstatus import audience
from trainsnap_controller.statusserver import jwt
from trainsnap_controller.statusserver.issuer import Issuer

KUBERNETES_CLAIM: Final = "kubernetes.io"

_log = structlog.stdlib.get_logger(__name__)


class Issuers(Protocol):
    """Where issuer and keys come from."""

    async def current(self, kid: str = "") -> Issuer: ...


class Authorizer:
    """Decides by the ``Authorization`` header."""

    def __init__(self, issuers: Issuers, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._issuers = issuers
        self._now = now

    async def allows(self, header: str, namespace: str, name: str) -> bool:
        """Whether the bearer may report for the TrainJob. Raises NotKnown while there are no keys to check with."""
        parts = header.split()
        # The keys come first: without them nobody is refused for good.
        issuer = await self._issuers.current()
        if len(parts) != 2 or parts[0].lower() != "bearer":
            return False
        try:
            issuer = await self._issuers.current(jwt.key_id(parts[1]))
            claims = jwt.verified(
                parts[1], issuer.keys, issuer=issuer.name, audience=audience(namespace, name), now=self._now()
            )
        except jwt.TokenError as error:
            _log.info("report refused", namespace=namespace, name=name, reason=f"the token {error}")
            return False
        bound = claims.get(KUBERNETES_CLAIM)
        if isinstance(bound, dict) and bound.get("namespace") == namespace:
            return True
        _log.info("report refused", namespace=namespace, name=name, reason="the token is of another namespace")
        return False
