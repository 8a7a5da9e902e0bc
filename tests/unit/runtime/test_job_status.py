# SPDX-License-Identifier: Apache-2.0
"""From a JobSet to the TrainJob's status, and the deadline, by a clock that stands still."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.building import job
from trainsnap_controller.runtime import status
from trainsnap_controller.runtime.status import decide

JSON = dict[str, Any]
NOW = datetime(2026, 5, 6, 7, 8, 9, 10, tzinfo=UTC)
AT = "2026-05-06T07:08:09Z"
EARLIER = "2026-05-06T06:00:00Z"
CREATED = {"creationTimestamp": "2026-05-06T07:00:00Z"}


def cond(kind: str, value: str = "True", reason: str = "R", message: str = "m", time: str = EARLIER) -> JSON:
    return {
        "type": kind,
        "status": value,
        "reason": reason,
        "message": message,
        "lastTransitionTime": time,
        "observedGeneration": 3,
    }


def job_set(*conditions: JSON, counts: list[JSON] | None = None, **metadata: Any) -> JSON:
    found: JSON = {"conditions": list(conditions)}
    if counts is not None:
        found["replicatedJobsStatus"] = counts
    return {"metadata": {"name": "alpha", **metadata}, "status": found}


COMPLETED = cond("Completed", reason="AllJobsCompleted", message="jobset completed successfully")
COMPLETE = {**COMPLETED, "type": "Complete"}
FAILED = cond("Failed", reason="FailedJobs", message="jobset failed")
OVER = cond("Failed", reason="DeadlineExceeded", message="TrainJob exceeded its active deadline")
SUSPENDED = cond("Suspended", reason="Suspended", message="TrainJob is suspended")
RESUMED = cond("Suspended", "False", "Resumed", "TrainJob is resumed")

CONDITIONS: list[Any] = [
    pytest.param(False, [], job_set(), [], id="running: no condition at all"),
    pytest.param(True, [], job_set(), [{**SUSPENDED, "lastTransitionTime": AT}], id="paused"),
    pytest.param(True, [SUSPENDED], job_set(), [SUSPENDED], id="still paused: time stays"),
    pytest.param(False, [SUSPENDED], job_set(), [{**RESUMED, "lastTransitionTime": AT}], id="resumed"),
    pytest.param(False, [RESUMED], job_set(), [RESUMED], id="resumed before"),
    pytest.param(False, [], job_set(COMPLETED), [COMPLETE], id="complete, at the JobSet's time"),
    pytest.param(False, [], job_set(FAILED), [FAILED], id="failed"),
    pytest.param(False, [], job_set(cond("Completed", "False"), cond("Failed", "Unknown")), [], id="not yet"),
    pytest.param(False, [], job_set(cond("StartupPolicyCompleted"), cond("Suspended")), [], id="other conditions"),
    pytest.param(False, [FAILED], job_set(COMPLETED), [FAILED, COMPLETE], id="both may be there"),
    pytest.param(False, [OVER], job_set(FAILED), [OVER], id="the deadline keeps its words"),
    pytest.param(False, [OVER], job_set(COMPLETED), [OVER, COMPLETE], id="complete beside the deadline"),
    pytest.param(False, [cond("Mine")], job_set(COMPLETED), [cond("Mine"), COMPLETE], id="conditions of others stay"),
    pytest.param(False, [COMPLETE], None, [COMPLETE], id="finished, the JobSet is gone"),
    pytest.param(True, [], None, [{**SUSPENDED, "lastTransitionTime": AT}], id="no JobSet yet"),
]


@pytest.mark.parametrize(("suspend", "before", "seen", "want"), CONDITIONS)
def test_conditions(suspend: bool, before: list[JSON], seen: JSON | None, want: list[JSON]) -> None:
    a_job = job(suspend=suspend, status={"conditions": before} if before else None)

    got = decide(a_job, seen, NOW)

    assert got.status.get("conditions", []) == want
    assert got.changed is (before != want)
    assert "conditions" in got.status or want == []


def test_counts_are_written_out_also_the_zeros() -> None:
    counts = [{"name": "b", "active": 2, "restarts": 7}, {"name": "a", "ready": 1, "suspended": 1}]
    got = decide(job(), job_set(counts=counts), NOW)
    assert got.status["jobsStatus"] == [
        {"name": "b", "ready": 0, "succeeded": 0, "failed": 0, "active": 2, "suspended": 0},
        {"name": "a", "ready": 1, "succeeded": 0, "failed": 0, "active": 0, "suspended": 1},
    ]


def test_counts_of_nothing_take_the_field_away() -> None:
    before = {"jobsStatus": [{"name": "a"}], "trainerStatus": {"lastUpdatedTime": EARLIER}}
    got = decide(job(status=before), job_set(), NOW)
    assert got.status == {"trainerStatus": {"lastUpdatedTime": EARLIER}}
    assert got.changed


def test_without_a_job_set_counts_stay() -> None:
    before = {"jobsStatus": [{"name": "a"}]}
    got = decide(job(status=before), None, NOW)
    assert (got.status, got.changed) == (before, False)


@pytest.mark.parametrize("before", [None, {}, {"conditions": []}], ids=str)
def test_nothing_to_say_is_no_change(before: JSON | None) -> None:
    assert not decide(job(status=before), None, NOW).changed


def deadline(seconds: int, *conditions: JSON, suspend: bool = False, **spec: Any) -> Any:
    given = {"conditions": list(conditions)} if conditions else None
    return job(activeDeadlineSeconds=seconds, suspend=suspend, status=given, metadata=CREATED, **spec)


def test_a_job_that_ran_too_long_fails_and_its_job_set_goes() -> None:
    got = decide(deadline(60), job_set(), NOW)
    assert got.status["conditions"] == [{**OVER, "lastTransitionTime": AT}]
    assert got.delete_job_set and got.requeue_after is None


def test_a_job_within_its_time_is_looked_at_again_in_time() -> None:
    got = decide(deadline(600), job_set(), NOW)
    assert got.requeue_after == timedelta(seconds=600 - 489) - timedelta(microseconds=10)
    assert not got.changed and not got.delete_job_set


def test_the_last_moment_is_not_too_long() -> None:
    got = decide(deadline(489), job_set(), NOW.replace(microsecond=0))
    assert got.requeue_after == timedelta(seconds=1) and not got.changed


NO_CLOCK: list[Any] = [
    pytest.param(deadline(60, suspend=True), None, id="paused"),
    pytest.param(deadline(60, COMPLETE), None, id="complete"),
    pytest.param(deadline(60, managedBy="kueue.x-k8s.io/multikueue"), None, id="managed elsewhere"),
    pytest.param(deadline(60), job_set(COMPLETED), id="completes in the same look"),
    pytest.param(job(metadata=CREATED), None, id="no deadline"),
]


@pytest.mark.parametrize(("a_job", "seen"), NO_CLOCK)
def test_when_the_clock_does_not_count(a_job: Any, seen: JSON | None) -> None:
    got = decide(a_job, seen, NOW)
    assert not status.ran_out_of_time(got.status) and got.requeue_after is None


def test_the_clock_starts_anew_at_a_resume() -> None:
    resumed = {**RESUMED, "lastTransitionTime": "2026-05-06T07:08:00Z"}
    assert decide(deadline(60, resumed), job_set(), NOW).requeue_after is not None
    assert decide(deadline(60, SUSPENDED), job_set(), NOW).requeue_after is not None, "resumed in this very look"
    assert decide(deadline(60, {**RESUMED, "lastTransitionTime": EARLIER}), job_set(), NOW).delete_job_set


def test_a_deadline_beyond_all_clocks() -> None:
    got = decide(deadline(2**63 - 1), job_set(), NOW)
    assert got.requeue_after is not None and not got.changed


def test_a_job_set_that_could_not_be_deleted_is_tried_again_until_it_is_going() -> None:
    assert decide(deadline(60, OVER), job_set(), NOW).delete_job_set
    assert not decide(deadline(60, OVER), job_set(deletionTimestamp=AT), NOW).delete_job_set
    assert not decide(deadline(60, OVER), None, NOW).delete_job_set
    assert not decide(deadline(60, FAILED), job_set(), NOW).delete_job_set


@pytest.mark.parametrize(
    ("conditions", "want"),
    [([], False), ([COMPLETE], True), ([FAILED], True), ([cond("Failed", "False")], False), ([SUSPENDED], False)],
)
def test_finished(conditions: list[JSON], want: bool) -> None:
    assert status.finished({"conditions": conditions}) is want
    assert status.finished(None) is False


def test_a_condition_keeps_its_time_until_its_status_turns() -> None:
    old = [cond("A"), cond("B")]
    same = status.with_condition(old, {"type": "A", "status": "True", "reason": "New", "message": ""}, NOW)
    turned = status.with_condition(old, {"type": "A", "status": "False", "reason": "New", "message": ""}, NOW)
    assert same[0]["lastTransitionTime"] == EARLIER and same[0]["reason"] == "New"
    assert turned[0]["lastTransitionTime"] == AT
    assert [item["type"] for item in turned] == ["A", "B"]
    assert status.without_condition(turned, "A") == [cond("B")]
    assert old == [cond("A"), cond("B")]
