# SPDX-License-Identifier: Apache-2.0
"""The client that SDKs build on: TrainJobs, runtimes and snapshots as typed objects, async and sync.

Start with ``Client.connect()`` or ``await AsyncClient.connect()``. Stands on ``trainsnap_api.transport``, the same that
the operator uses, and knows no HTTP itself. The sync face is generated from the async one.
"""

from __future__ import annotations

from trainsnap_api.client import errors
from trainsnap_api.client._generated.sync import Client, SyncKind, SyncSnapshots, SyncTrainJobs
from trainsnap_api.client.aio import AsyncClient, AsyncKind, AsyncSnapshots, AsyncTrainJobs
from trainsnap_api.client.errors import *  # noqa: F403 - each is named in errors.__all__, which a test checks
from trainsnap_api.client.portal import Stream
from trainsnap_api.client.values import ABSENT, Change, EffectiveRuntime, Event, Listing, Page, Progress, RuntimeDiff
from trainsnap_api.state import State, state_of
from trainsnap_api.transport import RetryPolicy, TransportSettings

__all__ = [
    "ABSENT",
    "AsyncClient",
    "AsyncKind",
    "AsyncSnapshots",
    "AsyncTrainJobs",
    "Change",
    "Client",
    "EffectiveRuntime",
    "Event",
    "Listing",
    "Page",
    "Progress",
    "RetryPolicy",
    "RuntimeDiff",
    "State",
    "Stream",
    "SyncKind",
    "SyncSnapshots",
    "SyncTrainJobs",
    "TransportSettings",
    "state_of",
]
__all__ += errors.__all__
