# SPDX-License-Identifier: Apache-2.0
"""Fixtures that every test level shares."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
ON_A_PLANE = {"integration": "api", "e2e": "full"}
"""Folders whose tests share one plane, and with it one process, when pytest runs in several."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Keep the tests of a plane together: ``-n 2 --dist loadgroup`` runs both planes side by side. Said here, since
    xdist looks for groups before any other hook sees the whole collection."""
    group = ON_A_PLANE.get(item.path.relative_to(HERE).parts[0])
    if group is not None:
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Every async test runs on asyncio: the operator does, and a second event loop would prove nothing."""
    return "asyncio"
