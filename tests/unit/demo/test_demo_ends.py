# SPDX-License-Identifier: Apache-2.0
"""The ends of a demo: what it says about a plane that is left running, and what becomes of its operator."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from trainsnap_plane.process import end_as_on_ctrl_c, start_time

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tools_demo", ROOT / "tools" / "demo.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["demo", "t m p", "it's; $HOME"])
def test_what_it_says_can_be_copied_into_a_shell(
    name: str, demo: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / name
    plane = SimpleNamespace(
        directory=folder / "plane", kubeconfig=folder / "plane" / "kubeconfig", kubectl=folder / "kubectl"
    )
    folder.mkdir()
    plane.kubectl.write_text("#!/bin/sh\necho it works\n")
    plane.kubectl.chmod(0o755)
    (folder / "kubeconfig").write_text("")
    demo._tell(plane, folder)
    commands = [line[13:] for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    export, alias, operator, stop = map(shlex.split, commands)
    assert export == ["export", f"KUBECONFIG={folder / 'kubeconfig'}"]
    assert operator[-2:] == ["--kubeconfig", str(plane.kubeconfig)]
    assert stop == ["tools/plane", "down", "--dir", str(plane.directory), "&&", "rm", "-r", str(folder)]
    assert alias[0] == "alias"
    script = f"{commands[1]}\nkubectl get pods\n"  # An alias is known from the next line on.
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("it works\n", "")


DEMO = """
import sys, time
from pathlib import Path
from trainsnap_demo.operator import operator
folder = Path(sys.argv[1])
sys.executable = str(folder / "python")
with operator(Path("kubeconfig"), folder / "operator.log", lambda line: print(line, flush=True)):
    time.sleep(60)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's part of it is Linux only")
def test_a_killed_demo_takes_its_operator_along(tmp_path: Path) -> None:
    script = tmp_path / "trainsnap"
    script.write_text(
        f"#!{sys.executable}\nimport os, time\nprint(os.getpid(), flush=True)\n"
        "print('READY', flush=True)\ntime.sleep(60)\n"
    )
    script.chmod(0o755)
    with subprocess.Popen([sys.executable, "-c", DEMO, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert process.stdout.readline() == "READY\n"
        assert start_time(pid) is not None
        process.kill()
    deadline = time.monotonic() + 10
    while start_time(pid) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
@pytest.mark.parametrize("ignored", [False, True], ids=["", "ignored"])
def test_every_request_to_end_is_as_good_as_ctrl_c(number: signal.Signals, ignored: bool) -> None:
    saved = {which: signal.getsignal(which) for which in (signal.SIGTERM, signal.SIGHUP)}
    try:
        if ignored:
            signal.signal(number, signal.SIG_IGN)
        end_as_on_ctrl_c()
        with contextlib.nullcontext() if ignored else pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    finally:
        for which, handler in saved.items():
            signal.signal(which, handler)
