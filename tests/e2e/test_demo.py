# SPDX-License-Identifier: Apache-2.0
"""The demo: it passes, it fails by name when a claim does not hold, and it leaves nothing behind when interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.operator import Operator
from support.plane import Target

pytestmark = pytest.mark.full

DEMO = [sys.executable, str(Path(__file__).resolve().parents[2] / "tools" / "demo.py")]
ENDED_SECONDS = 60.0


def start(arguments: Sequence[str], folder: Path) -> subprocess.Popen[str]:
    """The demo in a process of its own, with all its files below a folder."""
    return subprocess.Popen(
        [*DEMO, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
        start_new_session=True,
    )


def on(plane: Target, namespace: str, *more: str) -> list[str]:
    """Arguments that make the demo use this plane, and the operator on it."""
    if plane.plane is None:
        pytest.skip("the demo's jobs run on the local plane only: they have no real image")
    return ["--kubeconfig", str(plane.kubeconfig), "--kubectl", str(plane.kubectl), "--namespace", namespace, *more]


def run(arguments: Sequence[str], folder: Path) -> tuple[int, str, str]:
    """Run the demo to its end: exit code, stdout, stderr."""
    with start(arguments, folder) as process:
        try:
            out, err = process.communicate(timeout=100)
        finally:
            process.kill()
    return process.returncode, out, err


@pytest.mark.usefixtures("operator")
def test_every_claim_holds(plane: Target, namespace: str, tmp_path: Path) -> None:
    code, out, err = run(on(plane, namespace), tmp_path)
    assert (code, err) == (0, ""), out
    assert "claims hold" in out.splitlines()[-1]
    assert "\033[" not in out, "no colours in a log"
    for line in (
        "   $ kubectl get trainingruntimesnapshots",
        "   ok: its new pods run registry.example/train:v1, not registry.example/train:v2",
        "   ok: the job completes without its runtime",
    ):
        assert line in out.splitlines()
    assert list(tmp_path.iterdir()) == []


def test_without_the_operator_it_fails_and_names_the_claim(
    plane: Target, namespace: str, operator: Operator, tmp_path: Path
) -> None:
    operator.stop()
    code, out, err = run(on(plane, namespace, "--patience", "2"), tmp_path)
    assert code == 1, out
    assert err.startswith("demo: this claim does not hold: the job starts by itself: kubectl wait trainjob/bert")
    assert len(err.splitlines()) == 1
    assert "claims hold" not in out


@pytest.mark.timeout(240)  # It starts a plane of its own.
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP], ids=["Ctrl-C", "a closed terminal"])
def test_an_interrupted_demo_leaves_nothing_running(plane: Target, tmp_path: Path, number: signal.Signals) -> None:
    on(plane, "")
    with start([], tmp_path) as process:
        try:
            assert process.stdout is not None
            seen = []
            for line in process.stdout:
                seen.append(line)
                if "kubectl create -f trainjob.yaml" in line:
                    break
            left = session_of(tmp_path)
            assert left, "the plane and the operator run"
            process.send_signal(number)
            process.send_signal(number)
            _, err = process.communicate(timeout=ENDED_SECONDS)
        finally:
            process.kill()
    assert (process.returncode, err) == (130, "demo: interrupted; nothing is left running\n"), "".join(seen)
    assert list(tmp_path.glob("trainsnap-demo-*")) == []
    deadline = time.monotonic() + 5
    while session_of(tmp_path):
        assert time.monotonic() < deadline, session_of(tmp_path)


def session_of(folder: Path) -> list[str]:
    """The command lines of all processes that were told of a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = process.read_bytes()
        except OSError:
            continue
        if os.fsencode(folder) in command:
            found.append(command.replace(b"\0", b" ").decode())
    return found
