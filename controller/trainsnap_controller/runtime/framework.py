# SPDX-License-Identifier: Apache-2.0
"""From (TrainJob, runtime spec, observed objects) to the documents to write: the pipeline, and nothing else.

The reconciler calls ``needs``, gathers, calls ``build`` and carries the plan out; capture and admission call
``validate``. No I/O, no clock: the same input gives the same plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trainsnap_controller.runtime import assemble, blueprint, patches
from trainsnap_controller.runtime.component import Component, Plan
from trainsnap_controller.runtime.errors import BuildError, FieldError
from trainsnap_controller.runtime.extension import (
    Asks,
    BuildsComponents,
    ConnectsPods,
    EnforcesMLPolicy,
    EnforcesPodGroupPolicy,
    Plugin,
    PreparesPods,
    Validates,
    ValidatesAlone,
    Watch,
    Watches,
)
from trainsnap_controller.runtime.info import RuntimeInfo
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.runtime.observed import Need, Observed

JSON = dict[str, Any]
NOTHING = Observed()


@dataclass(frozen=True, slots=True)
class _Roles:
    """The plugins by where they take part. Found out once: asking an object for its protocols takes 15 us each."""

    watching: tuple[Watches, ...]
    asking: tuple[Asks, ...]
    ml_policy: tuple[EnforcesMLPolicy, ...]
    pod_group_policy: tuple[EnforcesPodGroupPolicy, ...]
    preparing: tuple[PreparesPods, ...]
    connecting: tuple[ConnectsPods, ...]
    building: tuple[BuildsComponents, ...]
    checking: tuple[Validates, ...]
    checking_alone: tuple[ValidatesAlone, ...]

    @classmethod
    def of(cls, plugins: tuple[Plugin, ...]) -> _Roles:
        return cls(
            watching=tuple(p for p in plugins if isinstance(p, Watches)),
            asking=tuple(p for p in plugins if isinstance(p, Asks)),
            ml_policy=tuple(p for p in plugins if isinstance(p, EnforcesMLPolicy)),
            pod_group_policy=tuple(p for p in plugins if isinstance(p, EnforcesPodGroupPolicy)),
            preparing=tuple(p for p in plugins if isinstance(p, PreparesPods)),
            connecting=tuple(p for p in plugins if isinstance(p, ConnectsPods)),
            building=tuple(p for p in plugins if isinstance(p, BuildsComponents)),
            checking=tuple(p for p in plugins if isinstance(p, Validates)),
            checking_alone=tuple(p for p in plugins if isinstance(p, ValidatesAlone)),
        )


@dataclass(frozen=True, slots=True)
class Framework:
    """The plugins in their fixed order, and the pipeline through them."""

    plugins: tuple[Plugin, ...]
    _roles: _Roles = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_roles", _Roles.of(self.plugins))

    def watches(self) -> tuple[Watch, ...]:
        """Every kind to watch beside TrainJobs, each once."""
        return tuple(dict.fromkeys(watch for plugin in self._roles.watching for watch in plugin.watches()))

    def needs(self, job: Job, spec: JSON | None) -> tuple[Need, ...]:
        """What must be gathered before ``build`` and ``validate`` can be called, each once."""
        return tuple(dict.fromkeys(need for plugin in self._roles.asking for need in plugin.needs(job, spec or {})))

    def build(
        self, job: Job, spec: JSON | None, observed: Observed, *, annotations: Mapping[str, str] | None = None
    ) -> Plan:
        """The documents to write for the job, in order; the JobSet last, or missing when it shall be left alone.

        ``spec`` is the runtime's spec as its snapshot has it; ``annotations`` are added to the JobSet.

        Raises ``BuildError`` for every input that the API server accepts but that cannot be built.
        """
        for problem in patches.unknown_targets(job, spec or {}):
            raise BuildError(problem.path, problem.detail)
        info = self.inform(job, spec)
        info = replace(info, annotations={**info.annotations, **(annotations or {})})
        return Plan(tuple(self._components(job, info, observed)))

    def inform(self, job: Job, spec: JSON | None) -> RuntimeInfo:
        """The runtime with the job's patches and every plugin's policy applied: the last stop before documents."""
        info = assemble.runtime_info(job, spec or {})
        for policy in self._roles.ml_policy:
            info = policy.enforce_ml_policy(job, info)
        for gang in self._roles.pod_group_policy:
            info = gang.enforce_pod_group_policy(job, info)
        for preparing in self._roles.preparing:
            info = preparing.prepare_pods(job, info)
        for connecting in self._roles.connecting:
            info = connecting.connect_pods(job, info)
        return info

    def validate(
        self, job: Job, spec: JSON | None, observed: Observed = NOTHING, *, old: Job | None = None
    ) -> tuple[FieldError, ...]:
        """Every broken rule, in a fixed order; empty when the job fits the runtime.

        ``spec`` is the snapshot's, or the live runtime's as long as there is none.
        """
        try:
            info = assemble.runtime_info(job, spec or {})
        except BuildError as error:
            return (_as_field_error(error),)
        errors = [e for plugin in self._roles.checking for e in plugin.validate(job, info, observed, old)]
        return tuple(_distinct([*self.validate_alone(job, observed, old=old), *errors]))

    def validate_new(self, job: Job, spec: JSON | None, observed: Observed = NOTHING) -> tuple[FieldError, ...]:
        """As ``validate``, of a job that is to start from a live runtime: the runtime's own rules hold too, also where
        a label keeps its admission from asking for them."""
        own = [FieldError("spec.runtimeRef", None, f"the runtime has {e}") for e in blueprint.broken_rules(spec or {})]
        return tuple(_distinct([*own, *self.validate(job, spec, observed)]))

    def validate_alone(
        self, job: Job, observed: Observed = NOTHING, *, old: Job | None = None
    ) -> tuple[FieldError, ...]:
        """The broken ones of the rules that need no runtime; ``validate`` has them too."""
        checking = self._roles.checking_alone
        return tuple(_distinct([e for plugin in checking for e in plugin.validate_alone(job, observed, old)]))

    def _components(self, job: Job, info: RuntimeInfo, observed: Observed) -> Sequence[Component]:
        return [component for plugin in self._roles.building for component in plugin.components(job, info, observed)]


def _as_field_error(error: BuildError) -> FieldError:
    """A problem of the runtime is one of the job's reference to it."""
    if not error.field.startswith("runtime."):
        return FieldError(error.field, None, error.rule)
    return FieldError("spec.runtimeRef", None, f"{error.field.removeprefix('runtime.')} of the runtime {error.rule}")


def _distinct(errors: Sequence[FieldError]) -> list[FieldError]:
    """Each message once, the first place kept."""
    return list({str(error): error for error in errors}.values())
