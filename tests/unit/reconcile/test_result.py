# SPDX-License-Identifier: Apache-2.0
"""What the queue is told after a reconcile: a deadline is kept whatever is in the way."""

from __future__ import annotations

from datetime import timedelta

import pytest

from trainsnap_api.transport import Disconnected
from trainsnap_controller import blocked as reasons
from trainsnap_controller.blocked import Blocked, CacheBehind
from trainsnap_controller.queue import Done, RequeueAfter, Result, RetryableError
from trainsnap_controller.reconcile.trainjob import SLOW_RETRY_SECONDS, _result

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
@pytest.mark.parametrize(("deadline", "want"), [(None, None), (SOON, 20)], ids=["no deadline", "a deadline"])
def test_what_is_retried_is_looked_at_when_its_deadline_comes(
    failure: Exception, deadline: timedelta | None, want: float | None
) -> None:
    with pytest.raises(RetryableError, match=str(failure)) as raised:
        _result(failure, deadline)
    assert raised.value.within == want
