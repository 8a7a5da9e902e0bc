# SPDX-License-Identifier: Apache-2.0
"""What the operator does about the reference's ConfigMaps by itself, one job at a time; used through ``Snapshots``.

Only jobs from before ``legacyBefore`` are concerned: a new job costs no look-up. A ConfigMap is never changed here
unless ``dual-write`` asks for it, and never deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Protocol

import structlog

from trainsnap_api.transport import Conflict, Forbidden, ObjectRefused, Resource
from trainsnap_api.transport.resources import CONFIG_MAP
from trainsnap_controller import blocked as reasons
from trainsnap_controller import constants as c
from trainsnap_controller.blocked import Blocked
from trainsnap_controller.migration.handback import config_map_of
from trainsnap_controller.migration.legacy import Fault, LegacyVerdict, judge, name_of
from trainsnap_controller.migration.lookup import find
from trainsnap_controller.migration.yaml_go import CachedReader, Document
from trainsnap_controller.snapshot.document import Owner, RuntimeRef, controlled_by

JSON = dict[str, Any]
_log = structlog.stdlib.get_logger(__name__)
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
_LONG: Final = 16 << 10
"""Characters of a ConfigMap that take longer to read than the event loop may stand still (some ten milliseconds)."""


class Mode(StrEnum):
    """``snapshots.legacySnapshots`` of the configuration."""

    KEEP = "keep"
    DUAL_WRITE = "dual-write"
    IGNORE = "ignore"


class Api(Protocol):
    """The requests that are needed."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> JSON: ...
    async def apply(self, resource: Resource, obj: JSON, *, field_manager: str) -> JSON: ...


@dataclass(frozen=True, slots=True)
class Legacy:
    """Finds and writes the ConfigMaps of jobs.

    ``ignored`` hears of ConfigMaps that are left out of account: the job, as it came in, and why.
    """

    api: Api
    before: Callable[[], Awaitable[datetime]]
    ignored: Callable[[Any, str], object]
    mode: Mode = Mode.KEEP
    read: Callable[[str], Document] = field(default_factory=CachedReader)
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def concerns(self, owner: Owner) -> bool:
        """Whether the job is from before trainsnap. Its creation time is the API server's and cannot be forged."""
        return owner.created is not None and owner.created < await self.before()

    async def runtime_of(self, owner: Owner, ref: RuntimeRef) -> JSON | None:
        """The runtime in the job's ConfigMap; None when there is none to be used.

        Raises ``Blocked`` for one that is there and cannot be used: the live runtime is no substitute.
        """
        if self.mode is Mode.IGNORE:
            return None
        config_map = await find(self.api, CONFIG_MAP, name_of(owner.name), owner.namespace)
        if config_map is None:
            return None
        title = f"ConfigMap {config_map['metadata']['name']}"
        created = datetime.fromisoformat(config_map["metadata"]["creationTimestamp"])
        before = await self.before()
        if created >= before:
            self.ignored(owner, f"{title} is ignored: it was made at {created:{_TIME}}, not before {before:{_TIME}}")
            return None
        verdict = await self._judged(config_map, owner, ref)
        if verdict.fault is Fault.LEFTOVER:
            raise Blocked(reasons.LEFTOVER, f"{title} {verdict.fault}: {verdict.problem}")
        if verdict.runtime is None:
            raise Blocked(reasons.LEGACY_INVALID, f"{title} cannot be used and is left as it is: {verdict.problem}")
        for note in verdict.notes:
            _log.info("legacy snapshot read with a note", config_map=title, namespace=owner.namespace, note=note)
        return verdict.runtime

    async def captured(self, owner: Owner, snapshot: JSON) -> None:
        """Write the job's ConfigMap beside its snapshot where ``dual-write`` is set. One of somebody else is left."""
        if self.mode is not Mode.DUAL_WRITE:
            return
        found = await find(self.api, CONFIG_MAP, name_of(owner.name), owner.namespace)
        wanted = config_map_of(snapshot, owner.owner_reference, found)
        if wanted is None:
            return
        if found is not None and not controlled_by(found, owner):
            name = wanted["metadata"]["name"]
            self.ignored(owner, f"ConfigMap {name} is not written: it exists and belongs to somebody else")
            return
        try:
            await self.api.apply(CONFIG_MAP, wanted, field_manager=c.FIELD_MANAGER)
        except (ObjectRefused, Conflict, Forbidden) as error:
            # The way back is not worth a job that does not start.
            self.ignored(owner, f"ConfigMap {wanted['metadata']['name']} is not written: {error.message}")

    async def _judged(self, config_map: JSON, owner: Owner, ref: RuntimeRef) -> LegacyVerdict:
        """The verdict; that on a long text in a thread, one at a time, so that it holds up nobody else."""
        async with self._reading:
            if sum(len(text) for text in (config_map.get("data") or {}).values()) < _LONG:
                return judge(config_map, owner, ref, self.read)
            return await asyncio.to_thread(judge, config_map, owner, ref, self.read)
