# SPDX-License-Identifier: Apache-2.0
"""Who signs ServiceAccount tokens in this cluster, and with which keys: read from the API server itself.

``/.well-known/openid-configuration`` names the issuer of every token that the API server makes, the operator's own
among them, and ``/openid/v1/jwks`` has the keys. The group of all ServiceAccounts may read both in every cluster
(ClusterRole ``system:service-account-issuer-discovery``). Where the document points to other hosts, those are not
asked: the API server serves both paths whatever its ``--service-account-jwks-uri`` says.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final, Protocol

import structlog

from trainsnap_api.transport import Response, TransportError
from trainsnap_controller.observe.clock import Clock, SystemClock
from trainsnap_controller.statusserver.jwt import VerifyKey, keys_of

JSON = dict[str, Any]

DISCOVERY: Final = "/.well-known/openid-configuration"
KEY_SET: Final = "/openid/v1/jwks"
KEY_SET_TYPE: Final = "application/jwk-set+json"
"""The only type in which the API server (1.36) has it: plain JSON is answered with 406."""
FRESH_SECONDS: Final = 300.0
"""For how long keys are used without looking again: a key that was withdrawn stops counting after this."""
PAUSE_SECONDS: Final = 10.0
"""Between two looks that a key nobody knows has caused, or that failed: tokens are anybody's input."""

_log = structlog.stdlib.get_logger(__name__)


class NotKnown(Exception):
    """Issuer and keys have not been read yet; the text says why."""


class Reads(Protocol):
    """The request that is needed."""

    async def request(self, method: str, path: str, *, accept: str | None = None) -> Response: ...


@dataclass(frozen=True, slots=True)
class Issuer:
    """What tokens are checked against."""

    name: str
    keys: tuple[VerifyKey, ...]

    def knows(self, kid: str) -> bool:
        """Whether a key of this name is there; without a name every key is tried."""
        return not kid or any(key.kid == kid for key in self.keys)


class ClusterIssuer:
    """The issuer of the cluster, kept fresh by those who ask for it. Concurrent questions make one request."""

    def __init__(self, api: Reads, *, clock: Clock | None = None) -> None:
        self._api = api
        self._clock = clock or SystemClock()
        self._lock = asyncio.Lock()
        self._known: Issuer | None = None
        self._read_at = self._tried_at = float("-inf")
        self._complaint = "the keys of the cluster's tokens have not been read yet"

    @property
    def problem(self) -> str:
        """Why tokens cannot be checked; "" when they can."""
        return self._complaint if self._known is None else ""

    async def run(self) -> None:
        """Keep it known until cancelled, so that no report has to wait for it."""
        while True:
            try:
                await self.current()
                await self._clock.sleep(FRESH_SECONDS)
            except NotKnown:
                await self._clock.sleep(PAUSE_SECONDS)

    async def current(self, kid: str = "") -> Issuer:
        """The issuer with its keys, read again when they are old or when ``kid`` is not among them.

        Raises NotKnown while they could never be read; later the last ones go on being used.
        """
        if not self._good_for(kid):
            async with self._lock:
                if not self._good_for(kid) and self._clock.now() - self._tried_at >= PAUSE_SECONDS:
                    await self._read()
        if self._known is None:
            raise NotKnown(self._complaint)
        return self._known

    def _good_for(self, kid: str) -> bool:
        fresh = self._clock.now() - self._read_at < FRESH_SECONDS
        return self._known is not None and fresh and self._known.knows(kid)

    async def _read(self) -> None:
        self._tried_at = self._clock.now()
        try:
            document = (await self._api.request("GET", DISCOVERY)).json()
            keys = keys_of((await self._api.request("GET", KEY_SET, accept=KEY_SET_TYPE)).json())
            name = document.get("issuer")
            if not isinstance(name, str) or not name or not keys:
                raise ValueError(f"{DISCOVERY} and {KEY_SET} name no issuer or no usable key")
        except (TransportError, ValueError, AttributeError) as error:
            self._complaint = f"the keys of the cluster's tokens cannot be read: {' '.join(str(error).split())}"
            _log.warning("token keys not read, will be tried again", error=self._complaint)
            return
        self._known, self._read_at = Issuer(name, keys), self._tried_at
