# SPDX-License-Identifier: Apache-2.0
"""Where binaries are looked for, and which version of one found on PATH is good enough."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainsnap_plane.binaries import cached_binary, find, is_right_version, missing
from trainsnap_plane.parts import PARTS, cache_folder, required_version, version_tuple

APISERVER, KUBECTL, JOBSET = PARTS["kube-apiserver"], PARTS["kubectl"], PARTS["jobset-controller"]
RIGHT = f"Kubernetes {APISERVER.version}"


def fake(folder: Path, name: str, prints: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{prints}'\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("part", "printed", "want"),
    [
        pytest.param("kube-apiserver", "Kubernetes v1.36.3", True, id="the very version"),
        pytest.param("kube-apiserver", "Kubernetes v1.36.9", True, id="another patch release"),
        pytest.param("kube-apiserver", "Kubernetes v1.35.3", False, id="an older minor release"),
        pytest.param("kube-apiserver", "Kubernetes v1.37.0", False, id="a newer minor release"),
        pytest.param("kube-apiserver", "", False, id="prints nothing"),
        pytest.param("kube-apiserver", "usage: v1", False, id="prints no version"),
        pytest.param("etcd", "etcd Version: 3.6.16\nGit SHA: x\nGo Version: go1.26.8", True, id="etcd's several lines"),
        pytest.param("etcd", "etcd Version: 3.5.16", False, id="an older etcd"),
        pytest.param("kubectl", "Client Version: v1.35.0\nKustomize Version: v5.5.0", True, id="kubectl one behind"),
        pytest.param("kubectl", "Client Version: v1.37.1", True, id="kubectl one ahead"),
        pytest.param("kubectl", "Client Version: v1.32.4-dispatcher", False, id="kubectl four behind"),
        pytest.param("kubectl", "Client Version: v2.36.3", False, id="another major release"),
        pytest.param("jobset-controller", "v0.12.0", False, id="a part that cannot be told by its version"),
    ],
)
def test_version_on_path(part: str, printed: str, want: bool) -> None:
    assert is_right_version(PARTS[part], printed) is want


def test_search_order(tmp_path: Path) -> None:
    assets, on_path, cache = tmp_path / "assets", tmp_path / "path", tmp_path / "cache"
    environment = {"KUBEBUILDER_ASSETS": str(assets), "PATH": f"{on_path}:/usr/bin:/bin"}
    assert find(APISERVER, environment=environment, cache=cache) is None

    in_cache = cached_binary(APISERVER, cache)
    fake(in_cache.parent, in_cache.name)
    found = find(APISERVER, environment=environment, cache=cache)
    assert found is not None
    assert (found.origin, found.path) == ("cache", in_cache)

    fake(on_path, "kube-apiserver", "Kubernetes v1.20.0")
    found = find(APISERVER, environment=environment, cache=cache)
    assert found is not None
    assert found.origin == "cache", "what is on PATH has the wrong version"

    fake(on_path, "kube-apiserver", RIGHT)
    found = find(APISERVER, environment=environment, cache=cache)
    assert found is not None
    assert (found.origin, found.path) == ("PATH", on_path / "kube-apiserver")

    fake(assets, "kube-apiserver", "whatever")
    found = find(APISERVER, environment=environment, cache=cache)
    assert found is not None
    assert (found.origin, found.path) == ("assets", assets / "kube-apiserver")


def test_assets_hold_only_some_parts(tmp_path: Path) -> None:
    fake(tmp_path / "assets", "kube-apiserver")
    environment = {"KUBEBUILDER_ASSETS": str(tmp_path / "assets"), "PATH": ""}
    lacking = missing(["kube-apiserver", "etcd"], environment=environment, cache=tmp_path)
    assert [part.name for part in lacking] == ["etcd"]


def test_a_file_that_cannot_be_run_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "kube-apiserver").write_text("text")
    environment = {"KUBEBUILDER_ASSETS": str(tmp_path), "PATH": str(tmp_path)}
    assert find(APISERVER, environment=environment, cache=tmp_path / "cache") is None


def test_a_kubectl_that_fails_does_not_count(tmp_path: Path) -> None:
    path = fake(tmp_path, "kubectl")
    path.write_text("#!/bin/sh\nexit 1\n")
    assert find(KUBECTL, environment={"PATH": str(tmp_path)}, cache=tmp_path / "cache") is None


def test_jobset_on_path_is_never_taken(tmp_path: Path) -> None:
    fake(tmp_path, "jobset-controller", JOBSET.version)
    assert find(JOBSET, environment={"PATH": f"{tmp_path}:/bin"}, cache=tmp_path / "cache") is None


@pytest.mark.parametrize(
    ("environment", "want"),
    [
        pytest.param({"XDG_CACHE_HOME": "/c", "HOME": "/h"}, "/c/trainsnap/plane", id="as the user says"),
        pytest.param({"XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/trainsnap/plane", id="said nothing"),
        pytest.param({"XDG_CACHE_HOME": "rel", "HOME": "/h"}, "/h/.cache/trainsnap/plane", id="a relative path"),
    ],
)
def test_cache_folder(environment: dict[str, str], want: str) -> None:
    assert cache_folder(environment) == Path(want)


def test_every_part_is_pinned_and_keyed_apart() -> None:
    assert {part.version for part in PARTS.values()} == {"v3.6.16", "v1.36.3", "v0.12.0", "v0.8.0"}
    assert len({part.digest() for part in PARTS.values()}) == len(PARTS)


def test_all_staging_modules_have_the_release_of_kubernetes() -> None:
    want = required_version("kubernetes", "k8s.io/kubernetes").replace("v1.", "v0.")
    assert required_version("kubernetes", "k8s.io/api") in (want, "v0.0.0")


def test_version_tuple() -> None:
    assert version_tuple("v1.36.3-alpha.1+x") == (1, 36, 3)
