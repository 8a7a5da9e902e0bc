# SPDX-License-Identifier: Apache-2.0
"""Why a TrainJob cannot go on: the one table of reasons of the condition ``Blocked``.

The condition is True while the job cannot go on and is taken away when the cause is gone. It is never ``Failed``:
that is terminal. On the happy path it does not exist, since SDKs take a job for running only while it has no condition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trainsnap_api.transport import ApiError

CONDITION: Final = "Blocked"


@dataclass(frozen=True, slots=True)
class Reason:
    """One row of the table. ``retried``: tried again with growing pauses; else only when the named cause changes."""

    name: str
    meaning: str
    retried: bool = True


RUNTIME_NOT_FOUND = Reason(
    "RuntimeNotFound", "The runtime that spec.runtimeRef names does not exist. The job starts when it appears.", False
)
RUNTIME_NOT_SUPPORTED = Reason(
    "RuntimeNotSupported", "spec.runtimeRef names a kind that trainsnap is not configured for.", False
)
RUNTIME_INVALID = Reason(
    "RuntimeInvalid", "The job and its runtime do not fit together. Tried again when the runtime changes.", False
)
SNAPSHOT_CONFLICT = Reason(
    "SnapshotConflict", "A TrainingRuntimeSnapshot of the job's name exists that trainsnap did not make for this job."
)
SNAPSHOT_REJECTED = Reason(
    "SnapshotRejected", "The API server refused the snapshot, or stored something else than the runtime."
)
SNAPSHOT_LOST = Reason(
    "SnapshotLost",
    "The snapshot is gone and the live runtime is not the one that the JobSet was built from. The JobSet goes on; "
    "only suspend, resume, status and deadline are carried out.",
)
LEGACY_INVALID = Reason(
    "LegacySnapshotInvalid",
    "The ConfigMap in which the operator before trainsnap kept the job's runtime cannot be used. It is left as it is, "
    "and the live runtime is not used in its stead.",
)
LEFTOVER = Reason("WaitingForLeftovers", "Objects of an earlier TrainJob of the same name are still being removed.")
CHILD_CONFLICT = Reason("ChildConflict", "An object that the job needs exists, but belongs to somebody else.")
BUILD_FAILED = Reason("BuildFailed", "The job's objects cannot be built from its runtime.", False)
BUILD_WAITS = Reason("BuildWaits", "Something in the cluster that the job's objects are built with is not there yet.")
APPLY_FAILED = Reason("ApplyFailed", "The API server refused one of the job's objects.")
KIND_NOT_INSTALLED = Reason("KindNotInstalled", "A kind that the job needs is not installed in the cluster.")

REASONS: Final = (
    RUNTIME_NOT_FOUND,
    RUNTIME_NOT_SUPPORTED,
    RUNTIME_INVALID,
    SNAPSHOT_CONFLICT,
    SNAPSHOT_REJECTED,
    SNAPSHOT_LOST,
    LEGACY_INVALID,
    LEFTOVER,
    CHILD_CONFLICT,
    BUILD_FAILED,
    BUILD_WAITS,
    APPLY_FAILED,
    KIND_NOT_INSTALLED,
)


class Blocked(Exception):
    """The job cannot go on. Carries a row of the table and one line that names the field, the value and the rule."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def namespace_ends(error: ApiError) -> bool:
    """Whether a write was refused because its namespace is being deleted: the job goes with it, nothing is wrong."""
    return any(cause.reason == "NamespaceTerminating" for cause in error.causes)


class CacheBehind(Exception):
    """What the cache shows is older than the cluster: nothing is wrong, the job is looked at again in a moment."""
