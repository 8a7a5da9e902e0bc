# SPDX-License-Identifier: Apache-2.0
"""Fixtures that every test level shares."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Every async test runs on asyncio: the operator does, and a second event loop would prove nothing."""
    return "asyncio"
