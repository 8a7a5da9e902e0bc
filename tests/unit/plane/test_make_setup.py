# SPDX-License-Identifier: Apache-2.0
"""`make setup`, with a Python that only pretends: a `.venv` that cannot be used is made anew, one that can is kept."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# Makes a .venv whose Python has a pip, and writes down what it and that are asked for.
FAKE_PYTHON = """#!/bin/sh
echo "host $*" >> "$LOG"
if [ "$1 $2" = "-m venv" ]; then mkdir -p "$3/bin" && cp "$FAKE_VENV_PYTHON" "$3/bin/python"; fi
"""
FAKE_VENV_PYTHON = """#!/bin/sh
echo "venv $*" >> "$LOG"
"""
NO_PIP = """#!/bin/sh
[ "$1 $2" != "-m pip" ]
"""

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


class Checkout:
    """A folder with the Makefile and what `make setup` looks at."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copy(ROOT / "Makefile", folder)
        for name, text in (
            ("pyproject.toml", ""),
            ("constraints.txt", ""),
            ("host-python", FAKE_PYTHON),
            ("venv-python", FAKE_VENV_PYTHON),
        ):
            self.write(name, text)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def make(self, *arguments: str) -> str:
        """Run make; its stdout."""
        paths = {"LOG": str(self.folder / "log"), "FAKE_VENV_PYTHON": str(self.folder / "venv-python")}
        done = subprocess.run(
            ["make", *arguments, f"PYTHON={self.folder / 'host-python'}"],
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], **paths},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def setup(self) -> list[str]:
        """Set up; what the interpreters were asked for."""
        (self.folder / "log").write_text("")
        self.make("setup")
        assert (self.folder / ".venv" / ".ready").exists()
        return (self.folder / "log").read_text().splitlines()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def made(asked: list[str]) -> bool:
    return "host -m venv .venv" in asked


def test_it_is_made_once(checkout: Checkout) -> None:
    first = checkout.setup()
    assert made(first)
    assert any("--editable" in line for line in first)
    assert not any("pip" in line for line in checkout.setup()), "nothing to do"


def test_new_requirements_are_installed_into_the_one_that_is_there(checkout: Checkout) -> None:
    checkout.setup()
    (checkout.folder / ".venv" / "mine").write_text("")
    os.utime(checkout.folder / ".venv" / ".ready", (1, 1))
    again = checkout.setup()
    assert not made(again)
    assert any("--editable" in line for line in again)
    assert (checkout.folder / ".venv" / "mine").exists()


@pytest.mark.parametrize(
    ("ready", "python"),
    [
        pytest.param(False, NO_PIP, id="interrupted before pip was there"),
        pytest.param(False, "#!/does/not/exist\n", id="interrupted, and its Python cannot be run"),
        pytest.param(False, None, id="interrupted before its Python was there"),
        pytest.param(True, "#!/does/not/exist\n", id="finished, and its Python cannot be run any more"),
        pytest.param(True, None, id="finished, and its Python is gone"),
    ],
)
def test_one_that_cannot_be_used_is_made_anew(checkout: Checkout, ready: bool, python: str | None) -> None:
    checkout.write(".venv/left", "")
    if python is not None:
        checkout.write(".venv/bin/python", python)
    if ready:
        checkout.write(".venv/.ready", "")
    assert made(checkout.setup())
    assert not (checkout.folder / ".venv" / "left").exists()


def test_folders_may_have_any_name(checkout: Checkout) -> None:
    checkout.setup()
    checkout.write("tools/plane", '#!/bin/sh\nfor word; do echo "[$word]"; done\n')
    said = checkout.make("-s", "plane", "DIR=it's; a $$HOME")
    assert said.splitlines()[:3] == ["[up]", "[--dir]", "[it's; a $HOME]"]
