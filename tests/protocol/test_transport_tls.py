# SPDX-License-Identifier: Apache-2.0
"""TLS: what is verified, which certificate is shown, and that no key is left behind in a temporary folder."""

from __future__ import annotations

import base64
import ssl
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.certificates import Authority, Pair
from support.loopback import connected
from support.misbehaving import reply, serving, status
from trainsnap_api.transport import ConfigurationError, Disconnected, RetryPolicy, Transport

pytestmark = pytest.mark.anyio


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def client(authority: Authority) -> Pair:
    return authority.issue("jane")


def server_side(folder: Path, authority: Authority, pair: Pair, *, want_client: bool = False) -> ssl.SSLContext:
    for name, data in (("server.crt", pair.certificate), ("server.key", pair.key), ("root.crt", authority.pem)):
        (folder / name).write_bytes(data)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    if want_client:
        context.load_verify_locations(folder / "root.crt")
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def files_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def subject(seen: Any) -> str:
    return str(dict(item[0] for item in seen.peer_certificate["subject"])["commonName"])


async def test_inline_certificates_are_used_and_leave_no_file(
    tmp_path: Path, temporary: Path, authority: Authority, client: Pair
) -> None:
    tls = server_side(tmp_path, authority, authority.issue("s", addresses=("127.0.0.1",)), want_client=True)
    async with serving(tls) as server:
        server.then(reply({"ok": 1}))
        config = server.kubeconfig(
            cluster={"certificate-authority-data": b64(authority.pem)},
            **{"client-certificate-data": b64(client.certificate), "client-key-data": b64(client.key)},
        )
        async with connected(server, connect={"kubeconfig": config}) as transport:
            assert await transport.server_version() == {"ok": 1}
            assert files_in(temporary) == []
        assert subject(server.seen[0]) == "jane"


async def test_files_count_from_the_kubeconfig_that_names_them(
    tmp_path: Path, authority: Authority, client: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere, home = tmp_path / "elsewhere", tmp_path / "home"
    for folder in (elsewhere, home):
        folder.mkdir()
    (home / "ca.crt").write_bytes(authority.pem)
    (home / "me.crt").write_bytes(client.certificate)
    (home / "me.key").write_bytes(client.key)
    (elsewhere / "me.key").write_text("kr8s would take this one: it is in the working directory")
    monkeypatch.chdir(elsewhere)
    tls = server_side(tmp_path, authority, authority.issue("s", addresses=("127.0.0.1",)), want_client=True)
    async with serving(tls) as server:
        server.then(reply({}))
        cluster = {"certificate-authority": "ca.crt"}
        config = server.kubeconfig(cluster=cluster, **{"client-certificate": "me.crt", "client-key": "./me.key"})
        (home / "config").write_text(yaml.safe_dump(config))
        async with connected(server, connect={"kubeconfig": home / "config"}) as transport:
            await transport.server_version()
        assert subject(server.seen[0]) == "jane"
    assert sorted(path.name for path in home.iterdir()) == ["ca.crt", "config", "me.crt", "me.key"]


async def test_a_provider_shows_no_client_certificate(tmp_path: Path, authority: Authority, client: Pair) -> None:
    tls = server_side(tmp_path, authority, authority.issue("s", addresses=("127.0.0.1",)))
    tls.load_verify_locations(tmp_path / "root.crt")
    tls.verify_mode = ssl.CERT_OPTIONAL
    async with serving(tls) as server:
        server.then(reply({}))
        config = server.kubeconfig(
            cluster={"certificate-authority-data": b64(authority.pem)},
            **{"client-certificate-data": b64(client.certificate), "client-key-data": b64(client.key)},
        )
        connect = {"kubeconfig": config, "token_provider": lambda: "theirs"}
        async with connected(server, connect=connect) as transport:
            await transport.server_version()
        assert not server.seen[0].peer_certificate
        assert server.seen[0].headers["authorization"] == "Bearer theirs"


async def test_a_certificate_rotated_on_disk_is_shown_after_a_401(tmp_path: Path, authority: Authority) -> None:
    def issue(name: str) -> None:
        pair = authority.issue(name)
        (tmp_path / "me.crt").write_bytes(pair.certificate)
        (tmp_path / "me.key").write_bytes(pair.key)

    tls = server_side(tmp_path, authority, authority.issue("s", addresses=("127.0.0.1",)), want_client=True)
    issue("old")
    async with serving(tls) as server:
        server.then(status(401), reply({}))
        files = {"client-certificate": str(tmp_path / "me.crt"), "client-key": str(tmp_path / "me.key")}
        config = server.kubeconfig(cluster={"certificate-authority-data": b64(authority.pem)}, **files)
        async with connected(server, connect={"kubeconfig": config}) as transport:
            issue("new")
            await transport.server_version()
            await transport.server_version()
        assert [subject(seen) for seen in server.seen] == ["old", "new", "new"]
        assert server.connections == 2


@pytest.mark.parametrize(
    ("cluster", "names", "want"),
    [
        pytest.param({}, (), "not trusted", id="an authority that is not known"),
        pytest.param({"ca": "theirs"}, (), "not trusted", id="another authority"),
        pytest.param({"ca": "ours"}, ("other.example",), "not trusted", id="another name"),
        pytest.param({"ca": "ours", "tls-server-name": "other.example"}, ("other.example",), None, id="the name set"),
        pytest.param({"insecure-skip-tls-verify": True}, (), None, id="told not to look"),
    ],
)
async def test_what_is_verified(
    tmp_path: Path, authority: Authority, cluster: dict[str, Any], names: tuple[str, ...], want: str | None
) -> None:
    pair = authority.issue("s", names=names) if names else authority.issue("s", addresses=("127.0.0.1",))
    roots = {"ours": authority.pem, "theirs": Authority("someone else's").pem}
    settings = {key: value for key, value in cluster.items() if key != "ca"}
    if "ca" in cluster:
        settings["certificate-authority-data"] = b64(roots[cluster["ca"]])
    async with serving(server_side(tmp_path, authority, pair)) as server:
        server.then(reply({"ok": 1}))
        connect = {"kubeconfig": server.kubeconfig(cluster=settings, token="t")}
        async with connected(server, connect=connect, retry=RetryPolicy(attempts=1)) as transport:
            if want is None:
                assert await transport.server_version() == {"ok": 1}
            else:
                with pytest.raises(Disconnected, match=want) as caught:
                    await transport.server_version()
                assert not caught.value.sent
                assert not server.seen, "no token is sent to a server that is not trusted"


@pytest.mark.parametrize("key", ["client-key-data", "certificate-authority-data"])
async def test_unusable_key_material_is_one_clear_line_and_leaves_no_file(
    temporary: Path, authority: Authority, client: Pair, key: str
) -> None:
    user = {"client-certificate-data": b64(client.certificate), "client-key-data": b64(client.key)}
    cluster = {"certificate-authority-data": b64(authority.pem)}
    (user if key in user else cluster)[key] = b64(b"not a key")
    async with serving() as server:
        with pytest.raises(ConfigurationError, match="certificates or keys cannot be used") as caught:
            await Transport.connect(kubeconfig=server.kubeconfig(cluster=cluster, **user))
    assert "\n" not in str(caught.value)
    assert files_in(temporary) == []


async def test_a_client_certificate_without_an_authority_trusts_the_systems(
    temporary: Path, authority: Authority, client: Pair, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "system.pem").write_bytes(authority.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "system.pem"))
    tls = server_side(tmp_path, authority, authority.issue("s", addresses=("127.0.0.1",)), want_client=True)
    async with serving(tls) as server:
        server.then(reply({"ok": 1}))
        user: dict[str, Any] = {"client-certificate-data": b64(client.certificate), "client-key-data": b64(client.key)}
        async with connected(server, connect={"kubeconfig": server.kubeconfig(**user)}) as transport:
            assert await transport.server_version() == {"ok": 1}
