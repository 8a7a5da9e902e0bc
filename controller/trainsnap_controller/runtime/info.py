# SPDX-License-Identifier: Apache-2.0
"""The state that plugins pass along while a job is built: one ``RuntimeInfo`` with one ``PodSet`` per replicated job.

Both are frozen. A plugin answers a changed copy; nothing that was handed in is ever changed in place, so the same
input gives the same output whatever ran before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from trainsnap_controller import constants as c
from trainsnap_controller.runtime import upsert
from trainsnap_controller.runtime.job import Trainer

JSON = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The DNS names of a replicated job's pods, made as they are asked for: a schema admits two billion pods."""

    prefix: str = ""
    domain: str = ""
    replicas: int = 0
    count: int = 0

    def __iter__(self) -> Iterator[str]:
        for copy in range(self.replicas):
            for pod in range(self.count):
                yield f"{self.prefix}-{copy}-{pod}.{self.domain}"


@dataclass(frozen=True, slots=True)
class PodSet:
    """One replicated job: its JSON in normal form, and how many pods it gets.

    ``ancestor`` is the value of the ancestor label on the job template, or None.
    """

    job: JSON
    count: int
    endpoints: Endpoints = field(default_factory=Endpoints)

    @property
    def name(self) -> str:
        """The replicated job's name."""
        return str(self.job["name"])

    @property
    def replicas(self) -> int:
        """Copies of the job; the API server's default is 1."""
        return int(self.job.get("replicas", 1))

    @property
    def ancestor(self) -> str | None:
        """What the job stands for: ``trainer``, an initializer, or something that means nothing here."""
        labels = self.job["template"]["metadata"].get("labels") or {}
        value = labels.get(c.ANCESTOR_LABEL)
        return None if value is None else str(value)

    @property
    def pod_template(self) -> JSON:
        """The pod template, with ``metadata`` and ``spec`` always present."""
        template: JSON = self.job["template"]["spec"]["template"]
        return template

    @property
    def pod_spec(self) -> JSON:
        """The pod's spec."""
        spec: JSON = self.pod_template["spec"]
        return spec

    @property
    def containers(self) -> list[JSON]:
        """Regular containers."""
        return self.pod_spec.get("containers") or []

    @property
    def init_containers(self) -> list[JSON]:
        """Init containers and sidecars."""
        return self.pod_spec.get("initContainers") or []

    def container(self, name: str) -> JSON | None:
        """The first regular container of that name."""
        return next((item for item in self.containers if item["name"] == name), None)

    def has(self, name: str) -> bool:
        """Whether there is a container or init container of that name."""
        return any(item["name"] == name for item in [*self.containers, *self.init_containers])

    def with_count(self, count: int | None) -> PodSet:
        """A copy with another number of pods; None: the same number."""
        return self if count is None else replace(self, count=count)

    def with_pod_spec(self, **fields: Any) -> PodSet:
        """A copy in which fields of the pod's spec are replaced; a field given as empty list or None is taken away."""
        return self._with_template(self.pod_template["metadata"], _changed(self.pod_spec, fields))

    def with_pod_metadata(
        self, *, labels: Mapping[str, str] | None = None, annotations: Mapping[str, str] | None = None
    ) -> PodSet:
        """A copy with labels and annotations added to the pods, over equal keys."""
        metadata = self.pod_template["metadata"]
        fields = {
            name: {**(metadata.get(name) or {}), **extra}
            for name, extra in (("labels", labels), ("annotations", annotations))
            if extra
        }
        return self._with_template(_changed(metadata, fields), self.pod_spec)

    def with_job_spec(self, **fields: Any) -> PodSet:
        """A copy in which fields of the Job's spec are replaced."""
        template = self.job["template"]
        spec = _changed(template["spec"], fields)
        return replace(self, job={**self.job, "template": {**template, "spec": spec}})

    def with_volumes(self, volumes: Iterable[JSON]) -> PodSet:
        """A copy with pod volumes set: in place where the name exists, else at the end."""
        return self.with_pod_spec(volumes=upsert.volumes(self.pod_spec.get("volumes"), volumes))

    def with_container(self, name: str, change: Callable[[JSON], JSON]) -> PodSet:
        """A copy in which the regular container of that name, if there is one, went through ``change``."""
        return self.with_each_container(lambda item: change(item) if item["name"] == name else item)

    def with_each_container(self, change: Callable[[JSON], JSON]) -> PodSet:
        """A copy in which every regular container went through ``change``."""
        return self.with_pod_spec(containers=[change(item) for item in self.containers])

    def with_init_container(self, name: str, change: Callable[[JSON], JSON]) -> PodSet:
        """A copy in which the init container of that name, if there is one, went through ``change``."""
        changed = [change(item) if item["name"] == name else item for item in self.init_containers]
        return self.with_pod_spec(initContainers=changed)

    def _with_template(self, metadata: JSON, spec: JSON) -> PodSet:
        return self.with_job_spec(template={**self.pod_template, "metadata": metadata, "spec": spec})


@dataclass(frozen=True, slots=True)
class RuntimeInfo:
    """A runtime on its way to becoming a JobSet.

    ``template`` is the JobSet spec without ``replicatedJobs``, which live in ``pod_sets``. ``trainer`` is what the
    JobSet builder writes to the trainer container; it starts as the job's own and a plugin may replace its command.
    ``unpatched`` is the runtime's JobSet spec as the snapshot has it: validation asks what a patch may name.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    ml_policy: JSON | None = None
    pod_group_policy: JSON = field(default_factory=dict)
    template: JSON = field(default_factory=dict)
    pod_sets: tuple[PodSet, ...] = ()
    trainer: Trainer | None = None
    unpatched: JSON = field(default_factory=dict)

    @property
    def subdomain(self) -> str | None:
        """``network.subdomain`` of the JobSet, or None when unset: the job's name then."""
        return (self.template.get("network") or {}).get("subdomain") or None

    def policy(self, name: str) -> JSON | None:
        """The ML policy of that name (``torch``, ``mpi`` ...), or None when the runtime has another or none."""
        found: JSON | None = (self.ml_policy or {}).get(name)
        return found

    def by_ancestor(self, ancestor: str) -> PodSet | None:
        """The first replicated job that stands for this step."""
        return next((item for item in self.pod_sets if item.ancestor == ancestor), None)

    def by_name(self, name: str) -> PodSet | None:
        """The replicated job of that name."""
        return next((item for item in self.pod_sets if item.name == name), None)

    def with_pod_sets(self, change: Callable[[PodSet], PodSet]) -> RuntimeInfo:
        """A copy in which every replicated job went through ``change``."""
        return replace(self, pod_sets=tuple(change(item) for item in self.pod_sets))

    def with_pod_set(self, changed: PodSet) -> RuntimeInfo:
        """A copy in which the replicated job of that name is replaced."""
        return self.with_pod_sets(lambda item: changed if item.name == changed.name else item)


def _changed(obj: JSON, fields: Mapping[str, Any]) -> JSON:
    """A copy with fields set; None and an empty list take the key away, as the normal form has neither."""
    merged = {**obj, **fields}
    return {key: value for key, value in merged.items() if key not in fields or (value is not None and value != [])}
