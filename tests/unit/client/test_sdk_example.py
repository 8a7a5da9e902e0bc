# SPDX-License-Identifier: Apache-2.0
"""The command line of examples/sdk_backend.py: as its docstring calls it; what is wrong is one line, no traceback."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
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


def test_it_is_called_as_its_docstring_says() -> None:
    assert os.access(EXAMPLE, os.X_OK)
    spec = importlib.util.spec_from_file_location("sdk_backend", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # Its dataclasses look themselves up.
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[spec.name]
    train, listing = re.findall(r"^    examples/sdk_backend\.py (.*)$", module.__doc__ or "", re.MULTILINE)
    options = module._parser().parse_args(shlex.split(train))
    assert (options.name, options.image, options.nodes) == ("bert", "acme/bert:1", 2)
    assert (options.runtime, options.command) == ("torch-distributed", ["python", "train.py", "--lr", "0.1"])
    assert module._parser().parse_args(shlex.split(listing)).action == "list"
    assert module._parser().parse_args(["train", "--name", "a", "rt"]).command == []
