# SPDX-License-Identifier: Apache-2.0
"""Clusters of the reference: the moment from which on jobs are trainsnap's is moved, as ``trainsnap migrate`` does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from support.admission import CONFIGURATIONS
from support.operator import Operator
from trainsnap_api.transport import NotFound, Transport
from trainsnap_api.transport.resources import CONFIG_MAP

LATER = "2100-01-01T00:00:00Z"


@asynccontextmanager
async def before_trainsnap(operator: Operator, admin: Transport) -> AsyncIterator[Operator]:
    """The operator, stopped, in a cluster in which every job counts as older than it; afterwards none does.

    Without webhooks, which would be asked and not answer. A start of the operator brings them back.
    """
    if not operator.running:
        operator.start()
    await move(admin, LATER)
    operator.stop()
    await remove_webhooks(admin)
    yield operator
    await move(admin, None)
    if operator.running:
        operator.stop()
    operator.start()


async def move(admin: Transport, moment: str | None) -> None:
    """Set ``legacyBefore``; None: back to the operator's first start."""
    await admin.merge_patch(CONFIG_MAP, "trainsnap-state", "kubeflow-system", {"data": {"legacyBefore": moment}})


async def remove_webhooks(admin: Transport) -> None:
    """Take the webhook configurations away."""
    for resource, name in CONFIGURATIONS:
        try:
            await admin.delete(resource, name)
        except NotFound:
            continue
