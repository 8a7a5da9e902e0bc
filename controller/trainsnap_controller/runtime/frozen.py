# SPDX-License-Identifier: Apache-2.0
"""What JobSet freezes in an existing JobSet, and a document that respects it.

JobSet v0.12 lets pod labels, annotations, nodeSelector, tolerations, schedulingGates and ``suspend`` change, and only
while the JobSet is suspended before or after. Any other difference, say because a newer release builds the job
differently, would make every later write fail, and the job could never be paused or resumed again. The reconciler
falls back to ``keep_frozen`` when a write was refused as immutable. Pure; writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

JSON = dict[str, Any]

_POD_METADATA: Final = ("labels", "annotations")
_POD_SPEC: Final = ("nodeSelector", "tolerations", "schedulingGates")


@dataclass(frozen=True, slots=True)
class Kept:
    """``document``: what can be applied. ``differences``: paths at which the live JobSet is not what was wanted."""

    document: JSON
    differences: tuple[str, ...]


def keep_frozen(wanted: JSON, live: JSON) -> Kept:
    """The live spec with the changeable parts of the wanted document; metadata is all the wanted document's.

    Replicated jobs are matched by name; one that only one side has counts as a difference.
    """
    jobs = {item["name"]: item for item in _jobs(wanted)}
    kept = [_with_changeable(item, jobs[item["name"]]) if item["name"] in jobs else item for item in _jobs(live)]
    spec = {**(live.get("spec") or {})}
    if kept:
        spec["replicatedJobs"] = kept
    spec.pop("suspend", None)
    if "suspend" in wanted["spec"]:
        spec["suspend"] = wanted["spec"]["suspend"]
    return Kept({**wanted, "spec": spec}, tuple(_missing(wanted["spec"], spec, "spec")))


def differences(wanted: JSON, live: JSON) -> tuple[str, ...]:
    """Paths at which a live JobSet lacks something of the wanted one, whether it runs or not."""
    spec = {key: value for key, value in wanted["spec"].items() if key != "suspend"}
    return tuple(_missing(spec, live.get("spec") or {}, "spec"))


def _jobs(job_set: JSON) -> list[JSON]:
    jobs: list[JSON] = (job_set.get("spec") or {}).get("replicatedJobs") or []
    return jobs


def _with_changeable(live: JSON, wanted: JSON) -> JSON:
    old, new = live["template"]["spec"]["template"], wanted["template"]["spec"]["template"]
    metadata = _taken(old.get("metadata") or {}, new.get("metadata") or {}, _POD_METADATA)
    spec = _taken(old.get("spec") or {}, new.get("spec") or {}, _POD_SPEC)
    job = {**live["template"]["spec"], "template": {**old, "metadata": metadata, "spec": spec}}
    return {**live, "template": {**live["template"], "spec": job}}


def _taken(live: JSON, wanted: JSON, keys: tuple[str, ...]) -> JSON:
    """The live object with these keys as the wanted one has them, also where it has none."""
    result = {key: value for key, value in live.items() if key not in keys}
    return result | {key: wanted[key] for key in keys if key in wanted}


def _missing(wanted: Any, live: Any, path: str) -> Iterator[str]:
    """Where ``live`` lacks something of ``wanted``; what it has beyond that is the server's defaults."""
    if isinstance(wanted, dict) and isinstance(live, dict):
        for key, value in wanted.items():
            if key in live:
                yield from _missing(value, live[key], f"{path}.{key}")
            else:
                yield f"{path}.{key}"
    elif isinstance(wanted, list) and isinstance(live, list) and len(wanted) == len(live):
        for index, (a, b) in enumerate(zip(wanted, live, strict=True)):
            yield from _missing(a, b, f"{path}[{index}]")
    elif wanted != live:
        yield path
