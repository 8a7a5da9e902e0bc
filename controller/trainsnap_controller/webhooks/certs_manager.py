# SPDX-License-Identifier: Apache-2.0
"""Keeps the server's certificate right for as long as the process runs. A part of the operator on every replica.

Its loop reads the source, has the bundle put into the webhook configurations, and shows a new pair to new connections
once API servers trust it. It decides nothing itself (`certs_policy`) and never ends because of an error: what was good
stays in use, the reason is said once in the log and in the readiness check, and the next try follows.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import structlog
from cryptography import x509

from trainsnap_api.transport import TransportError
from trainsnap_controller.observe.backoff import Backoff
from trainsnap_controller.observe.clock import Clock, SystemClock
from trainsnap_controller.webhooks import certs_model as model
from trainsnap_controller.webhooks.certs_inject import WEBHOOK_CONFIGURATIONS, Configurations, Target
from trainsnap_controller.webhooks.certs_model import Bundle, CertificateError, Pair
from trainsnap_controller.webhooks.certs_policy import Policy, next_due, should_switch
from trainsnap_controller.webhooks.certs_secret import OwnSecret
from trainsnap_controller.webhooks.certs_sources import Files, ForeignSecret, Source
from trainsnap_controller.webhooks.certs_tls import LiveContext, TlsSettings
from trainsnap_controller.webhooks.certs_tls import settings as tls_settings

if TYPE_CHECKING:
    import ssl

    from trainsnap_api.transport import Transport
    from trainsnap_controller.config import Configuration

SECRET_SECONDS: Final = 30.0
"""How often the Secret is read when nothing else gives a reason: the right to watch it is not asked for."""
FILE_SECONDS: Final = 10.0

_log = structlog.stdlib.get_logger(__name__)


class CertificateMetrics(Protocol):
    """What is counted. `observe.metrics` has it in Prometheus form."""

    def read(self) -> None: ...
    def failed(self) -> None: ...
    def expires(self, certificate: str, seconds: float) -> None:
        """``certificate`` is ``serving`` or ``authority``; seconds since the epoch."""


class NoMetrics:
    """Counts nothing."""

    def read(self) -> None: ...
    def failed(self) -> None: ...
    def expires(self, certificate: str, seconds: float) -> None: ...


class CertManager:
    """The certificate of the webhook server.

    Args:
        source: where certificates come from.
        configurations: makes what follows the webhook configurations, given the function to call on a change; None
            when they are not ours to look at.
        inject: whether the bundle is put into them, rather than only awaited there.
        poll_seconds: how often the source is asked when nothing else gives a reason.
    """

    def __init__(
        self,
        source: Source,
        *,
        configurations: Callable[[Callable[[], None]], Configurations] | None = None,
        inject: bool = True,
        policy: Policy | None = None,
        tls: TlsSettings | None = None,
        poll_seconds: float = SECRET_SECONDS,
        clock: Clock | None = None,
        backoff: Backoff | None = None,
        uniform: Callable[[float, float], float] = random.uniform,
        metrics: CertificateMetrics | None = None,
    ) -> None:
        self._source = source
        self._wake = asyncio.Event()
        self._configurations = None if configurations is None else configurations(self._wake.set)
        self._inject = inject
        self._policy = policy or Policy()
        self._poll_seconds = poll_seconds
        self._clock = clock or SystemClock()
        self._backoff = backoff or Backoff()
        self._uniform = uniform
        self._metrics = metrics or NoMetrics()
        self._live = LiveContext(tls)
        self._loaded = asyncio.Event()
        self._bundle = Bundle()
        self._served: Pair | None = None
        self._spread: dict[str, float] = {}
        self._complaint = ""
        self._asked: float | None = None

    @property
    def ssl_context(self) -> ssl.SSLContext:
        """The context for servers; the same object for ever, whatever it presents."""
        return self._live.context

    @property
    def ca_bundle(self) -> bytes:
        """The authorities that clients have to trust, newest first, as PEM; empty until, or unless, they are known."""
        return model.pem(self._bundle.authorities)

    @property
    def served(self) -> Pair | None:
        """What new connections see."""
        return self._served

    async def ready(self) -> None:
        """Return once there is a certificate to present. Whether API servers trust it is in `problems`."""
        await self._loaded.wait()

    def problems(self) -> list[str]:
        """Why API servers cannot reach us through TLS, one line each; [] when they can. Looks at memory only."""
        now = self._clock.wall()
        if self._served is None:
            return [self._complaint or "the serving certificate has not been read yet"]
        lines = []
        if not model.valid(self._served.leaf, now):
            lines.append(f"the serving certificate is not valid now ({_dates(self._served.leaf)})")
        if self._configurations is not None:
            lines += self._configurations.problems(self._served, now)
        if self._silent():
            lines.append(f"certificates could not be read for long: {self._complaint}")
        if lines and self._complaint and self._complaint not in lines[-1]:
            lines.append(self._complaint)
        return lines

    async def run(self) -> None:
        """Keep it right until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            if self._configurations is not None:
                tasks.create_task(self._configurations.run())
            while True:
                self._wake.clear()
                delay = await self._step()
                await self._pause(delay)

    async def _step(self) -> float:
        """One look at everything. Returns the seconds until the next."""
        try:
            bundle = await self._source.current([root for roots in self._trusted() or () for root in roots])
            self._metrics.read()
            self._asked = self._clock.now()
            if self._configurations is not None and self._inject:
                await self._configurations.inject(model.pem(bundle.authorities))
            self._bundle = bundle
            wait = self._offer(bundle)
        except (CertificateError, TransportError) as error:
            self._metrics.failed()
            self._complain(" ".join(str(error).split()))
            return self._backoff.next()
        self._complain("")
        self._backoff.reset()
        return min(wait, self._poll_seconds * self._uniform(0.9, 1.1))

    def _offer(self, bundle: Bundle) -> float:
        """Show the bundle's pair if it is time. Returns the seconds until something becomes due."""
        pair = bundle.pair
        assert pair is not None
        now = self._clock.wall()
        trusted = self._trusted()
        in_place = self._in_place(pair, trusted, now)
        if should_switch(self._served, pair, trusted, now, in_place=in_place, settle=self._policy.settle):
            self._show(pair, bundle)
        moment = next_due(bundle, self._policy)
        wait = self._poll_seconds if moment is None else max(0.0, (moment - now).total_seconds())
        if self._served != pair and in_place is not None:
            wait = min(wait, max(0.0, self._policy.settle - in_place))
        return wait

    def _trusted(self) -> Sequence[Sequence[x509.Certificate]] | None:
        return () if self._configurations is None else self._configurations.trusted()

    def _show(self, pair: Pair, bundle: Bundle) -> None:
        self._live.load(pair)
        self._served = pair
        self._loaded.set()
        self._metrics.expires("serving", pair.leaf.not_valid_after_utc.timestamp())
        if bundle.authorities:
            self._metrics.expires("authority", bundle.authorities[0].not_valid_after_utc.timestamp())
        _log.info("serving certificate in use", certificate=model.fingerprint(pair.leaf), valid=_dates(pair.leaf))

    def _in_place(
        self, pair: Pair, trusted: Sequence[Sequence[x509.Certificate]] | None, now: datetime
    ) -> float | None:
        """For how many seconds every webhook has trusted an authority of the pair; None when one does not."""
        if not trusted:
            return None
        everywhere = set.intersection(*({model.fingerprint(root) for root in roots} for roots in trusted))
        at = self._clock.now()
        self._spread = {root: self._spread.get(root, at) for root in everywhere}
        roots = model.anchors(pair, trusted[0], now)
        return max(
            (at - self._spread[f] for root in roots if (f := model.fingerprint(root)) in everywhere), default=None
        )

    def _silent(self) -> bool:
        """Whether the source has not been heard of for so long that others may have stopped trusting what we serve."""
        limit: timedelta = self._policy.overlap / 2
        return (
            self._inject
            and bool(self._complaint)
            and self._asked is not None
            and self._clock.now() - self._asked > limit.total_seconds()
        )

    def _complain(self, text: str) -> None:
        if text and text != self._complaint:
            _log.warning("certificates are not as they should be", why=text)
        self._complaint = text

    async def _pause(self, seconds: float) -> None:
        """Wait for so long, or until a configuration changes."""
        timer = self._clock.call_later(seconds, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()


def from_configuration(
    api: Transport,
    config: Configuration,
    *,
    namespace: str,
    hosts: tuple[str, ...] = (),
    configurations: Sequence[Target] = WEBHOOK_CONFIGURATIONS,
    policy: Policy | None = None,
    clock: Clock | None = None,
    metrics: CertificateMetrics | None = None,
) -> CertManager:
    """The certificates as ``certManagement`` and ``tls`` of the configuration have it.

    ``hosts`` are names and addresses beside the service's under which the API server reaches us, as it does an operator
    outside the cluster.
    """
    policy, clock = policy or Policy(), clock or SystemClock()
    tls, warnings = tls_settings(config.tls.min_version, config.tls.cipher_suites, config.tls.next_protos)
    for warning in warnings:
        _log.warning(warning)
    section = config.cert_management

    def follow(on_change: Callable[[], None]) -> Configurations:
        return Configurations(api, configurations, on_change, clock=clock)

    match section.effective_provider:
        case "files":
            return CertManager(
                Files(Path(section.cert_dir)),
                inject=False,
                policy=policy,
                tls=tls,
                poll_seconds=FILE_SECONDS,
                clock=clock,
                metrics=metrics,
            )
        case "cert-manager":
            source: Source = ForeignSecret(api, namespace, section.webhook_secret_name)
        case _:
            names = (service_name(config, namespace), *hosts)
            source = OwnSecret(api, namespace, section.webhook_secret_name, names, policy=policy, clock=clock)
    return CertManager(
        source,
        configurations=follow,
        inject=section.effective_provider == "trainsnap",
        policy=policy,
        tls=tls,
        clock=clock,
        metrics=metrics,
    )


def service_name(config: Configuration, namespace: str) -> str:
    """The DNS name by which API servers call a webhook's service."""
    return f"{config.cert_management.webhook_service_name}.{namespace}.svc"


def _dates(certificate: x509.Certificate) -> str:
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return f"{start:%Y-%m-%d %H:%M:%S} to {end:%Y-%m-%d %H:%M:%S} UTC"
