# SPDX-License-Identifier: Apache-2.0
"""Every recorded case, replayed without a control plane: what is built must be what the reference built."""

from __future__ import annotations

from functools import cache
from types import ModuleType

import pytest

from support import offline_golden as offline
from trainsnap_controller.runtime.registry import standard

CASES = {case["id"]: case for case in offline.cases()}


@cache
def replayer() -> ModuleType:
    return offline.replayer()


@cache
def schemas() -> dict[str, offline.JSON]:
    return offline.schemas()


@pytest.mark.parametrize("case_id", sorted(CASES))
def test_captures_equal_the_recording(case_id: str) -> None:
    want = offline.recorded(case_id)
    server = offline.Offline(standard(), schemas())

    got = server.replay(CASES[case_id], want["steps"], replayer())

    differences = list(replayer().diff(want["captures"], got))
    assert not differences, "\n".join([*differences[:12], f"problems: {server.problems}"])
