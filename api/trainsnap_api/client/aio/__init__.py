# SPDX-License-Identifier: Apache-2.0
"""The async face of the client. The sync face is generated from these modules: every public method has its twin."""

from __future__ import annotations

from trainsnap_api.client.aio.client import AsyncClient
from trainsnap_api.client.aio.jobs import AsyncTrainJobs
from trainsnap_api.client.aio.kind import AsyncKind
from trainsnap_api.client.aio.snapshots import AsyncSnapshots

__all__ = ["AsyncClient", "AsyncKind", "AsyncSnapshots", "AsyncTrainJobs"]
