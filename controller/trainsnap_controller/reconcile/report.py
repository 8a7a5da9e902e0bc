# SPDX-License-Identifier: Apache-2.0
"""What people are told about a TrainJob by events: the wording, in one place.

Normal progress is not reported: conditions and the JobSet's own events say it. Recording never blocks or fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from trainsnap_controller.observe.events import (
    JOB_SET_KEPT,
    JOB_SET_REBUILT,
    RESOURCES_CREATION_FAILED,
    EventRecorder,
)
from trainsnap_controller.observe.text import failure_note
from trainsnap_controller.runtime.job import Job

SHOWN_DIFFERENCES: Final = 3


@dataclass(frozen=True, slots=True)
class Reporter:
    """Turns what happened into events about the TrainJob."""

    events: EventRecorder

    def creation_failed(self, job: Job, error: Exception) -> None:
        """The job's objects could not be made; the reference's event, word for word."""
        self.events.record(
            _about(job),
            RESOURCES_CREATION_FAILED,
            failure_note("TrainJob resources reconciliation failed: ", str(error)),
        )

    def rebuilt(self, job: Job) -> None:
        """The JobSet had vanished before anybody saw it finish."""
        self.events.record(
            _about(job),
            JOB_SET_REBUILT,
            f"JobSet {job.name} was gone before it was seen to finish; it is built again from the snapshot",
        )

    def kept(self, job: Job, differences: tuple[str, ...]) -> None:
        """Parts of an existing JobSet stay as they are, though they would be built otherwise today."""
        shown = "; ".join(differences[:SHOWN_DIFFERENCES])
        more = len(differences) - SHOWN_DIFFERENCES
        self.events.record(
            _about(job),
            JOB_SET_KEPT,
            f"JobSet {job.name} keeps what cannot change any more: {shown}"
            + (f" (and {more} more)" if more > 0 else ""),
        )


def _about(job: Job) -> dict[str, Any]:
    assert job.raw is not None
    return job.raw
