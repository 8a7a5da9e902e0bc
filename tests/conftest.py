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
    """Have signals do what they do by default, here and in what tests start.

    Under ``nohup`` SIGHUP would be ignored, in the background of a script SIGINT.
    """
    for number, default in ((signal.SIGHUP, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, default)


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
