# SPDX-License-Identifier: Apache-2.0
"""Every recorded case of the reference, replayed against the operator: what was built must be equal.

The cases that the session wants are replayed side by side when the first of them is asked for, since most of a case is
waiting for quiet; in a process of its own, as the replayer is meant to be used.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from support.operator import Operator
from support.plane import Target

pytestmark = pytest.mark.api

JSON = dict[str, Any]
GOLDEN = Path(__file__).resolve().parents[1] / "golden"
REPLAYER = GOLDEN / "replay.py"
AT_ONCE = 4
"""Cases side by side: more, and on two cores the operator's answer comes after what counts as quiet."""


def _cases() -> dict[str, JSON]:
    files = sorted((GOLDEN / "cases").glob("*.yaml"))
    return {case["id"]: case for file in files for case in yaml.safe_load_all(file.read_text()) if case}


CASES = _cases()


def _replayer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("replay", REPLAYER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def recorded(
    request: pytest.FixtureRequest, operator_process: Operator, plane: Target, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder with what became of the cases that this session wants, a file each."""
    assert operator_process.running
    functions = [item for item in request.session.items if isinstance(item, pytest.Function)]
    wanted = [str(item.callspec.params["case"]) for item in functions if item.path == request.path]
    cases, found = tmp_path_factory.mktemp("cases"), tmp_path_factory.mktemp("found")
    (cases / "wanted.yaml").write_text(yaml.safe_dump_all([CASES[case] for case in wanted]))
    command = [sys.executable, str(REPLAYER), "record", "--kubeconfig", str(plane.kubeconfig), "--jobs", str(AT_ONCE)]
    subprocess.run([*command, "--cases", str(cases), "--out", str(found)], check=True, timeout=900)
    return found


@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", sorted(CASES))
def test_the_reference_did_the_same(case: str, recorded: Path) -> None:
    replay = _replayer()
    golden = json.loads((GOLDEN / "reference" / f"{case}.json").read_text())
    got = json.loads((recorded / f"{case}.json").read_text())
    differences = list(replay.diff(replay.comparable(golden), replay.comparable(got)))
    assert not differences, f"{CASES[case]['about']}\n" + "\n".join(differences)
