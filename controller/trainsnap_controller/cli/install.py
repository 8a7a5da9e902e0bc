# SPDX-License-Identifier: Apache-2.0
"""Puts the manifests of the base into a cluster, and takes them out again. Used by ``trainsnap dev``.

Installing is server-side apply under a field manager of its own and can be repeated at any time. Removing keeps a
CRD as long as an object of it exists: nothing that a user made is ever lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from trainsnap_api.transport import ApiError, NotFound, ObjectList, Resource, Transport
from trainsnap_api.transport import resources as r
from trainsnap_controller.manager import ExpectedFailure

JSON = dict[str, Any]
FIELD_MANAGER: Final = "trainsnap-installer"
NOT_OUTSIDE: Final = frozenset({"Deployment", "Service"})
"""Kinds of the base that make no sense when the operator runs outside the cluster."""
ESTABLISHED_SECONDS: Final = 30.0


class Api(Protocol):
    """The requests that removing needs, with the installer's rights."""

    async def get(self, resource: Resource, name: str) -> JSON: ...
    async def list(self, resource: Resource) -> ObjectList: ...
    async def delete(self, resource: Resource, name: str, namespace: str | None) -> None: ...


class InstallError(ExpectedFailure):
    """The installation cannot be completed; one line that says which object and why."""


async def install(api: Transport, objects: Iterable[JSON], *, pause: Callable[[float], Awaitable[None]]) -> None:
    """Apply every object that is wanted outside a cluster; wait until the API server serves the CRDs among them."""
    crds = []
    for obj in objects:
        if obj["kind"] in NOT_OUTSIDE:
            continue
        resource = _resource(obj)
        try:
            await api.apply(resource, obj, field_manager=FIELD_MANAGER)
        except ApiError as error:
            raise InstallError(f"cannot install {_title(obj)}: {error.message}") from error
        if resource is r.CUSTOM_RESOURCE_DEFINITION:
            crds.append(obj["metadata"]["name"])
    for name in crds:
        await _established(api, name, pause)


async def _established(api: Transport, name: str, pause: Callable[[float], Awaitable[None]]) -> None:
    try:
        async with asyncio.timeout(ESTABLISHED_SECONDS):
            while True:
                crd = await api.get(r.CUSTOM_RESOURCE_DEFINITION, name)
                conditions = {x["type"]: x for x in crd.get("status", {}).get("conditions", [])}
                if conditions.get("Established", {}).get("status") == "True":
                    return
                if conditions.get("NonStructuralSchema", {}).get("status") == "True":
                    raise InstallError(f"CRD {name} is refused: {conditions['NonStructuralSchema']['message']}")
                await pause(0.1)
    except TimeoutError as error:
        raise InstallError(f"CRD {name} is not served after {ESTABLISHED_SECONDS:g} s") from error


@dataclass(slots=True)
class Removal:
    """What ``remove`` did: how many objects are gone, and one line for each that was kept: which and why."""

    removed: int = 0
    kept: list[str] = field(default_factory=list)


async def remove(api: Api, objects: Iterable[JSON]) -> Removal:
    """Delete what ``install`` put in, in reverse order.

    The namespace is kept: other things may live in it.
    """
    done = Removal()
    for obj in reversed(list(objects)):
        if obj["kind"] in NOT_OUTSIDE:
            continue
        resource, name = _resource(obj), obj["metadata"]["name"]
        try:
            if resource is r.NAMESPACE:
                await api.get(resource, name)
                done.kept.append(f"{_title(obj)}: other things may live in it")
            elif resource is r.CUSTOM_RESOURCE_DEFINITION and (count := await _instances(api, obj)):
                exist = "1 object of it exists" if count == 1 else f"{count} objects of it exist"
                done.kept.append(f"CRD {name}: {exist}")
            else:
                await api.delete(resource, name, obj["metadata"].get("namespace"))
                done.removed += 1
        except NotFound:
            continue
        except ApiError as error:
            done.kept.append(f"{_title(obj)}: {error.message}")
    return done


async def _instances(api: Api, crd: JSON) -> int:
    spec = crd["spec"]
    kind = Resource(
        spec["group"],
        spec["versions"][0]["name"],
        spec["names"]["kind"],
        spec["names"]["plural"],
        namespaced=spec["scope"] == "Namespaced",
    )
    try:
        return len((await api.list(kind)).items)
    except NotFound:
        return 0


def _resource(obj: JSON) -> Resource:
    found = r.by_kind(obj["apiVersion"], obj["kind"])
    if found is None:
        raise InstallError(f"{_title(obj)}: unknown kind {obj['apiVersion']} {obj['kind']}")
    return found


def _title(obj: JSON) -> str:
    return f"{obj['kind']} {obj['metadata']['name']}"
