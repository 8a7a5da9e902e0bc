# SPDX-License-Identifier: Apache-2.0
"""Keeps the bundle of authorities in our webhook configurations, and knows what is in them.

Each configuration is watched by its name, so that a bundle that an upgrade took out is back at once, and nothing is
asked while nothing changes. Only ``caBundle`` is ever written; configurations are never made or removed here.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, Protocol

import structlog
from cryptography import x509

from trainsnap_api.transport import Conflict, Invalid, NotFound, Resource
from trainsnap_api.transport.resources import MUTATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOK_CONFIGURATION
from trainsnap_controller import constants as c
from trainsnap_controller.cache import Informer
from trainsnap_controller.cache.reflector import Source
from trainsnap_controller.observe.clock import Clock, SystemClock
from trainsnap_controller.webhooks.certs_model import CertificateError, Pair, anchors, authorities
from trainsnap_controller.webhooks.certs_secret import FIELD_MANAGER

JSON = dict[str, Any]
Target = tuple[Resource, str]
Roots = tuple[x509.Certificate, ...]

WEBHOOK_CONFIGURATIONS: Final[tuple[Target, ...]] = (
    (VALIDATING_WEBHOOK_CONFIGURATION, c.VALIDATING_WEBHOOKS),
    (MUTATING_WEBHOOK_CONFIGURATION, c.MUTATING_WEBHOOKS),
)

_log = structlog.stdlib.get_logger(__name__)


class Patches(Source, Protocol):
    """The part of the transport that is needed here."""

    async def json_patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        operations: Sequence[JSON],
        *,
        field_manager: str | None = None,
    ) -> JSON: ...


class Configurations:
    """The webhook configurations that call us.

    Args:
        targets: kind and name of each.
        on_change: called whenever one of them changed.
    """

    def __init__(
        self, api: Patches, targets: Sequence[Target], on_change: Callable[[], None], *, clock: Clock | None = None
    ) -> None:
        self._api = api
        self._informers = {
            target: Informer(api, target[0], field_selector=f"metadata.name={target[1]}", clock=clock or SystemClock())
            for target in targets
        }
        for informer in self._informers.values():
            informer.add_handler(lambda _event: on_change())
        self._on_change = on_change

    async def run(self) -> None:
        """Follow them until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers.values():
                tasks.create_task(informer.run())
                tasks.create_task(self._report_sync(informer))

    async def inject(self, bundle: bytes) -> None:
        """Put the bundle (PEM) into every webhook of every configuration that has another. Raises transport errors.

        One that changes meanwhile is left for the next time, which its change brings about.
        """
        for (resource, name), informer in self._informers.items():
            obj = _object(informer, name)
            changes = [] if obj is None else operations(obj, bundle)
            if not changes:
                continue
            try:
                stored = await self._api.json_patch(resource, name, None, changes, field_manager=FIELD_MANAGER)
            except (Conflict, NotFound):
                continue
            except Invalid as error:
                # A precondition of the patch that does not hold any more, or what the API server thinks of the rest.
                _log.warning("CA bundle not written", configuration=name, error=str(error))
                continue
            informer.store.observe_write(stored)
            _log.info("CA bundle written", kind=resource.kind, configuration=name, webhooks=len(changes) - 1)

    def trusted(self) -> list[Roots] | None:
        """The authorities in each webhook of each configuration that exists; None until all have been looked for."""
        if not all(informer.synced.is_set() for informer in self._informers.values()):
            return None
        found = [_object(informer, name) for (_, name), informer in self._informers.items()]
        return [roots(webhook) for obj in found if obj is not None for webhook in webhooks(obj)]

    def problems(self, pair: Pair, now: datetime) -> list[str]:
        """Why API servers do not reach us with this pair, one line for each configuration; [] when they do."""
        lines = []
        for (resource, name), informer in self._informers.items():
            obj = _object(informer, name)
            if not informer.synced.is_set():
                lines.append(informer.problem or f"{resource.kind} {name} has not been read yet")
            elif obj is None:
                lines.append(f"{resource.kind} {name} does not exist")
            else:
                bad = [webhook.get("name", "") for webhook in webhooks(obj) if not anchors(pair, roots(webhook), now)]
                if bad:
                    lines.append(f"{resource.kind} {name}: {', '.join(bad)}: caBundle does not trust our certificate")
        return lines

    async def _report_sync(self, informer: Informer) -> None:
        await informer.synced.wait()
        self._on_change()


def operations(obj: JSON, bundle: bytes) -> list[JSON]:
    """The JSON patch that gives every webhook of a configuration this bundle (PEM); [] when all have it.

    It begins with the version for which it was made: the API server answers 409 for any other.
    """
    value = base64.b64encode(bundle).decode()
    changes: list[JSON] = [
        {"op": "add", "path": f"/webhooks/{position}/clientConfig/caBundle", "value": value}
        for position, webhook in enumerate(webhooks(obj))
        if webhook["clientConfig"].get("caBundle") != value
    ]
    if not changes:
        return []
    version = obj["metadata"]["resourceVersion"]
    return [{"op": "replace", "path": "/metadata/resourceVersion", "value": version}, *changes]


def webhooks(obj: JSON) -> list[JSON]:
    """The webhooks of a configuration."""
    return obj.get("webhooks") or []


def roots(webhook: JSON) -> Roots:
    """The authorities that the API server accepts for a webhook; () for none or for nonsense."""
    try:
        return authorities(base64.b64decode(webhook["clientConfig"].get("caBundle") or ""), "caBundle")
    except (CertificateError, binascii.Error):
        return ()


def _object(informer: Informer, name: str) -> JSON | None:
    entry = informer.store.get("", name)
    return None if entry is None else entry.object()
