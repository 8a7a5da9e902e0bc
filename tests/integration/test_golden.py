# SPDX-License-Identifier: Apache-2.0
"""Every recorded case of the reference, replayed against the operator: what was built must be equal.

The cases that the session wants are replayed side by side when the first of them is asked for, since most of a case is
waiting for quiet.
"""

from __future__ import annotations

import importlib.util
import json
import warnings
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
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
AT_ONCE = 4
"""Cases side by side: more, and on two cores the operator's answer comes after what counts as quiet."""


def _cases() -> dict[str, JSON]:
    files = sorted((GOLDEN / "cases").glob("*.yaml"))
    return {case["id"]: case for file in files for case in yaml.safe_load_all(file.read_text()) if case}


CASES = _cases()


def _replayer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("replay", GOLDEN / "replay.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def replayed(
    request: pytest.FixtureRequest, operator_process: Operator, plane: Target
) -> Iterator[dict[str, Future[JSON]]]:
    """The results of the cases that this session wants, by id."""
    assert operator_process.running
    replay = _replayer()
    with warnings.catch_warnings():
        # The replayer leaves its kubeconfig open; it is kept as it was recorded with.
        warnings.simplefilter("ignore", ResourceWarning)
        server = replay.Cluster(str(plane.kubeconfig))
    functions = [item for item in request.session.items if isinstance(item, pytest.Function)]
    wanted = [str(item.callspec.params["case"]) for item in functions if item.path == request.path]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {case: pool.submit(replay.replay, server, CASES[case]) for case in wanted}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", sorted(CASES))
def test_the_reference_did_the_same(case: str, replayed: dict[str, Future[JSON]]) -> None:
    replay = _replayer()
    golden = json.loads((GOLDEN / "reference" / f"{case}.json").read_text())
    want, got = replay.comparable(golden), replay.comparable(replayed[case].result())
    differences = list(replay.diff(want, got))
    assert not differences, f"{CASES[case]['about']}\n" + "\n".join(differences)
