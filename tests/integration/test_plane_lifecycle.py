# SPDX-License-Identifier: Apache-2.0
"""The plane as a tool, with real components: starting, standing side by side, dying, and leaving nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.plane import CLUSTER_VARIABLE
from trainsnap_plane import Plane
from trainsnap_plane.ports import is_free
from trainsnap_plane.process import is_same

pytestmark = [
    pytest.mark.api,
    pytest.mark.skipif(bool(os.environ.get(CLUSTER_VARIABLE)), reason="needs planes of our own"),
]

TOOL = Path(__file__).parents[2] / "tools" / "plane"


def run(*arguments: str | Path, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [TOOL, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        env={**os.environ, **(environment or {})},
    )


def until(condition: Callable[[], bool], *, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def processes(directory: Path) -> list[tuple[int, str]]:
    """Everything that runs for the plane in a folder, by pid and start time."""
    state = json.loads((directory / "plane.json").read_text())
    children = json.loads((directory / "children.json").read_text())
    return [(one["pid"], one["start_time"]) for one in [state["supervisor"], *children]]


def ports(directory: Path) -> list[int]:
    return list(json.loads((directory / "plane.json").read_text())["ports"].values())


def test_a_day_in_the_life_of_a_plane(tmp_path: Path) -> None:
    directory = tmp_path / "plane"
    up = run("up", "--dir", directory, "--profile", "api")
    assert up.returncode == 0, up.stderr
    assert up.stdout.splitlines()[-1] == f"KUBECONFIG={directory}/kubeconfig"
    kubectl = up.stdout.splitlines()[0].removeprefix("KUBECTL=")

    crds = subprocess.run(
        [kubectl, "--kubeconfig", directory / "kubeconfig", "get", "crds", "-o", "name"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert {line.rpartition("/")[2] for line in crds.stdout.split()} == {
        "jobsets.jobset.x-k8s.io",
        "podgroups.scheduling.volcano.sh",
        "podgroups.scheduling.x-k8s.io",
    }

    status = run("status", "--dir", directory)
    assert status.returncode == 0, status.stdout
    running, used = processes(directory), ports(directory)
    assert len(running) == 3
    assert all(is_same(*one) for one in running)

    again = run("up", "--dir", directory)
    assert (again.returncode, again.stderr) == (
        1,
        f"plane: a plane is running in {directory} already: run `down` first, or choose another --dir\n",
    )

    # A part that dies later is named by `status`, with the end of its log.
    apiserver = next(line for line in status.stdout.splitlines() if line.startswith("kube-apiserver"))
    os.kill(int(apiserver.rpartition("pid ")[2]), signal.SIGKILL)
    until(lambda: run("status", "--dir", directory).returncode == 1)
    lines = run("status", "--dir", directory).stdout.splitlines()
    dead = next(number for number, line in enumerate(lines) if line.startswith("kube-apiserver"))
    assert "died (exit code -9)" in lines[dead]
    assert lines[dead + 1].startswith("  | ")

    down = run("down", "--dir", directory)
    assert (down.returncode, down.stderr) == (0, "")
    assert not directory.exists()
    assert not any(is_same(*one) for one in running)
    assert all(is_free(port) for port in used)


def test_two_planes_side_by_side_know_nothing_of_each_other(tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        starts = [pool.submit(Plane.start, tmp_path / name, "api", build=False) for name in ("one", "two")]
        one, two = (start.result() for start in starts)
    with one, two:
        assert not set(one.ports.values()) & set(two.ports.values())
        one.api().apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "only-in-one"}})
        names = [item["metadata"]["name"] for item in two.api().request("GET", "/api/v1/namespaces")["items"]]
        assert "only-in-one" not in names
    assert not list(tmp_path.iterdir())


LAUNCHER = """
import sys, time
from trainsnap_plane import Plane
plane = Plane.start(sys.argv[1], "api", build=False)
if sys.argv[2] == "detach":
    plane.detach()
print("up", flush=True)
time.sleep(1000)
"""


def launch(directory: Path, how: str) -> subprocess.Popen[str]:
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, str(directory), how], stdout=subprocess.PIPE, text=True
    )
    assert launcher.stdout is not None
    assert launcher.stdout.readline() == "up\n"
    launcher.stdout.close()
    return launcher


def test_nothing_survives_a_killed_launcher(tmp_path: Path) -> None:
    directory = tmp_path / "plane"
    launcher = launch(directory, "stay")
    running, used = processes(directory), ports(directory)
    launcher.kill()
    launcher.wait()
    until(lambda: not any(is_same(*one) for one in running))
    until(lambda: not directory.exists())
    assert all(is_free(port) for port in used)


def test_nothing_survives_a_killed_supervisor(tmp_path: Path) -> None:
    directory = tmp_path / "plane"
    launcher = launch(directory, "detach")
    running, used = processes(directory), ports(directory)
    launcher.kill()
    launcher.wait()
    assert run("status", "--dir", directory).returncode == 0, "a detached plane does not need its launcher"
    os.kill(running[0][0], signal.SIGKILL)
    until(lambda: not any(is_same(*one) for one in running))
    status = run("status", "--dir", directory)
    assert (status.returncode, status.stderr.count("\n")) == (1, 1)
    assert "its supervisor is gone" in status.stderr
    assert run("down", "--dir", directory).returncode == 0
    assert not directory.exists()
    assert all(is_free(port) for port in used)


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=["Ctrl-C", "terminated", "a closed terminal"]
)
def test_an_interrupted_start_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    directory = tmp_path / "plane"
    with subprocess.Popen(
        [TOOL, "up", "--dir", directory], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as up:
        assert up.stderr is not None
        while "kube-apiserver" not in up.stderr.readline():
            pass
        running = processes(directory)
        up.send_signal(number)
        rest = up.stderr.read()
    assert (up.returncode, rest) == (130, "plane: interrupted; nothing is left running\n")
    assert not any(is_same(*one) for one in running)
    assert not directory.exists()


def script(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def test_a_part_that_dies_during_the_start_is_named_with_its_last_words(tmp_path: Path) -> None:
    script(tmp_path / "assets", "etcd", "echo my disk is on fire; exit 7")
    up = run("up", "--dir", tmp_path / "plane", environment={"KUBEBUILDER_ASSETS": str(tmp_path / "assets")})
    assert up.returncode == 1
    assert up.stderr.splitlines()[-2:] == ["plane: etcd ended by itself (exit code 7)", "  | my disk is on fire"]
    assert not (tmp_path / "plane").exists()


def test_a_port_taken_meanwhile_is_tried_again_with_others(tmp_path: Path) -> None:
    script(
        tmp_path / "assets",
        "etcd",
        'echo "$@" >> "$(dirname "$0")/calls"; echo "listen tcp: bind: address already in use"; exit 1',
    )
    up = run("up", "--dir", tmp_path / "plane", environment={"KUBEBUILDER_ASSETS": str(tmp_path / "assets")})
    assert up.returncode == 1
    assert up.stderr.count("its port was taken meanwhile") == 2
    calls = (tmp_path / "assets" / "calls").read_text().splitlines()
    assert len(set(calls)) == 3, "three attempts, each with another port"


def test_kept_data_are_there_again(tmp_path: Path) -> None:
    directory = tmp_path / "plane"
    with Plane.start(directory, "api", build=False, keep=True) as plane:
        user = plane.user_kubeconfig("anna").read_text()
        plane.api().apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kept"}})
    assert (directory / "etcd").is_dir()
    with Plane.start(directory, "api", build=False) as plane:
        assert plane.api().request("GET", "/api/v1/namespaces/kept")["metadata"]["name"] == "kept"
        again = plane.user_kubeconfig("anna").read_text()
        assert again.split("client-certificate-data")[1] == user.split("client-certificate-data")[1]
    assert not directory.exists()
