# SPDX-License-Identifier: Apache-2.0
"""Who a transport is to the server: rotated tokens, 401 and 403, credential plugins, providers, impersonation."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.loopback import connected
from support.misbehaving import Behaviour, Exchange, Server, reply, serving, status
from trainsnap_api.transport import (
    ApiError,
    ConfigurationError,
    Disconnected,
    Forbidden,
    Transport,
    TransportSettings,
    Unauthorized,
    credentials,
)

pytestmark = pytest.mark.anyio


AS_SOMEONE: dict[str, Any] = {"as": "someone", "as-groups": ["g"]}


class Hand:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def accepts(*tokens: str) -> Behaviour:
    """200 for these tokens, 401 for all others."""

    async def behave(exchange: Exchange) -> None:
        good = exchange.seen.headers.get("authorization", "").removeprefix("Bearer ") in tokens
        await (reply({"gitVersion": "v1"}) if good else status(401, "Unauthorized", "Unauthorized"))(exchange)

    return behave


def sent(server: Server) -> list[str]:
    return [seen.headers.get("authorization", "none").removeprefix("Bearer ") for seen in server.seen]


def write_plugin(folder: Path, *answers: dict[str, Any], code: int = 0, note: str = "") -> dict[str, Any]:
    """An ``exec`` setting whose n-th run prints the n-th answer, the last one again and again. It notes its runs."""
    folder.mkdir(exist_ok=True)
    (folder / "answers.json").write_text(json.dumps(answers))
    (folder / "plugin.py").write_text(
        "import json, os, pathlib, sys\n"
        "here = pathlib.Path(__file__).parent\n"
        "runs = here / 'runs'\n"
        "n = len(runs.read_text().splitlines()) if runs.exists() else 0\n"
        "with runs.open('a') as f: f.write(os.environ['KUBERNETES_EXEC_INFO'] + '\\n')\n"
        "answers = json.loads((here / 'answers.json').read_text())\n"
        f"sys.stderr.write({note!r})\n"
        "status = answers[min(n, len(answers) - 1)] if answers else {}\n"
        "document = {'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential', 'status': status}\n"
        "print(json.dumps(document) if answers else 'Welcome!')\n"
        f"sys.exit({code})\n"
    )
    return {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(folder / "plugin.py")],
        "env": [{"name": "PYTHONWARNINGS", "value": "default"}],
        "provideClusterInfo": True,
    }


def runs(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "runs").read_text().splitlines()]


# -- token files ------------------------------------------------------------------------------------------------------


async def test_a_rotated_token_file_is_read_again_when_it_is_old(tmp_path: Path) -> None:
    clock, file = Hand(), tmp_path / "token"
    file.write_text("one\n")
    async with serving() as server:
        server.then(reply({}))
        connect = {"kubeconfig": server.kubeconfig(tokenFile=str(file), token="inline"), "clock": clock}
        async with connected(server, connect=connect) as transport:
            await transport.server_version()
            file.write_text("two")
            clock.now += 59
            await transport.server_version()
            clock.now += 2
            await transport.server_version()
            await transport.server_version()
        assert sent(server) == ["one", "one", "two", "two"]


async def test_a_rotation_is_noticed_by_a_401_without_a_failed_call(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    async with serving() as server:
        server.then(accepts("one"), accepts("two"))
        connect = {"kubeconfig": server.kubeconfig(tokenFile=str(file))}
        async with connected(server, connect=connect) as transport:
            await transport.server_version()
            file.write_text("two")
            await transport.server_version()
            await transport.server_version()
        assert sent(server) == ["one", "one", "two", "two"]


async def test_many_requests_survive_many_rotations(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("0")

    async def newest(exchange: Exchange) -> None:
        await accepts(file.read_text())(exchange)

    async with serving() as server:
        server.then(newest)
        connect = {"kubeconfig": server.kubeconfig(tokenFile=str(file))}
        async with connected(server, connect=connect) as transport:
            for number in range(1, 6):
                file.write_text(str(number))
                await asyncio.gather(*(transport.server_version() for _ in range(10)))


@pytest.mark.parametrize("broken", ["gone", "empty"])
async def test_an_unreadable_token_file_keeps_the_last_token_in_use(tmp_path: Path, broken: str) -> None:
    clock, file = Hand(), tmp_path / "token"
    file.write_text("one")
    async with serving() as server:
        server.then(reply({}))
        connect = {"kubeconfig": server.kubeconfig(tokenFile=str(file)), "clock": clock}
        async with connected(server, connect=connect) as transport:
            file.unlink()
            if broken == "empty":
                file.touch()
            clock.now += 100
            await transport.server_version()
            assert sent(server) == ["one"]
        with pytest.raises(ConfigurationError, match="token file"):
            await Transport.connect(kubeconfig=server.kubeconfig(tokenFile=str(file)))


async def test_in_a_cluster_the_mounted_files_are_used(tmp_path: Path) -> None:
    from trainsnap_api.transport import kubeconfig

    (tmp_path / "token").write_text("mounted")
    (tmp_path / "ca.crt").write_text("not read here")
    (tmp_path / "namespace").write_text("kubeflow-system\n")
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    access = kubeconfig.load(None, None, in_cluster=True, environ=environ, service_account=str(tmp_path))
    assert (access.server, access.namespace) == ("https://[fd00::1]:443", "kubeflow-system")
    assert access.user == {"tokenFile": str(tmp_path / "token")}
    with pytest.raises(ConfigurationError, match="not in a cluster"):
        await Transport.connect(in_cluster=True, environ={})


# -- 401 and 403 ------------------------------------------------------------------------------------------------------


async def test_401_with_nothing_new_to_offer_is_an_answer() -> None:
    async with serving() as server, connected(server, token="bad") as transport:
        server.then(accepts("good"))
        with pytest.raises(Unauthorized):
            await transport.server_version()
        assert sent(server) == ["bad"]


async def test_403_is_an_answer_and_renews_nothing(tmp_path: Path) -> None:
    plugin = write_plugin(tmp_path / "p", {"token": "t"})
    async with serving() as server:
        server.then(status(403, "Forbidden", "no"))
        async with connected(server, connect={"kubeconfig": server.kubeconfig(exec=plugin)}) as transport:
            for _ in range(3):
                with pytest.raises(Forbidden):
                    await transport.server_version()
        assert len(server.seen) == 3
        assert len(runs(tmp_path / "p")) == 1
        assert server.connections == 1


async def test_a_rewritten_kubeconfig_is_noticed_by_a_401(tmp_path: Path) -> None:
    async with serving() as server:
        server.then(accepts("new"))
        file = tmp_path / "config"
        file.write_text(yaml.safe_dump(server.kubeconfig(token="old")))
        async with connected(server, connect={"kubeconfig": file}) as transport:
            file.write_text(yaml.safe_dump(server.kubeconfig(token="new")))
            await transport.server_version()
        assert sent(server) == ["old", "new"]


async def test_a_watch_renews_on_401_too(tmp_path: Path) -> None:
    from trainsnap_api.transport.resources import TRAIN_JOB

    file = tmp_path / "token"
    file.write_text("one")
    async with serving() as server:
        server.then(status(401), reply({}))
        async with connected(server, connect={"kubeconfig": server.kubeconfig(tokenFile=str(file))}) as transport:
            file.write_text("two")
            with pytest.raises(Disconnected, match="inside an event"):  # the answer is no watch, which is all it takes
                async for _ in transport.watch(TRAIN_JOB, resource_version="1"):
                    pass
        assert sent(server) == ["one", "two"]


# -- providers --------------------------------------------------------------------------------------------------------


async def test_a_provider_replaces_the_whole_user_of_the_kubeconfig() -> None:
    numbers: Iterator[int] = iter(range(100))
    clock = Hand()

    async def provide() -> str:
        return f"t{next(numbers)}"

    async with serving() as server:
        server.then(reply({}), reply({}), status(401), reply({}))
        config = server.kubeconfig(token="admin", **AS_SOMEONE)
        connect = {"kubeconfig": config, "token_provider": provide, "clock": clock}
        async with connected(server, connect=connect) as transport:
            await transport.server_version()
            await transport.server_version()
            clock.now += 10
            await transport.server_version()
            clock.now += 61
            await transport.server_version()
        assert sent(server) == ["t0", "t0", "t0", "t1", "t2"]
        assert not any(name.startswith("impersonate") for seen in server.seen for name in seen.headers)


@pytest.mark.parametrize(
    "failure",
    [Disconnected("the installer cannot reach the server"), KeyError("token"), OSError("no such file")],
    ids=["ours", "a fault of its own", "the system's"],
)
async def test_a_provider_that_fails_later_keeps_the_last_token_in_use(failure: Exception) -> None:
    clock, answers = Hand(), iter(["one", None])

    def provide() -> str:
        answer = next(answers)
        if answer is None:
            raise failure
        return answer

    async with serving() as server:
        server.then(reply({}))
        connect = {"token_provider": provide, "clock": clock}
        async with connected(server, connect=connect) as transport:
            clock.now += 100
            await transport.server_version()
        assert sent(server) == ["one"]


async def test_a_provider_that_fails_at_once_says_why_in_one_line() -> None:
    def provide() -> str:
        raise OSError("no such\nfile")

    async with serving() as server:
        with pytest.raises(ConfigurationError, match=r"^the token provider failed: no such file$"):
            async with connected(server, connect={"token_provider": provide}):
                pass


async def test_a_provider_that_never_answers_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "PROVIDER_SECONDS", 0.05)

    async def provide() -> str:
        await asyncio.Event().wait()
        raise AssertionError

    async with serving() as server:
        with pytest.raises(ConfigurationError, match=r"gave no token within 0\.05 s"):
            async with connected(server, connect={"token_provider": provide}):
                pass


# -- plugins ----------------------------------------------------------------------------------------------------------


async def test_a_plugin_is_run_once_until_its_credential_expires(tmp_path: Path) -> None:
    clock, wall, folder = Hand(), Hand(), tmp_path / "p"
    wall.now = time.time()
    expires = datetime.fromtimestamp(wall.now + 600, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    plugin = write_plugin(folder, {"token": "one", "expirationTimestamp": expires}, {"token": "two"})
    async with serving() as server:
        server.then(reply({}))
        config = server.kubeconfig(exec=plugin)
        async with connected(
            server, connect={"kubeconfig": config, "clock": clock, "wall_clock": wall, "environ": {"PATH": os.defpath}}
        ) as transport:
            await transport.server_version()
            for hand in (clock, wall):
                hand.now += 560
            await transport.server_version()
            for hand in (clock, wall):
                hand.now += 20
            await transport.server_version()
        assert sent(server) == ["one", "one", "two"]
        assert (
            runs(folder)
            == [
                {
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "kind": "ExecCredential",
                    "spec": {"interactive": False, "cluster": {"server": server.url}},
                }
            ]
            * 2
        )


async def test_a_plugin_is_run_again_after_a_401_but_not_for_each_one(tmp_path: Path) -> None:
    plugin = write_plugin(tmp_path / "p", {"token": "one"}, {"token": "two"}, {"token": "two"})
    clock = Hand()
    async with serving() as server:
        server.then(accepts("nothing"))
        connect = {"kubeconfig": server.kubeconfig(exec=plugin), "clock": clock}
        async with connected(server, connect=connect) as transport:
            for _ in range(5):
                with pytest.raises(Unauthorized):
                    await transport.server_version()
            assert len(runs(tmp_path / "p")) == 2
            clock.now += 10
            with pytest.raises(Unauthorized):
                await transport.server_version()
            assert len(runs(tmp_path / "p")) == 3
        assert sent(server) == ["one", "two", "two", "two", "two", "two", "two"]


@pytest.mark.parametrize(
    ("change", "answers", "code", "want"),
    [
        pytest.param({"command": "/no/such/plugin", "installHint": "get it\nhere"}, [], 0,
                     "cannot be run: No such file or directory (get it)", id="missing"),
        pytest.param({}, [{"token": "x"}], 3, "failed (3): log in first", id="fails"),
        pytest.param({}, [], 0, "did not print an ExecCredential", id="prints something else"),
        pytest.param({}, [{}], 0, "neither a token nor a certificate", id="prints nothing useful"),
        pytest.param({}, [{"token": "x", "expirationTimestamp": "soon"}], 0, "no time", id="odd expiry"),
        pytest.param({"apiVersion": "client.authentication.k8s.io/v1alpha1"}, [{"token": "x"}], 0,
                     "is not one of client.authentication.k8s.io/v1,", id="old protocol"),
    ],
)  # fmt: skip
async def test_a_plugin_that_does_not_work_is_one_clear_line(
    tmp_path: Path, change: dict[str, Any], answers: list[dict[str, Any]], code: int, want: str
) -> None:
    plugin = {**write_plugin(tmp_path / "p", *answers, code=code, note="log in\n  first\n"), **change}
    async with serving() as server:
        with pytest.raises(ConfigurationError) as caught:
            await Transport.connect(kubeconfig=server.kubeconfig(exec=plugin))
    assert want in str(caught.value)
    assert "\n" not in str(caught.value)


# -- the rest of a kubeconfig -----------------------------------------------------------------------------------------


async def test_impersonation_of_the_kubeconfig_is_honoured() -> None:
    user: dict[str, Any] = {"as": "jane", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"scopes": ["x"]}}
    seen: list[str] = []

    async def raw(exchange: Exchange) -> None:
        seen.append(exchange.seen.headers["impersonate-group"])
        await reply({})(exchange)

    async with serving() as server:
        server.then(raw)
        async with connected(server, connect={"kubeconfig": server.kubeconfig(token="t", **user)}) as transport:
            await transport.server_version()
        headers = server.seen[0].headers
        assert headers["impersonate-user"] == "jane"
        assert headers["impersonate-uid"] == "7"
        assert headers["impersonate-extra-scopes"] == "x"
        assert seen == ["b"], "the server of the test keeps the last of repeated headers"


async def test_an_oidc_token_is_used() -> None:
    user: dict[str, Any] = {"auth-provider": {"name": "oidc", "config": {"id-token": "id"}}}
    async with serving() as server:
        server.then(reply({}))
        connect = {"kubeconfig": server.kubeconfig(**user)}
        async with connected(server, connect=connect) as transport:
            await transport.server_version()
        assert sent(server) == ["id"]


async def test_without_any_user_requests_are_anonymous() -> None:
    async with serving() as server:
        server.then(reply({}))
        async with connected(server, connect={"kubeconfig": server.kubeconfig()}) as transport:
            await transport.server_version()
        assert sent(server) == ["none"]


@pytest.mark.parametrize("through", ["kubeconfig", "environment"])
async def test_a_proxy_is_used(through: str) -> None:
    async with serving() as proxy:
        proxy.then(reply({"gitVersion": "v1"}))
        cluster: dict[str, Any] = {"server": "http://kubernetes.example:6443"}
        environ: dict[str, str] = {}
        if through == "kubeconfig":
            cluster["proxy-url"] = proxy.url
        else:
            environ["HTTP_PROXY"] = proxy.url
        config = proxy.kubeconfig(cluster=cluster, token="t")
        async with await Transport.connect(kubeconfig=config, environ=environ) as transport:
            assert await transport.server_version() == {"gitVersion": "v1"}
        assert proxy.seen[0].target == "http://kubernetes.example:6443/version"


async def test_a_proxy_that_refuses_is_named_without_its_password() -> None:
    async with serving() as proxy:
        proxy.then(reply({}, status=407))
        cluster = {"server": "https://kubernetes.example", "proxy-url": proxy.url.replace("://", "://user:secret@")}
        async with await Transport.connect(kubeconfig=proxy.kubeconfig(cluster=cluster, token="t")) as transport:
            with pytest.raises(Disconnected, match="the proxy answers 407") as caught:
                await transport.request("GET", "/version", retry=False)
    assert "secret" not in str(caught.value)


async def test_a_proxy_of_another_kind_is_refused() -> None:
    config = Server("http://k8s").kubeconfig(cluster={"proxy-url": "socks5://user:secret@p:1"})
    with pytest.raises(ConfigurationError, match="only http and https proxies are supported: socks5") as caught:
        await Transport.connect(kubeconfig=config)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("token", ["two words", "two\nlines", "t\x00", "tök"])
async def test_a_token_that_cannot_be_sent_is_refused(token: str) -> None:
    config = Server("http://k8s").kubeconfig(token=token)
    with pytest.raises(ConfigurationError, match="token holds blanks") as caught:
        await Transport.connect(kubeconfig=config)
    assert token not in str(caught.value)


# -- probing ----------------------------------------------------------------------------------------------------------


async def test_probing_says_in_one_line_what_is_wrong() -> None:
    async with serving() as server:
        server.then(status(401))
        with pytest.raises(ConfigurationError, match="does not accept the credentials"):
            await Transport.connect(kubeconfig=server.kubeconfig(token="t"), probe=True)
    settings = TransportSettings(connect_timeout=1)
    with pytest.raises(ConfigurationError, match=f"cannot connect to {server.url}"):
        await Transport.connect(
            kubeconfig=server.kubeconfig(token="t"), probe=True, settings=settings, sleep=lambda _: asyncio.sleep(0)
        )


async def test_probing_leaves_other_answers_as_they_are() -> None:
    async with serving() as server:
        server.then(status(500))
        with pytest.raises(ApiError):
            await Transport.connect(kubeconfig=server.kubeconfig(token="t"), probe=True)
