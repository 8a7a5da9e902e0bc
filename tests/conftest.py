# SPDX-License-Identifier: Apache-2.0
"""Fixtures that every test level shares."""

from __future__ import annotations

import signal
from collections.abc import Generator

import pytest
from hypothesis import settings

from support.operator import Operator

# How long one example takes says more about what else the machine does than about the code.
settings.register_profile("trainsnap", deadline=None)
settings.load_profile("trainsnap")


def pytest_configure() -> None:
    """Have SIGHUP do what it does by default, here and in what tests start: under ``nohup`` it would be ignored."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Every async test runs on asyncio: the operator does, and a second event loop would prove nothing."""
    return "asyncio"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shows what the operator logged last beside the failure of a test that uses it."""
    report = yield
    operator = getattr(item, "funcargs", {}).get("operator")
    if report.when == "call" and report.failed and isinstance(operator, Operator):
        report.sections.append(("operator's log", operator.tail()))
    return report
