# SPDX-License-Identifier: Apache-2.0
"""The command line of examples/sdk_backend.py says what is wrong in one line, and never with a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "sdk_backend.py"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["wait", "job", "--state", "Done"], 2, "invalid choice: 'Done'"),
        (["--kubeconfig", "/does/not/exist", "list"], 1, "kubeconfig /does/not/exist does not exist"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(arguments: list[str], code: int, message: str) -> None:
    done = subprocess.run([sys.executable, str(EXAMPLE), *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == code
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
