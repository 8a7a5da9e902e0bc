# SPDX-License-Identifier: Apache-2.0
"""The loop around the decisions: what it does on errors, when it looks again, what it says of itself."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from structlog.testing import capture_logs

from support.authorities import SERVICE, key
from support.clock import FakeClock, settle
from trainsnap_api.transport import Disconnected
from trainsnap_controller.config import Configuration
from trainsnap_controller.observe.backoff import Backoff
from trainsnap_controller.observe.metrics import Metrics
from trainsnap_controller.webhooks.certs_inject import Configurations, operations, roots
from trainsnap_controller.webhooks.certs_manager import CertManager, from_configuration, service_name
from trainsnap_controller.webhooks.certs_model import Bundle, CertificateError, Pair, anchors, pem
from trainsnap_controller.webhooks.certs_policy import Policy, Work, renew
from trainsnap_controller.webhooks.certs_sources import Files

pytestmark = pytest.mark.anyio

JSON = dict[str, Any]
START = datetime(2026, 1, 1, tzinfo=UTC)
POLICY = Policy()


def bundle(number: int = 0, *older: Bundle, now: datetime = START) -> Bundle:
    also = [root for one in older for root in one.authorities]
    return renew(Bundle(), Work.AUTHORITY, now, POLICY, [SERVICE], also_trust=also, key=lambda: key(number))


class Fixed:
    """A source that gives what it is told to give."""

    def __init__(self, *answers: Bundle | Exception) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def current(self, trusted: Iterable[x509.Certificate] = ()) -> Bundle:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class Fake:
    """Webhook configurations that hold one bundle."""

    def __init__(self, clock: FakeClock) -> None:
        self.held: tuple[x509.Certificate, ...] = ()
        self.known = True
        self.writable = True
        self.injected = 0
        self.on_change: Callable[[], None] = lambda: None
        self._clock = clock

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def inject(self, wanted: bytes) -> None:
        if self.writable and self.known and wanted != pem(self.held):
            self.injected += 1
            self.held = tuple(x509.load_pem_x509_certificates(wanted))

    def trusted(self) -> Sequence[Sequence[x509.Certificate]] | None:
        return [self.held] if self.known else None

    def problems(self, pair: Pair, now: datetime) -> list[str]:
        return [] if anchors(pair, self.held, now) else ["not trusted"]


@asynccontextmanager
async def running(
    source: Fixed | Files, clock: FakeClock, fake: Fake | None = None, **options: Any
) -> AsyncIterator[CertManager]:
    def configurations(on_change: Callable[[], None]) -> Configurations:
        assert fake is not None
        fake.on_change = on_change
        return fake  # type: ignore[return-value]

    manager = CertManager(
        source,
        configurations=None if fake is None else configurations,
        clock=clock,
        backoff=Backoff(uniform=lambda low, high: high),
        uniform=lambda low, high: 1.0,
        **options,
    )
    task = asyncio.create_task(manager.run())
    await settle()
    try:
        yield manager
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_the_first_pair_is_served_at_once_and_the_bundle_put_in_place() -> None:
    clock = FakeClock()
    fake, found = Fake(clock), bundle()
    async with running(Fixed(found), clock, fake) as manager:
        await manager.ready()
        assert manager.served == found.pair
        assert manager.ca_bundle == pem(found.authorities)
        assert fake.held == found.authorities
        assert manager.problems() == []


async def test_a_pair_of_a_new_authority_waits_until_api_servers_know_it() -> None:
    clock = FakeClock()
    first = bundle(0)
    second = bundle(1, first)
    fake = Fake(clock)
    async with running(Fixed(first, second), clock, fake) as manager:
        await clock.advance(30.0)
        assert fake.held == second.authorities
        assert manager.served == first.pair
        await clock.advance(POLICY.settle - 0.1)
        assert manager.served == first.pair
        await clock.advance(0.2)
        assert manager.served == second.pair
        assert manager.problems() == []


async def test_a_bundle_that_somebody_takes_out_is_back_at_once() -> None:
    clock = FakeClock()
    fake, found = Fake(clock), bundle()
    async with running(Fixed(found), clock, fake):
        fake.held = ()
        fake.on_change()
        await settle()
        assert fake.held == found.authorities


async def test_errors_are_said_once_and_what_was_good_stays_in_use() -> None:
    clock = FakeClock()
    found = bundle()
    source = Fixed(found, *[Disconnected("connection refused")] * 4, found)
    with capture_logs() as logs:
        async with running(source, clock, Fake(clock)) as manager:
            await clock.advance(30.0)
            await clock.advance(5.0)
            assert source.asked >= 4
            assert manager.served == found.pair
            assert manager.problems() == []
    assert [line["why"] for line in logs if line["log_level"] == "warning"] == ["connection refused"]


async def test_before_the_first_pair_the_reason_is_the_problem() -> None:
    clock = FakeClock()
    async with running(Fixed(CertificateError("Secret is not ours")), clock) as manager:
        assert manager.problems() == ["Secret is not ours"]


async def test_not_ready_while_the_bundle_is_not_in_place() -> None:
    clock = FakeClock()
    fake = Fake(clock)
    fake.writable = False
    async with running(Fixed(bundle()), clock, fake) as manager:
        assert manager.problems() == ["not trusted"]


async def test_not_ready_when_the_certificate_expired() -> None:
    clock = FakeClock()
    old = bundle(now=START - timedelta(days=89))
    async with running(Fixed(old, Disconnected("gone")), clock, Fake(clock)) as manager:
        clock.tick(2 * 86400.0)
        await settle()
        lines = manager.problems()
        assert lines[0].startswith("the serving certificate is not valid now (2025-10-03")


async def test_a_replica_that_hears_nothing_for_long_is_not_ready() -> None:
    clock = FakeClock()
    async with running(Fixed(bundle(), Disconnected("gone")), clock, Fake(clock)) as manager:
        for _ in range(50):
            await clock.advance(30.0)
        assert manager.problems() == []
        for _ in range(15):
            await clock.advance(30.0)
        assert manager.problems() == ["certificates could not be read for long: gone"]


async def test_it_is_counted_and_expiry_is_shown() -> None:
    clock, metrics = FakeClock(), Metrics()
    found = bundle()
    source = Fixed(found, Disconnected("gone"), found)
    async with running(source, clock, Fake(clock), metrics=metrics.certificates()):
        await clock.advance(30.0)
        value = metrics.registry.get_sample_value
        assert value("certwatcher_read_certificate_total") == 1
        assert value("certwatcher_read_certificate_errors_total") == 1
        assert found.pair is not None
        for name, certificate in (("serving", found.pair.leaf), ("authority", found.authorities[0])):
            labels = {"certificate": name}
            got = value("trainsnap_certificate_expiration_timestamp_seconds", labels)
            assert got == certificate.not_valid_after_utc.timestamp()


async def test_files_are_read_again_and_torn_ones_are_not_used(tmp_path: Path) -> None:
    clock = FakeClock()
    first, second = bundle(0).pair, bundle(1).pair
    assert first is not None
    assert second is not None
    (tmp_path / "tls.crt").write_bytes(first.pem())
    (tmp_path / "tls.key").write_bytes(first.key)
    async with running(Files(tmp_path), clock, inject=False, poll_seconds=10.0) as manager:
        assert manager.served == first
        (tmp_path / "tls.crt").write_bytes(second.pem())
        await clock.advance(10.0)
        assert manager.served == first
        assert manager.problems() == []
        (tmp_path / "tls.key").write_bytes(second.key)
        await clock.advance(10.0)
        assert manager.served == second
        assert manager.ca_bundle == b""


async def test_missing_files_are_named(tmp_path: Path) -> None:
    async with running(Files(tmp_path / "none"), FakeClock(), inject=False) as manager:
        assert manager.problems() == [f"{tmp_path}/none/tls.crt: No such file or directory"]


@pytest.mark.parametrize(
    ("section", "want"),
    [
        pytest.param({}, "OwnSecret", id="the default"),
        pytest.param({"enable": False}, "Files", id="switched off as in the reference"),
        pytest.param({"provider": "files"}, "Files", id="files"),
        pytest.param({"provider": "cert-manager"}, "ForeignSecret", id="cert-manager"),
        pytest.param({"enable": False, "provider": "cert-manager"}, "ForeignSecret", id="cert-manager, switched off"),
    ],
)
async def test_the_configuration_says_where_certificates_come_from(section: JSON, want: str) -> None:
    config = Configuration.model_validate({"certManagement": section})
    manager = from_configuration(None, config, namespace="ns")  # type: ignore[arg-type]
    assert type(manager._source).__name__ == want
    assert service_name(config, "ns") == "kubeflow-trainer-controller-manager.ns.svc"


def test_a_provider_that_is_switched_off_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="provider trainsnap needs enable: true"):
        Configuration.model_validate({"certManagement": {"enable": False, "provider": "trainsnap"}})


def test_only_webhooks_with_another_bundle_are_changed_and_only_in_the_version_that_was_read() -> None:
    wanted = pem(bundle().authorities)
    value = base64.b64encode(wanted).decode()
    obj: JSON = {
        "metadata": {"resourceVersion": "7"},
        "webhooks": [
            {"name": "right", "clientConfig": {"caBundle": value}},
            {"name": "none", "clientConfig": {}},
            {"name": "other", "clientConfig": {"caBundle": "Cg=="}},
        ],
    }
    assert operations(obj, wanted) == [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": value},
        {"op": "add", "path": "/webhooks/2/clientConfig/caBundle", "value": value},
    ]
    assert [len(roots(webhook)) for webhook in obj["webhooks"]] == [1, 0, 0]
    obj["webhooks"] = obj["webhooks"][:1]
    assert operations(obj, wanted) == []
    assert operations({"metadata": {"resourceVersion": "7"}}, wanted) == []
