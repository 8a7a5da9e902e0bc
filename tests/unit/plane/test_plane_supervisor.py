# SPDX-License-Identifier: Apache-2.0
"""The supervisor with children that only sleep: whatever ends, nothing is left, and only what is ours is signalled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from trainsnap_plane import PlaneError, control
from trainsnap_plane.control import Control
from trainsnap_plane.errors import NotRunning
from trainsnap_plane.layout import Layout
from trainsnap_plane.process import is_same, kill_if_same, start_time

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks the kernel to kill orphans")


def until(condition: Callable[[], bool], *, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


class Supervised:
    """A supervisor with its layout; what a test starts is remembered by pid and start time."""

    def __init__(self, layout: Layout, *, keep: bool = False) -> None:
        layout.create()
        lock = layout.acquire()
        assert lock is not None
        layout.write_state({})
        self.layout = layout
        self.control, self.pid = control.spawn(layout, [lock], keep=keep)
        os.close(lock)
        self.started = start_time(self.pid) or ""
        until(layout.socket.exists)

    def start(self, name: str, *argv: str) -> tuple[int, str]:
        answer = self.control.request(
            "start", name=name, argv=list(argv), env={"PATH": os.environ["PATH"]}, log=str(self.layout.log(name))
        )
        return answer["pid"], start_time(answer["pid"]) or ""

    def state(self, name: str) -> str:
        children = self.control.request("status")["children"]
        state: str = next(child["state"] for child in children if child["name"] == name)
        return state


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Supervised]:
    one = Supervised(Layout(tmp_path / "plane"))
    yield one
    one.control.close()
    until(lambda: not is_same(one.pid, one.started))


def test_the_end_of_the_launcher_is_the_end_of_all(supervised: Supervised) -> None:
    children = [supervised.start(name, "sleep", "1000") for name in ("one", "two")]
    supervised.control.close()
    until(lambda: not is_same(supervised.pid, supervised.started))
    assert not any(is_same(*child) for child in children)
    assert not supervised.layout.root.exists()


def test_a_killed_supervisor_takes_its_children_along(supervised: Supervised) -> None:
    child = supervised.start("one", "sleep", "1000")
    os.kill(supervised.pid, signal.SIGKILL)
    until(lambda: not is_same(*child))
    with pytest.raises(NotRunning):
        supervised.control.request("status")
    assert supervised.layout.acquire() is not None, "its lock is free again"


def test_once_detached_it_lives_until_told_to_end(supervised: Supervised) -> None:
    child = supervised.start("one", "sleep", "1000")
    supervised.control.request("detach")
    supervised.control.close()
    later = control.attach(supervised.layout)
    assert later.request("status")["detached"]
    assert is_same(*child)
    later.request("shutdown", keep=False)
    later.wait_for_end()
    later.close()
    until(lambda: not is_same(supervised.pid, supervised.started))
    assert not is_same(*child)
    assert not supervised.layout.root.exists()


def test_sigterm_ends_it_in_order(supervised: Supervised) -> None:
    child = supervised.start("one", "sleep", "1000")
    os.kill(supervised.pid, signal.SIGTERM)
    until(lambda: not is_same(supervised.pid, supervised.started))
    assert not is_same(*child)
    assert not supervised.layout.root.exists()


def test_kept_data_stay(tmp_path: Path) -> None:
    one = Supervised(Layout(tmp_path / "plane"), keep=True)
    child = one.start("one", "sleep", "1000")
    one.control.close()
    until(lambda: not is_same(one.pid, one.started))
    assert not is_same(*child)
    assert one.layout.marker.exists()
    assert not one.layout.socket.exists()


def test_a_stubborn_child_is_killed_after_its_grace(supervised: Supervised) -> None:
    child = supervised.start("stubborn", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done")
    until(lambda: supervised.layout.log("stubborn").read_text() == "ready\n")
    answer = supervised.control.request("stop", name="stubborn", grace=0.2)
    assert answer["exit_code"] == -signal.SIGKILL
    assert not is_same(*child)
    assert supervised.state("stubborn") == "stopped"


def test_states(supervised: Supervised) -> None:
    supervised.start("one", "sleep", "1000")
    assert supervised.state("one") == "running"
    supervised.control.request("signal", name="one", which="STOP")
    assert supervised.state("one") == "paused"
    supervised.control.request("stop", name="one")
    assert supervised.state("one") == "stopped", "a paused child hears the request to end"
    supervised.control.request("restart", name="one")
    assert supervised.state("one") == "running"
    supervised.control.request("signal", name="one", which="KILL")
    until(lambda: supervised.state("one") == "died")
    supervised.start("two", "sh", "-c", "echo last words; exit 3")
    until(lambda: supervised.state("two") == "died")
    assert supervised.layout.log("two").read_text() == "last words\n"


def test_a_bad_request_is_answered_and_changes_nothing(supervised: Supervised) -> None:
    supervised.start("one", "sleep", "1000")
    for operation, arguments, want in (
        ("stop", {"name": "nobody"}, "there is no nobody in this plane"),
        ("start", {"name": "one", "argv": ["true"], "env": {}, "log": "x"}, "one is running already"),
    ):
        with pytest.raises(PlaneError, match=want):
            supervised.control.request(operation, **arguments)
    with pytest.raises(PlaneError, match="No such file"):
        supervised.start("missing", "/no/such/binary")
    assert supervised.state("one") == "running"


def test_a_folder_with_a_long_path(tmp_path: Path) -> None:
    layout = Layout(tmp_path / ("long" * 40) / "plane")
    one = Supervised(layout)
    attached: Control = control.attach(layout)
    assert attached.request("status")["children"] == []
    attached.close()
    one.control.close()
    until(lambda: not is_same(one.pid, one.started))


def test_a_pid_that_was_given_to_another_process_is_left_alone() -> None:
    with subprocess.Popen(["sleep", "1000"]) as other:
        assert not kill_if_same(other.pid, "another start time")
        assert other.poll() is None
        assert kill_if_same(other.pid, start_time(other.pid) or "")
        assert other.wait() == -signal.SIGKILL
    assert not kill_if_same(other.pid, "whatever")
