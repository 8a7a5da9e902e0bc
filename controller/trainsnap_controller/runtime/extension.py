# SPDX-License-Identifier: Apache-2.0
"""The nine places where a plugin can take part. A plugin implements those it needs and no other.

Every method is a pure function of its arguments: no I/O, no clock, no state kept between calls. What a plugin wants
from outside (settings, randomness) is given to its constructor. Plugins never import each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, runtime_checkable

from trainsnap_api.transport.resources import Resource
from trainsnap_controller.runtime.component import Component
from trainsnap_controller.runtime.errors import FieldError
from trainsnap_controller.runtime.info import RuntimeInfo
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.runtime.observed import Need, Observed

JSON = dict[str, Any]


class Maps(Enum):
    """How an event of a watched kind finds its jobs."""

    OWNER = "owner"
    """The controlling TrainJob."""
    SUSPENDED_IN_NAMESPACE = "suspended-in-namespace"
    """Every suspended TrainJob of the object's namespace."""
    SUSPENDED_BY_RUNTIME_CLASS = "suspended-by-runtime-class"
    """Suspended TrainJobs whose runtime has a pod template of this RuntimeClass."""


@dataclass(frozen=True, slots=True)
class Watch:
    """One kind to watch. ``requires``: the kind whose CRD must be installed, else the watch is left out."""

    resource: Resource
    maps: Maps
    requires: Resource | None = None


class Plugin(Protocol):
    """Anything in the registry."""

    name: str


@runtime_checkable
class Watches(Protocol):
    """Wants jobs reconciled when other objects change."""

    def watches(self) -> Sequence[Watch]: ...


@runtime_checkable
class Asks(Protocol):
    """Wants to see objects of the cluster. ``spec`` is the runtime's spec as its snapshot has it."""

    def needs(self, job: Job, spec: JSON) -> Sequence[Need]: ...


@runtime_checkable
class EnforcesMLPolicy(Protocol):
    """Turns ``mlPolicy`` into counts, variables, ports and volumes. Raises ``BuildError``."""

    def enforce_ml_policy(self, job: Job, info: RuntimeInfo) -> RuntimeInfo: ...


@runtime_checkable
class EnforcesPodGroupPolicy(Protocol):
    """Turns ``podGroupPolicy`` into pod labels and annotations."""

    def enforce_pod_group_policy(self, job: Job, info: RuntimeInfo) -> RuntimeInfo: ...


@runtime_checkable
class PreparesPods(Protocol):
    """Adds what every trainer pod gets, whatever the policies. Runs when counts are final."""

    def prepare_pods(self, job: Job, info: RuntimeInfo) -> RuntimeInfo: ...


@runtime_checkable
class ConnectsPods(Protocol):
    """Works out the DNS names of the pods. Runs last before the components are built."""

    def connect_pods(self, job: Job, info: RuntimeInfo) -> RuntimeInfo: ...


@runtime_checkable
class BuildsComponents(Protocol):
    """Makes documents. Leaves out what shall not be touched. Raises ``BuildError``."""

    def components(self, job: Job, info: RuntimeInfo, observed: Observed) -> Sequence[Component]: ...


@runtime_checkable
class Validates(Protocol):
    """Checks the job against the runtime, before any policy was enforced.

    ``old`` is the job before an update, None on creation and when the snapshot is taken.
    """

    def validate(self, job: Job, info: RuntimeInfo, observed: Observed, old: Job | None) -> Sequence[FieldError]: ...


@runtime_checkable
class ValidatesAlone(Protocol):
    """Checks what needs no runtime: also of jobs that have none any more, such as finished ones.

    ``old`` is as for ``Validates``; a rule is in one of the two, never in both.
    """

    def validate_alone(self, job: Job, observed: Observed, old: Job | None) -> Sequence[FieldError]: ...
