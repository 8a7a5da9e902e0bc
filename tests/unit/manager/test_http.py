# SPDX-License-Identifier: Apache-2.0
"""Health and metrics over a real socket."""

from __future__ import annotations

import asyncio
import signal
import ssl
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from support.certificates import Authority
from support.served import served
from trainsnap_controller.manager import (
    Group,
    Health,
    HealthChecks,
    HttpServer,
    ListenError,
    Manager,
    Part,
    metrics_app,
)
from trainsnap_controller.observe.metrics import Metrics

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


async def get(port: int, path: str, *headers: str) -> tuple[int, str]:
    """GET on the loopback interface, without a client library: status and body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = [f"GET {path} HTTP/1.1", "host: localhost", "connection: close", *headers, "", ""]
    writer.write("\r\n".join(lines).encode())
    answer = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split()[1]), body


async def test_health_answers_ok_and_in_full_when_asked_or_failing() -> None:
    checks = HealthChecks()
    state = {"caches": Health(True), "leader-election": Health(True, "standing by: held by other")}
    for name in state:
        checks.add_ready(name, lambda name=name: state[name])  # type: ignore[misc]
    async with served(checks.app()) as port:
        assert await get(port, "/healthz") == (200, "ok")
        assert await get(port, "/readyz") == (200, "ok")
        status, body = await get(port, "/readyz?verbose")
        assert status == 200
        assert body == "[+]caches ok\n[+]leader-election ok: standing by: held by other\nreadyz check passed\n"
        state["caches"] = Health(False, "jobsets.jobset.x-k8s.io: not served")
        status, body = await get(port, "/readyz")
        assert status == 500
        assert body.startswith("[-]caches failed: jobsets.jobset.x-k8s.io: not served\n[+]leader-election ok")
        assert (await get(port, "/readyz/leader-election"))[0] == 200
        assert (await get(port, "/readyz/caches"))[0] == 500
        assert (await get(port, "/readyz/nope"))[0] == 404
        assert (await get(port, "/healthz"))[0] == 200


async def test_a_check_that_breaks_fails() -> None:
    checks = HealthChecks()

    def broken() -> Health:
        raise ValueError("no")

    checks.add_live("broken", broken)
    async with served(checks.app()) as port:
        status, body = await get(port, "/healthz")
    assert status == 500
    assert "[-]broken failed: the check itself failed: no" in body


async def test_metrics_are_served_in_the_format_that_is_asked_for() -> None:
    metrics = Metrics()
    metrics.controller("trainjob_controller")
    async with served(metrics_app(metrics.registry)) as port:
        status, body = await get(port, "/metrics")
        assert status == 200
        assert 'controller_runtime_reconcile_total{controller="trainjob_controller",result="error"} 0.0' in body
        assert "_created" not in body
        _, body = await get(port, "/metrics", "accept: application/openmetrics-text; version=1.0.0")
        assert body.endswith("# EOF\n")


@pytest.mark.parametrize("version", ["foo", "1.x", ""])
@pytest.mark.parametrize("format", ["application/openmetrics-text", "text/plain"])
async def test_a_format_that_does_not_exist_is_answered_with_the_usual_one(format: str, version: str) -> None:
    async with served(metrics_app(Metrics().registry)) as port:
        status, body = await get(port, "/metrics", f"accept: {format}; version={version}")
    assert (status, body[:6]) == (200, "# HELP")


@pytest.mark.parametrize("path", ["/metrics/", "/healthz/", "/readyz/"])
async def test_nobody_is_sent_to_a_host_that_the_request_names(path: str) -> None:
    app = metrics_app(Metrics().registry) if path == "/metrics/" else HealthChecks().app()
    async with served(app) as port:
        assert (await get(port, path))[0] == 404


@pytest.mark.parametrize("address", [":0", "127.0.0.1:0", "localhost:0"])
async def test_addresses_that_work(address: str) -> None:
    async with served(HealthChecks().app(), address) as port:
        assert (await get(port, "/healthz"))[0] == 200


@pytest.mark.parametrize(
    "address", ["8081", "", "host:port", ":70000", "127.0.0.1:-1", "no.such.host.invalid:0", ":²", ":٣"]
)
def test_addresses_that_do_not_work_are_named(address: str) -> None:
    with pytest.raises(ListenError, match=r"^health: ") as caught:
        HttpServer("health", None, address)
    assert address in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [f":{'0' * 5000}", f"{'a' * 300}:0", f"{'é' * 70}.b:0", "\0:0", "\ud800:0"],
    ids=["digits", "long", "long and not ASCII", "nul", "surrogate"],
)
def test_addresses_that_no_resolver_is_asked_about(address: str) -> None:
    with pytest.raises(ListenError, match=r"^health: "):
        HttpServer("health", None, address)


def test_a_port_that_is_taken_is_an_error_at_once() -> None:
    first = HttpServer("first", None, "127.0.0.1:0")
    with pytest.raises(ListenError, match="Address already in use"):
        HttpServer("second", None, f"127.0.0.1:{first.port}")
    first.close()


async def test_https_with_a_certificate_that_is_replaced_while_served(tmp_path: Path) -> None:
    root = Authority()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trust = ssl.create_default_context(cadata=root.pem.decode())

    def load() -> None:
        pair = root.issue("server", names=("localhost",))
        (tmp_path / "crt").write_bytes(pair.certificate)
        (tmp_path / "key").write_bytes(pair.key)
        context.load_cert_chain(tmp_path / "crt", tmp_path / "key")

    async def serial() -> bytes | None:
        _, writer = await asyncio.open_connection("localhost", server.port, ssl=trust)
        certificate: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        await writer.wait_closed()
        return certificate

    load()
    server = HttpServer("test", HealthChecks().app(), "localhost:0", tls=context)
    task = asyncio.create_task(server.run())
    await server.wait_ready()
    first = await serial()
    load()
    assert await serial() != first
    await server.stop()
    await task


async def test_a_server_that_is_cancelled_gives_its_port_back() -> None:
    server = HttpServer("test", HealthChecks().app(), "127.0.0.1:0")
    task = asyncio.create_task(server.run())
    await server.wait_ready()
    task.cancel()
    await asyncio.wait([task])
    again = HttpServer("again", None, f"127.0.0.1:{server.port}")
    again.close()


async def test_signals_stay_with_the_process() -> None:
    before = signal.getsignal(signal.SIGTERM)
    async with served(HealthChecks().app()):
        assert signal.getsignal(signal.SIGTERM) is before


async def test_the_manager_answers_health_while_it_starts_and_until_it_has_stopped() -> None:
    manager: Manager = Manager(signals=(), on_ready=lambda: manager.stop())
    server = HttpServer("health", manager.health.app(), "127.0.0.1:0")
    manager.add_server(server)
    answers: list[tuple[int, str]] = []

    async def ask() -> None:
        answers.append(await get(server.port, "/readyz"))

    async def runs() -> None:
        await asyncio.Event().wait()

    manager.add(Group.SERVICES, Part("service", runs, ready=ask))
    manager.add(Group.CONTROLLERS, Part("controller", runs, stop=ask, cancel=True))
    with capture_logs():
        assert await manager.run() == 0
    assert answers == [(200, "ok"), (500, "[-]running failed: stopping\nreadyz check failed\n")]
    with pytest.raises(ConnectionRefusedError):
        await get(server.port, "/healthz")
