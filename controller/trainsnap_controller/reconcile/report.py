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
    LEGACY_CONFIG_MAP_IGNORED,
    LEGACY_JOB_DIFFERS,
    RESOURCES_CREATION_FAILED,
    EventRecorder,
)
from trainsnap_controller.observe.text import failure_note, listed
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
        self.events.record(
            _about(job),
            JOB_SET_KEPT,
            f"JobSet {job.name} keeps what cannot change any more: {listed(differences, SHOWN_DIFFERENCES)}",
        )

    def legacy_differs(self, job: Job, differences: tuple[str, ...]) -> None:
        """The JobSet of a job from before snapshots is not what the live runtime would build; it stays as it is."""
        self.events.record(
            _about(job),
            LEGACY_JOB_DIFFERS,
            f"{job.runtime_ref.kind} {job.runtime_ref.name} has changed since JobSet {job.name} was built, "
            f"which stays as it is: {listed(differences, SHOWN_DIFFERENCES)}",
        )

    def legacy_ignored(self, job: Job, note: str) -> None:
        """A ConfigMap of the reference's name is left alone."""
        self.events.record(_about(job), LEGACY_CONFIG_MAP_IGNORED, note)


def _about(job: Job) -> dict[str, Any]:
    assert job.raw is not None
    return job.raw
