# SPDX-License-Identifier: Apache-2.0
"""The moment that divides jobs of the reference from jobs of trainsnap: ``legacyBefore``.

Kept in the ConfigMap ``trainsnap-state`` of the operator's namespace, which is created at the first start and never
overwritten. Unless it says otherwise the moment is its own creation time: set by the API server, as those of the jobs
and ConfigMaps that it is compared with. ``trainsnap migrate --legacy-before`` moves it; the operator looks again now
and then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import structlog

from trainsnap_api.transport import AlreadyExists, NotFound, Resource, TransportError
from trainsnap_api.transport.resources import CONFIG_MAP
from trainsnap_controller import constants as c

JSON = dict[str, Any]

KEY: Final = "legacyBefore"
LOOK_AGAIN_SECONDS: Final = 15.0
_log = structlog.stdlib.get_logger(__name__)


class Api(Protocol):
    """The requests that are needed."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> JSON: ...
    async def create(self, resource: Resource, obj: JSON, *, field_manager: str) -> JSON: ...


def parse(config_map: JSON) -> datetime:
    """The moment that a state object says. Raises ValueError when its text is not a time."""
    return moment_of((config_map.get("data") or {}).get(KEY) or config_map["metadata"]["creationTimestamp"])


def moment_of(text: str) -> datetime:
    """A time in UTC. Raises ValueError, also when it does not say its time zone."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text!r} is out of range") from error


def body(moment: datetime | None = None) -> JSON:
    """The data of a state object that says ``moment``, or its own creation time."""
    return {} if moment is None else {"data": {KEY: moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}}


@dataclass(slots=True)
class LegacyBefore:
    """Reads the moment, creating the object when it is missing."""

    api: Api
    namespace: str
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    _moment: datetime | None = field(default=None, init=False)

    async def moment(self) -> datetime:
        """The moment as last seen; asks only while it was never seen. Raises the transport's errors then."""
        if self._moment is None:
            await self.look()
        assert self._moment is not None
        return self._moment

    async def look(self) -> None:
        """Read it now. One that was deleted is made again with what was last seen."""
        try:
            found = await self.api.get(CONFIG_MAP, c.STATE_NAME, self.namespace)
        except NotFound:
            found = await self._create()
        try:
            self._moment = parse(found)
        except ValueError as error:
            created = datetime.fromisoformat(found["metadata"]["creationTimestamp"])
            self._moment = self._moment or created
            _log.warning("legacyBefore cannot be read", config_map=c.STATE_NAME, error=str(error))

    async def _create(self) -> JSON:
        metadata = {"name": c.STATE_NAME, "namespace": self.namespace}
        try:
            return await self.api.create(
                CONFIG_MAP,
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **body(self._moment)},
                field_manager=c.FIELD_MANAGER,
            )
        except AlreadyExists:
            return await self.api.get(CONFIG_MAP, c.STATE_NAME, self.namespace)

    async def run(self) -> None:
        """Look again for ever."""
        while True:
            try:
                await self.look()
            except TransportError as error:
                _log.warning("legacyBefore not read", error=str(error))
            await self.pause(LOOK_AGAIN_SECONDS)
