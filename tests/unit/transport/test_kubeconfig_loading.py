# SPDX-License-Identifier: Apache-2.0
"""Kubeconfigs: which one is taken, how several are merged, and one clear line for each mistake."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainsnap_api.transport import ConfigurationError
from trainsnap_api.transport.kubeconfig import Access, load


def config(**changes: Any) -> dict[str, Any]:
    return {
        "current-context": "a",
        "contexts": [
            {"name": "a", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
            {"name": "b", "context": {"cluster": "c", "user": "v"}},
        ],
        "clusters": [{"name": "c", "cluster": {"server": "https://one:6443/"}}],
        "users": [{"name": "u", "user": {"token": "ut"}}, {"name": "v", "user": {"token": "vt"}}],
        **changes,
    }


def user(**settings: Any) -> dict[str, Any]:
    return config(users=[{"name": "u", "user": settings}])


def cluster(**settings: Any) -> dict[str, Any]:
    return config(clusters=[{"name": "c", "cluster": settings}])


def read(
    source: Any, context: str | None = None, environ: dict[str, str] | None = None, mounted: str = "/no"
) -> Access:
    return load(source, context, in_cluster=False, environ=environ or {}, service_account=mounted)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def test_the_context_decides_cluster_user_and_namespace() -> None:
    current, other = read(config()), read(config(), "b")
    assert (current.server, current.namespace, current.user) == ("https://one:6443", "team", {"token": "ut"})
    assert (other.server, other.namespace, other.user) == ("https://one:6443", "", {"token": "vt"})


def test_where_a_kubeconfig_is_looked_for(home: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no kubeconfig: .*this is no pod"):
        read(None)
    mounted = home / "mounted"
    write(mounted / "token", "t")
    write(mounted / "ca.crt", "c")
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    assert read(None, environ=pod, mounted=str(mounted)).server == "https://10.0.0.1:443"
    write(home / ".kube/config", cluster(server="https://home"))
    assert read(None, environ=pod, mounted=str(mounted)).server == "https://home"
    named = write(home / "named", cluster(server="https://named"))
    assert read(None, environ={"KUBECONFIG": str(named)}).server == "https://named"
    given = write(home / "given", cluster(server="https://given"))
    assert read(given, environ={"KUBECONFIG": str(named)}).server == "https://given"
    assert read("~/given").server == "https://given"


def test_several_files_the_first_one_that_defines_a_name_wins(tmp_path: Path) -> None:
    first = config(contexts=[{"name": "a", "context": {"cluster": "c", "user": "u"}}], users=[])
    first["current-context"] = ""
    second = config(clusters=[{"name": "c", "cluster": {"server": "https://two"}}])
    second["users"][0]["user"] = {"tokenFile": "token"}
    files = [write(tmp_path / "x/one", first), tmp_path / "missing", write(tmp_path / "y/two", second)]
    access = read(None, environ={"KUBECONFIG": os.pathsep.join(map(str, files))})
    assert (access.server, access.namespace) == ("https://one:6443", "")
    assert access.user == {"tokenFile": str(tmp_path / "y/token")}


def test_inline_data_wins_over_files() -> None:
    data = {"client-certificate-data": "YQ==", "client-certificate": "/no", "client-key-data": "YQ=="}
    assert read(user(**data)).user == {"client-certificate-data": "YQ==", "client-key-data": "YQ=="}


@pytest.mark.parametrize(
    ("source", "context", "want"),
    [
        pytest.param(config(), "x", 'kubeconfig has no context "x"; its contexts are: a, b', id="unknown context"),
        pytest.param(config(**{"current-context": ""}), None,
                     "has no current-context; choose one of its contexts: a, b", id="no current context"),
        pytest.param({}, None, "has no current-context; choose one of its contexts: none", id="empty"),
        pytest.param(config(clusters=None), None, 'context "a" names the cluster "c", which is missing',
                     id="no cluster"),
        pytest.param(config(users=[]), None, 'context "a" names the user "u", which is missing', id="no user"),
        pytest.param(config(users=[{"user": {}}]), None, "an entry of users has no name", id="nameless"),
        pytest.param(cluster(), None, 'the server of context "a" is not an http(s) URL: None', id="no server"),
        pytest.param(cluster(server="one:6443"), None, "not an http(s) URL: 'one:6443'", id="server without scheme"),
        pytest.param(cluster(server="https://o", **{"certificate-authority": "/no/ca"}), None,
                     "the certificate-authority file /no/ca does not exist", id="no CA file"),
        pytest.param(cluster(server="https://o", **{"certificate-authority-data": "a"}), None,
                     "certificate-authority-data is not valid base64", id="odd CA data"),
        pytest.param(user(**{"client-certificate-data": "YQ=="}), None, "the user has no client-key", id="no key"),
        pytest.param(user(**{"client-key-data": "YQ=="}), None, "the user has no client-certificate", id="no cert"),
        pytest.param(user(username="u", password="p"), None, "username and password are not supported", id="basic"),
        pytest.param(user(**{"auth-provider": {"name": "gcp"}}), None, "only oidc is supported", id="auth provider"),
        pytest.param(user(exec={"args": []}), None, "the user's exec has no command", id="exec"),
    ],
)  # fmt: skip
def test_mistakes_in_the_content(source: dict[str, Any], context: str | None, want: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(source, context)
    assert want in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "want"),
    [
        pytest.param("a: [1\nb: 2", "is not valid YAML: .* at line 2", id="bad YAML"),
        pytest.param("just words", "it holds no mapping", id="no mapping"),
        pytest.param("", "it holds no mapping", id="empty file"),
        pytest.param(b"\xff\xfe\x00", "cannot be read: it is not text", id="binary"),
        pytest.param(None, "does not exist", id="missing"),
        pytest.param(Path, "cannot be read: Is a directory", id="a folder"),
    ],
)
def test_mistakes_in_the_file(tmp_path: Path, content: Any, want: str) -> None:
    path = tmp_path / "config"
    if content is Path:
        path.mkdir()
    elif content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigurationError, match=want) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_secrets_do_not_show_in_a_representation() -> None:
    assert "ut" not in repr(read(config())).replace("cluster", "").split()
    assert "'ut'" not in repr(read(config()))
