# SPDX-License-Identifier: Apache-2.0
"""``spec.runtimePatches``: what they may name, and the runtime's template with all of them merged in.

Used by ``assemble`` (the merge) and by the jobset plugin and ``framework`` (the names). A patch never adds a
replicated job or a container: a name that the runtime lacks is an error, and the merge leaves it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainsnap_controller.runtime import normalform
from trainsnap_controller.runtime._generated.merge_keys import MERGE_KEYS
from trainsnap_controller.runtime.errors import BuildError, FieldError
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.runtime.merge import merge

JSON = dict[str, Any]
PATH = "spec.runtimePatches"
_LISTS = (("initContainers", "init container"), ("containers", "container"))


@dataclass(frozen=True, slots=True)
class Patched:
    """The template of a runtime with the job's patches: the JobSet's labels, annotations and spec in normal form."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: JSON


def patched(job: Job, template: JSON) -> Patched:
    """Merges every patch in list order; later ones win; replicated jobs keep the runtime's order.

    Raises ``BuildError`` for a quantity that is none.
    """
    metadata = template.get("metadata") or {}
    labels, annotations = dict(metadata.get("labels") or {}), dict(metadata.get("annotations") or {})
    spec: JSON = template.get("spec") or {}
    known = _names(spec)
    order = {item["name"]: place for place, item in enumerate(spec.get("replicatedJobs") or [])}
    for index, entry in enumerate(job.runtime_patches):
        change = _template(entry)
        extra = change.get("metadata") or {}
        labels |= extra.get("labels") or {}
        annotations |= extra.get("annotations") or {}
        partial = normalform.patch(change.get("spec") or {}, f"{PATH}[{index}].trainingRuntimeSpec.template.spec")
        spec = merge(spec, _known_only(partial, known), MERGE_KEYS)
    spec = normalform.job_set_spec(spec, "runtime.spec.template.spec")
    if jobs := spec.get("replicatedJobs"):
        spec["replicatedJobs"] = sorted(jobs, key=lambda item: order[item["name"]])
    return Patched(labels, annotations, spec)


def unknown_targets(job: Job, runtime_spec: JSON) -> list[FieldError]:
    """Replicated jobs, init containers and containers that a patch names and the runtime does not have."""
    return list(_unknown_targets(job, _names((runtime_spec.get("template") or {}).get("spec") or {})))


def differ(old: Job, new: Job) -> bool:
    """Whether the patches changed in meaning: nothing and empty are the same, quantities count by value."""
    return _comparable(old) != _comparable(new)


def same_but_time(old: JSON, new: JSON) -> bool:
    """Whether two entries ask for the same, whenever they were written."""
    return bool(_meaning({**old, "time": None}) == _meaning({**new, "time": None}))


def patched_containers(entry: JSON) -> Iterator[tuple[str, str, JSON]]:
    """Every container patch of one ``runtimePatches`` entry: replicated job, list name, the container patch."""
    for item in _jobs(entry):
        pod = pod_spec(item)
        for key, _ in _LISTS:
            for container in pod.get(key) or []:
                yield item["name"], key, container


def _comparable(job: Job) -> list[JSON]:
    return [_meaning(entry) for entry in job.runtime_patches]


def _meaning(entry: JSON) -> Any:
    return _without_empty({**entry, "trainingRuntimeSpec": _normal(entry)})


def _normal(entry: JSON) -> JSON:
    template = _template(entry)
    try:
        return {**template, "spec": normalform.patch(template.get("spec") or {}, PATH)}
    except BuildError:
        return template


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _without_empty(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in (None, "", [], {})}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


Names = Mapping[str, Mapping[str, frozenset[str]]]
"""Replicated job -> list name -> names of its containers."""


def _unknown_targets(job: Job, known: Names) -> Iterator[FieldError]:
    for entry in job.runtime_patches:
        for item in _jobs(entry):
            if item["name"] not in known:
                rule = f"the runtime has no replicated job named {item['name']!r}{_instead(known)}"
                yield FieldError(PATH, entry.get("manager"), rule)
        for name, key, container in patched_containers(entry):
            if name in known and container["name"] not in known[name][key]:
                what = f"replicated job {name!r} of the runtime has no {dict(_LISTS)[key]} named {container['name']!r}"
                yield FieldError(PATH, entry.get("manager"), what + _instead(known[name][key]))


def _instead(names: Iterable[str]) -> str:
    """What could have been named, unless there is nothing, or too much to read."""
    found = sorted(names)
    return f"; it has {', '.join(found)}" if 0 < len(found) <= 20 else ""


def _known_only(partial: JSON, known: Names) -> JSON:
    jobs = [_known_containers(item, known[item["name"]]) for item in _listed(partial) if item["name"] in known]
    return {"replicatedJobs": jobs} if jobs else {}


def _known_containers(item: JSON, known: Mapping[str, frozenset[str]]) -> JSON:
    pod = pod_spec(item)
    lists = {key: [c for c in pod[key] if c["name"] in known[key]] for key, _ in _LISTS if key in pod}
    if not lists:
        return item
    job = item["template"]
    template = {**job["spec"]["template"], "spec": {**pod, **lists}}
    return {**item, "template": {**job, "spec": {**job["spec"], "template": template}}}


def _names(spec: JSON) -> Names:
    return {
        item["name"]: {key: frozenset(c["name"] for c in pod_spec(item).get(key) or []) for key, _ in _LISTS}
        for item in _listed(spec)
    }


def _template(entry: JSON) -> JSON:
    template: JSON = (entry.get("trainingRuntimeSpec") or {}).get("template") or {}
    return template


def _jobs(entry: JSON) -> list[JSON]:
    return _listed(_template(entry).get("spec") or {})


def _listed(spec: JSON) -> list[JSON]:
    jobs: list[JSON] = spec.get("replicatedJobs") or []
    return jobs


def pod_spec(item: JSON) -> JSON:
    """The pod spec of a replicated job or of a patch of one, where every level may be missing."""
    here: JSON = item
    for key in ("template", "spec", "template", "spec"):
        here = here.get(key) or {}
    return here
