# SPDX-License-Identifier: Apache-2.0
"""What the queue is told after a reconcile, and that a deadline is kept whatever is in the way."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from unittest.mock import MagicMock

import pytest

from trainsnap_api.transport import Disconnected
from trainsnap_controller import blocked as reasons
from trainsnap_controller.blocked import Blocked, CacheBehind
from trainsnap_controller.queue import Done, Key, RequeueAfter, Result, RetryableError
from trainsnap_controller.reconcile.gather import LastWords, Reader, Workload
from trainsnap_controller.reconcile.trainjob import SLOW_RETRY_SECONDS, TrainJobReconciler, _result
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.snapshot.capture import Snapshots

SOON, LATE = timedelta(seconds=20), timedelta(days=2)


@pytest.mark.parametrize(
    ("failure", "deadline", "want"),
    [
        pytest.param(None, None, Done(), id="nothing to wait for"),
        pytest.param(None, LATE, RequeueAfter(172800), id="the deadline"),
        pytest.param(Blocked(reasons.RUNTIME_NOT_FOUND, ""), None, RequeueAfter(SLOW_RETRY_SECONDS), id="a runtime"),
        pytest.param(
            Blocked(reasons.RUNTIME_NOT_FOUND, ""), LATE, RequeueAfter(SLOW_RETRY_SECONDS), id="runtime first"
        ),
        pytest.param(Blocked(reasons.RUNTIME_NOT_FOUND, ""), SOON, RequeueAfter(20), id="deadline first"),
    ],
)
def test_the_next_look(failure: Exception | None, deadline: timedelta | None, want: Result) -> None:
    assert _result(failure, deadline) == want


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(Blocked(reasons.SNAPSHOT_LOST, "gone"), id="the snapshot is lost"),
        pytest.param(CacheBehind("behind"), id="the cache is behind"),
        pytest.param(Disconnected("broken"), id="no connection"),
    ],
)
def test_what_is_retried(failure: Exception) -> None:
    with pytest.raises(RetryableError, match=str(failure)):
        _result(failure, SOON)


class Cached:
    """A job with a deadline, as the cache has it."""

    def __init__(self, seconds: int | None) -> None:
        self.last_words = LastWords()
        metadata = {"name": "j", "namespace": "team", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
        self._job = Job.from_json({"metadata": metadata, "spec": {"activeDeadlineSeconds": seconds}})

    def job(self, key: Key) -> Job:
        return self._job

    def workload(self, job: Job) -> Workload:
        return Workload()

    def snapshot(self, namespace: str, name: str) -> None:
        return None


class Broken:
    """Fails to get a snapshot, in the way that is asked for."""

    def __init__(self, failure: BaseException) -> None:
        self._failure = failure

    async def obtain(self, *_: Any) -> Any:
        raise self._failure


@pytest.mark.anyio
@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(KeyError("a fault of ours"), id="a fault"),
        pytest.param(asyncio.CancelledError(), id="a request that hangs until the time is up"),
        pytest.param(Disconnected("broken"), id="no connection"),
    ],
)
@pytest.mark.parametrize(("seconds", "want"), [(None, []), (20, [20])], ids=["no deadline", "a deadline"])
async def test_a_job_is_looked_at_when_its_deadline_comes(
    failure: BaseException, seconds: int | None, want: list[float]
) -> None:
    woken: list[float] = []
    parts: Any = {"framework": None, "writer": None, "recorder": MagicMock()}
    reconciler = TrainJobReconciler(
        reader=cast("Reader", Cached(seconds)),
        snapshots=cast("Snapshots", Broken(failure)),
        now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
        wake=lambda key, after: woken.append(after),
        **parts,
    )
    with pytest.raises((type(failure), RetryableError)):
        await reconciler.reconcile(Key("team", "j"))
    assert woken == want
