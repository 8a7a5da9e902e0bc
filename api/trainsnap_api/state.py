# SPDX-License-Identifier: Apache-2.0
"""What state a TrainJob is in, as one word. Used by the client and by what jobs show of themselves.

A condition counts only while its status is "True": a resumed job still carries Suspended with status "False". Never
reads the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from trainsnap_api.models import Condition, TrainJob

State = Literal["Created", "Running", "Suspended", "Blocked", "Complete", "Failed"]
"""``Created``: no pod runs yet. ``Blocked``: the operator cannot go on, and the condition says why."""

STATES: tuple[State, ...] = get_args(State)
TERMINAL: frozenset[State] = frozenset({"Complete", "Failed"})
"""A job never leaves these."""

# The first that holds wins: what is final, then what the user asked for, then what is wrong.
_CONDITIONS: tuple[State, ...] = ("Failed", "Complete", "Suspended", "Blocked")


def condition(job: TrainJob, type: str) -> Condition | None:
    """The condition of a type, whether it holds or not; None when the job has none."""
    conditions = (job.status.conditions if job.status else None) or ()
    return next((item for item in conditions if item.type == type), None)


def state_of(job: TrainJob) -> State:
    """The job's state by its status."""
    for state in _CONDITIONS:
        found = condition(job, state)
        if found is not None and found.status == "True":
            return state
    counts = (job.status.jobs_status if job.status else None) or ()
    return "Running" if any(item.active or item.ready for item in counts) else "Created"


def reason_of(job: TrainJob) -> str:
    """Why the job is in its state, in the words of the condition; "" when no condition says."""
    found = condition(job, state_of(job))
    return (found.message or found.reason or "") if found else ""
