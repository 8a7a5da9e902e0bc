# SPDX-License-Identifier: Apache-2.0
"""What the client returns besides the objects themselves. Values only; nothing here reads the cluster.

Shared by the async and the sync face. What a person looks at shows itself as text and, in notebooks, as a table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from trainsnap_api.base import Kind
from trainsnap_api.display import html_table, list_table, one_line
from trainsnap_api.state import State, reason_of, state_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trainsnap_api.models import SnapshotSource, TrainingRuntimeSpec, TrainJob

T = TypeVar("T")
K = TypeVar("K", bound=Kind)


class Listing(list[K]):
    """All objects of one consistent list; ``resource_version`` is where a watch without a gap starts."""

    def __init__(self, items: Iterable[K] = (), resource_version: str = "") -> None:
        super().__init__(items)
        self.resource_version = resource_version

    def _repr_html_(self) -> str:
        return list_table(self)


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list. ``remaining``: the server's estimate of how many objects follow; None when it gives none."""

    items: Sequence[T]
    resource_version: str
    remaining: int | None


@dataclass(frozen=True, slots=True)
class Event(Generic[T]):
    """A change of one object; ``object`` is its new state, of a DELETED one the last that is known.

    ``origin``: ``list`` for what was there when the watch began; ``watch`` for every single change since; ``relist``
    for the difference that was found after the server had forgotten what lies between (410 Expired): then states
    between the last event and this one may have been missed.
    """

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: T
    origin: Literal["list", "watch", "relist"] = "watch"


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a job is. Counts are of the JobSet's jobs, summed over its replicated jobs."""

    job: TrainJob
    state: State
    reason: str = ""
    """In the words of the condition that says so; "" when none does."""
    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    percent: int | None = None
    """As the training processes report it; None when they do not."""
    remaining_seconds: int | None = None

    @classmethod
    def of(cls, job: TrainJob) -> Progress:
        """What the job's status says."""
        counts = (job.status.jobs_status if job.status else None) or ()
        trainer = job.status.trainer_status if job.status else None

        def total(name: str) -> int:
            return sum(getattr(item, name) or 0 for item in counts)

        return cls(
            job,
            state_of(job),
            reason_of(job),
            active=total("active"),
            ready=total("ready"),
            succeeded=total("succeeded"),
            failed=total("failed"),
            percent=trainer.progress_percentage if trainer else None,
            remaining_seconds=trainer.estimated_remaining_seconds if trainer else None,
        )

    def same_as(self, other: Progress | None) -> bool:
        """Whether both say the same, whatever else changed in the job."""
        return other is not None and self._facts() == other._facts()

    def _facts(self) -> tuple[Any, ...]:
        return (self.state, self.reason, self.active, self.ready, self.succeeded, self.failed, self.percent,
                self.remaining_seconds)  # fmt: skip

    def __str__(self) -> str:
        counts = {"active": self.active, "ready": self.ready, "succeeded": self.succeeded, "failed": self.failed}
        parts = [self.state, *(f"{number} {word}" for word, number in counts.items() if number)]
        if self.percent is not None:
            parts.append(f"{self.percent} %")
        return ", ".join(parts) + (f": {one_line(self.reason)}" if self.reason else "")


@dataclass(frozen=True, slots=True)
class EffectiveRuntime:
    """What a job runs with. ``origin``: ``snapshot`` for what it was started from, whatever became of the runtime;
    ``live`` for the runtime of today, when the job has no snapshot (yet); ``missing`` when there is neither."""

    origin: Literal["snapshot", "live", "missing"]
    kind: str
    name: str
    spec: TrainingRuntimeSpec | None = field(default=None, repr=False)
    opaque: Any = field(default=None, repr=False)
    """Content of a runtime of a kind that trainsnap does not know, instead of ``spec``."""
    source: SnapshotSource | None = field(default=None, repr=False)
    """Provenance: uid, generation, digest, labels; None without a snapshot."""
    generation: int | None = None
    problem: str = ""
    """Why it is missing, in the server's words."""


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. ``path`` names entries of lists by their key: ``spec.template.spec.replicatedJobs[node]``.
    ``old`` is what the job runs with, ``new`` the runtime of today; ABSENT stands for nothing at all."""

    path: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.path}: {self.old!r} -> {self.new!r}"


class _Absent:
    def __repr__(self) -> str:
        return "(absent)"

    def __reduce__(self) -> str:
        return "ABSENT"

    def __bool__(self) -> bool:
        return False


ABSENT = _Absent()
"""No value; JSON's null is None."""


@dataclass(frozen=True, slots=True)
class RuntimeDiff:
    """How the runtime of today differs from what the job was started from. Nothing of it reaches the job.

    ``live``: ``same`` object as then; ``recreated`` under the same name; ``deleted``; ``unknown`` when the server does
    not serve its kind or this client does not know it, and nothing was compared.
    """

    job: str
    kind: str
    name: str
    live: Literal["same", "recreated", "deleted", "unknown"]
    changes: tuple[Change, ...] = ()
    generation: int | None = None
    """Of the snapshot, when known."""
    live_generation: int | None = None

    @property
    def changed(self) -> bool:
        """Whether a job started now would run with something else."""
        return bool(self.changes) or self.live in ("deleted", "unknown")

    def __str__(self) -> str:
        now = f" -> {self.live_generation}" if self.live_generation not in (None, self.generation) else ""
        head = f"{self.kind} {self.name} ({self.live}, generation {self.generation or 'unknown'}{now})"
        if self.live in ("deleted", "unknown"):
            return f"{head}: not compared"
        count = f"{len(self.changes)} change{'' if len(self.changes) == 1 else 's'}"
        return "\n".join([f"{head}: {count}", *(f"  {change}" for change in self.changes)])

    def _repr_html_(self) -> str:
        rows = [(change.path, repr(change.old), repr(change.new)) for change in self.changes]
        return html_table(f"{self.kind} {self.name} ({self.live})", ("Path", "Job", "Runtime today"), rows)
