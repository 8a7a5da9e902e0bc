# SPDX-License-Identifier: Apache-2.0
"""Everything that happened to the objects of one kind while a test ran, by a watch of its own.

For claims such as "never had another condition" and "was never made again", which no look at one moment can prove.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import msgspec

from support.cluster import Cluster, eventually
from trainsnap_api.transport import Resource

JSON = dict[str, Any]


@dataclass
class History:
    """What the watch has delivered so far: (ADDED, MODIFIED or DELETED, the object), oldest first."""

    changes: list[tuple[str, JSON]] = field(default_factory=list)

    def states(self, name: str) -> list[JSON]:
        """Every state in which an object of that name existed, the last one before its end included."""
        return [obj for _, obj in self.changes if obj["metadata"]["name"] == name]

    def made(self, name: str) -> int:
        """How often an object of that name was created."""
        return sum(kind == "ADDED" and obj["metadata"]["name"] == name for kind, obj in self.changes)

    def conditions(self, name: str) -> set[tuple[str, str, str]]:
        """Type, status and reason of every condition that an object of that name had at any moment."""
        found = [c for obj in self.states(name) for c in (obj.get("status") or {}).get("conditions") or []]
        return {(c["type"], c["status"], c["reason"]) for c in found}

    async def until_gone(self, name: str, *, seconds: float = 20.0) -> None:
        """Await that the watch has shown the deletion of an object of that name."""

        async def ends() -> int:
            return sum(kind == "DELETED" and obj["metadata"]["name"] == name for kind, obj in self.changes)

        await eventually(ends, bool, what=f"the end of {name}", seconds=seconds)


async def events_about(cluster: Cluster, job: str) -> list[tuple[str, str]]:
    """Reason and note of every event about a TrainJob; those about its JobSet, of the same name, are not ours."""
    found = [event for event in await cluster.events_of(job) if event["regarding"]["kind"] == "TrainJob"]
    return [(event["reason"], event["note"]) for event in found]


@asynccontextmanager
async def following(cluster: Cluster, resource: Resource) -> AsyncIterator[History]:
    """Follow the objects of a kind in the cluster's namespace until the block ends."""
    history = History()
    start = (await cluster.api.list(resource, cluster.namespace)).resource_version
    opened = anyio.Event()

    async def follow() -> None:
        watch = cluster.api.watch(resource, cluster.namespace, resource_version=start, on_open=opened.set)
        async with aclosing(watch) as events:
            async for event in events:
                if event.type != "BOOKMARK":
                    history.changes.append((event.type, msgspec.json.decode(event.raw)))

    async def caught_up() -> bool:
        """Whether the watch, which may be slower than a look at an object, has shown all that is there by now."""
        there = {
            item["metadata"]["uid"]: _version(item)
            for item in (await cluster.api.list(resource, cluster.namespace)).items
        }
        shown = {obj["metadata"]["uid"]: (kind, _version(obj)) for kind, obj in history.changes}
        return all(version <= max(int(start), shown.get(uid, ("", 0))[1]) for uid, version in there.items()) and all(
            kind == "DELETED" or uid in there for uid, (kind, _) in shown.items()
        )

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow)
        await opened.wait()
        yield history
        await eventually(caught_up, bool, what=f"all changes of {resource.plural} are seen")
        tasks.cancel_scope.cancel()


def _version(obj: JSON) -> int:
    return int(obj["metadata"]["resourceVersion"])
