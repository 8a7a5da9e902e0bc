# SPDX-License-Identifier: Apache-2.0
"""From (TrainJob, runtime spec, observed objects) to the documents to write: the pipeline, and nothing else.

The reconciler calls ``needs``, gathers, calls ``build`` and carries the plan out; capture and admission call
``validate``. No I/O, no clock: the same input gives the same plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trainsnap_controller.runtime import assemble, patches
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
class Framework:
    """The plugins in their fixed order, and the pipeline through them."""

    plugins: tuple[Plugin, ...]

    def watches(self) -> tuple[Watch, ...]:
        """Every kind to watch beside TrainJobs, each once."""
        return tuple(dict.fromkeys(w for p in self.plugins if isinstance(p, Watches) for w in p.watches()))

    def needs(self, job: Job, spec: JSON | None) -> tuple[Need, ...]:
        """What must be gathered before ``build`` and ``validate`` can be called, each once."""
        asking = [plugin for plugin in self.plugins if isinstance(plugin, Asks)]
        return tuple(dict.fromkeys(need for plugin in asking for need in plugin.needs(job, spec or {})))

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
        for plugin in self.plugins:
            if isinstance(plugin, EnforcesMLPolicy):
                info = plugin.enforce_ml_policy(job, info)
        for plugin in self.plugins:
            if isinstance(plugin, EnforcesPodGroupPolicy):
                info = plugin.enforce_pod_group_policy(job, info)
        for plugin in self.plugins:
            if isinstance(plugin, PreparesPods):
                info = plugin.prepare_pods(job, info)
        for plugin in self.plugins:
            if isinstance(plugin, ConnectsPods):
                info = plugin.connect_pods(job, info)
        return info

    def validate(
        self, job: Job, spec: JSON | None, observed: Observed = NOTHING, *, old: Job | None = None
    ) -> tuple[FieldError, ...]:
        """Every broken rule, in a fixed order; empty when the job fits the runtime.

        ``spec`` is the live runtime's at capture and on creation, the snapshot's on update.
        """
        try:
            info = assemble.runtime_info(job, spec or {})
        except BuildError as error:
            return (FieldError(error.field, None, error.rule),)
        checking = [plugin for plugin in self.plugins if isinstance(plugin, Validates)]
        errors = [e for plugin in checking for e in plugin.validate(job, info, observed, old)]
        return tuple(_distinct([*self.validate_alone(job, observed, old=old), *errors]))

    def validate_alone(
        self, job: Job, observed: Observed = NOTHING, *, old: Job | None = None
    ) -> tuple[FieldError, ...]:
        """The broken ones of the rules that need no runtime; ``validate`` has them too."""
        checking = [plugin for plugin in self.plugins if isinstance(plugin, ValidatesAlone)]
        return tuple(_distinct([e for plugin in checking for e in plugin.validate_alone(job, observed, old)]))

    def _components(self, job: Job, info: RuntimeInfo, observed: Observed) -> Sequence[Component]:
        builders = [plugin for plugin in self.plugins if isinstance(plugin, BuildsComponents)]
        return [component for plugin in builders for component in plugin.components(job, info, observed)]


def _distinct(errors: Sequence[FieldError]) -> list[FieldError]:
    """Each message once, the first place kept."""
    return list({str(error): error for error in errors}.values())
