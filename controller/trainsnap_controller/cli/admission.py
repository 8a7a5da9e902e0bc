# SPDX-License-Identifier: Apache-2.0
"""Webhooks of an operator that runs outside its cluster: the API server calls them by URL.

Used by ``trainsnap dev``. The configurations are those of the manifests with another address. They exist only while
the server answers: a configuration that points nowhere would refuse every TrainJob of the cluster.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import ipaddress
import re
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, Protocol

import structlog

from trainsnap_api.transport import ApiError, NotFound, Resource, TransportError
from trainsnap_api.transport import resources as r
from trainsnap_controller import constants as c
from trainsnap_controller.cli.install import FIELD_MANAGER, InstallError
from trainsnap_controller.webhooks import paths

JSON = dict[str, Any]
LOOPBACK: Final = "127.0.0.1"
REACHED_SECONDS: Final = 20.0
"""How long the API server may take to learn of the configurations and to reach every webhook."""
REMOVED_SECONDS: Final = 2.0
"""How long stopping waits for an API server that does not answer: all of it is to take less than 5 s."""
_LABEL: Final = "[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?"
_HOST: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_KINDS: Final = {
    resource.kind: resource for resource in (r.MUTATING_WEBHOOK_CONFIGURATION, r.VALIDATING_WEBHOOK_CONFIGURATION)
}

_log = structlog.stdlib.get_logger(__name__)


class Api(Protocol):
    """The requests that are needed, with the installer's rights."""

    async def apply(self, resource: Resource, obj: JSON, *, field_manager: str) -> JSON: ...
    async def create(self, resource: Resource, obj: JSON, *, dry_run: bool) -> JSON: ...
    async def delete(self, resource: Resource, name: str) -> None: ...


class Certificates(Protocol):
    """What the server presents, and whom to trust for it."""

    @property
    def ca_bundle(self) -> bytes: ...
    async def ready(self) -> None: ...


def require_host(host: str) -> None:
    """Raise ``InstallError`` unless a certificate and a URL can name that host."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if len(host) > 253 or not _HOST.fullmatch(host):
            raise InstallError(f"--webhook-host {host[:80]!r}: must be an IP address or a DNS name") from None


def split(objects: Iterable[JSON]) -> tuple[list[JSON], list[JSON]]:
    """The webhook configurations among the manifests, and the rest."""
    found = list(objects)
    return [obj for obj in found if obj["kind"] in _KINDS], [obj for obj in found if obj["kind"] not in _KINDS]


def listen_address(host: str, port: int) -> str:
    """Where to listen for an API server that calls ``host``: there, if it is of this machine alone; else everywhere."""
    return f"{_literal(host)}:{port}" if _loopback(host) else f":{port}"


def by_url(configuration: JSON, host: str, port: int, bundle: bytes) -> JSON:
    """A webhook configuration whose webhooks are called at ``host`` and ``port`` instead of by their service."""
    changed = copy.deepcopy(configuration)
    for webhook in changed["webhooks"]:
        path = webhook["clientConfig"]["service"]["path"]
        webhook["clientConfig"] = {
            "url": f"https://{_literal(host)}:{port}{path}",
            "caBundle": base64.b64encode(bundle).decode(),
        }
    return changed


class ByUrl:
    """Registers the webhooks by URL, and takes them out again.

    ``answered`` gives the paths that have answered so far.
    """

    def __init__(
        self,
        api: Api,
        configurations: Sequence[JSON],
        host: str,
        certificates: Certificates,
        *,
        answered: Callable[[], Iterable[str]],
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        seconds: float = REACHED_SECONDS,
        removed_seconds: float = REMOVED_SECONDS,
    ) -> None:
        self._api = api
        self._configurations = configurations
        self._host = host
        self._certificates = certificates
        self._answered = answered
        self._pause = pause
        self._seconds = seconds
        self._removed_seconds = removed_seconds

    async def register(self, port: int) -> None:
        """Return when the API server reaches every webhook. Raises ``InstallError`` when it does not."""
        await self._certificates.ready()
        try:
            async with asyncio.timeout(self._seconds):
                for configuration in self._configurations:
                    obj = by_url(configuration, self._host, port, self._certificates.ca_bundle)
                    await self._api.apply(_KINDS[obj["kind"]], obj, field_manager=FIELD_MANAGER)
                last = await self._probe()
                while missing := [path for path in paths.KINDS if path not in self._answered()]:
                    await self._pause(0.1)
                    last = await self._probe()
        except TimeoutError:
            raise InstallError(
                f"the API server does not reach the webhooks at {self._host}:{port} within {self._seconds:g} s "
                f"(not called: {', '.join(missing)}; it said: {last}); give --webhook-host an address of this machine "
                "that it can reach"
            ) from None
        except ApiError as error:
            raise InstallError(f"cannot install the webhook configurations: {error.message}") from error
        _log.info("webhooks registered", url=f"https://{_literal(self._host)}:{port}")

    async def unregister(self) -> None:
        """Take the configurations out. What cannot be removed is logged: stopping goes on."""
        left = {configuration["metadata"]["name"]: configuration["kind"] for configuration in self._configurations}
        try:
            async with asyncio.timeout(self._removed_seconds):
                for name, kind in list(left.items()):
                    try:
                        await self._api.delete(_KINDS[kind], name)
                    except NotFound:
                        pass
                    except TransportError as error:
                        _left_behind(name, str(error))
                    del left[name]
        except TimeoutError:
            for name in left:
                _left_behind(name, f"the API server did not answer within {self._removed_seconds:g} s")

    async def _probe(self) -> str:
        """Ask the API server for objects that the webhooks refuse, as a dry run; the last thing that it said."""
        said = ""
        for resource, obj in _probes():
            try:
                await self._api.create(resource, obj, dry_run=True)
            except TransportError as error:
                said = str(error)
        return said


def _probes() -> Iterable[tuple[Resource, JSON]]:
    """Objects that pass the schema and reach every webhook: a job without a runtime, runtimes without a container."""
    name = f"probe-{uuid.uuid4().hex[:12]}"
    patch = {"manager": f"{c.GROUP}/probe"}
    yield r.TRAIN_JOB, _object(r.TRAIN_JOB, name, {"runtimeRef": {"name": name}, "runtimePatches": [patch]})
    job: JSON = {
        "name": c.NODE,
        "template": {
            "metadata": {"labels": {c.ANCESTOR_LABEL: c.TRAINER}},
            "spec": {"template": {"spec": {"containers": [{"name": "probe"}]}}},
        },
    }
    for resource in (r.TRAINING_RUNTIME, r.CLUSTER_TRAINING_RUNTIME):
        yield resource, _object(resource, name, {"template": {"spec": {"replicatedJobs": [job]}}})


def _object(resource: Resource, name: str, spec: JSON) -> JSON:
    metadata = {"name": name, **({"namespace": c.NAMESPACE} if resource.namespaced else {})}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _literal(host: str) -> str:
    """The host as it stands in a URL."""
    return f"[{host}]" if ":" in host else host


def _left_behind(name: str, why: str) -> None:
    _log.warning("webhook configuration not removed: run trainsnap dev --clean", name=name, error=why)
