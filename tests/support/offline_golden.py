# SPDX-License-Identifier: Apache-2.0
"""Replays golden cases against the pure part of the operator, without a control plane.

A toy API server stands in: it keeps objects, applies the defaults that the CRDs name, and takes the recorded verdict of
each step for its own. After every step each TrainJob is reconciled the way the operator does it. What is proved is
building and status; admission, the schema and real server-side apply are proved elsewhere.
"""

from __future__ import annotations

import copy
import importlib.util
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from trainsnap_api.transport.resources import JOB_SET, by_kind
from trainsnap_controller.runtime import status
from trainsnap_controller.runtime.component import Component, Write
from trainsnap_controller.runtime.errors import BuildError
from trainsnap_controller.runtime.framework import Framework
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.runtime.observed import Observed

JSON = dict[str, Any]
Key = tuple[str, str, str]
"""apiVersion, kind, name."""

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
NAMESPACE = "g-offline-namespace-0f1e2d"
_QUIET = timedelta(seconds=1.5)
"""How long a settle step takes when nothing happens."""


def replayer() -> ModuleType:
    """The golden folder's own script, for its normal form and its comparison."""
    spec = importlib.util.spec_from_file_location("golden_replay", GOLDEN / "replay.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cases(folder: str = "cases") -> Iterator[JSON]:
    """Every case of a folder of ``tests/golden``, in file order."""
    for file in sorted((GOLDEN / folder).glob("*.yaml")):
        for document in yaml.load_all(file.read_text(), yaml.CSafeLoader):
            if document:
                yield document


def recorded(case_id: str, folder: str = "reference") -> JSON:
    """What the reference did with a case."""
    loaded: JSON = json.loads((GOLDEN / folder / f"{case_id}.json").read_text())
    return loaded


def schemas() -> dict[str, JSON]:
    """What has defaults: our kinds, JobSet by way of the runtime that embeds its spec, Secret and Volcano's group."""
    result = {}
    for file in sorted((ROOT / "crds").glob("trainer.*.yaml")):
        crd = yaml.load(file.read_text(), yaml.CSafeLoader)
        result[crd["spec"]["names"]["kind"]] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    job_set = result["TrainingRuntime"]["properties"]["spec"]["properties"]["template"]["properties"]["spec"]
    result["JobSet"] = {"properties": {"spec": job_set}}
    result["Secret"] = {"properties": {"type": {"default": "Opaque"}}}
    volcano = yaml.load((GOLDEN / "crds" / "volcano-podgroups.yaml").read_text(), yaml.CSafeLoader)
    result["scheduling.volcano.sh/v1beta1"] = volcano["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return result


def defaulted(value: Any, schema: JSON) -> Any:
    """The value as the API server stores it: no nulls, and every default whose parent is there."""
    if isinstance(value, dict):
        result = {key: item for key, item in value.items() if item is not None}
        inner = schema.get("properties") or {}
        for key, child in inner.items():
            if key not in result and "default" in child:
                result[key] = copy.deepcopy(child["default"])
        free = schema.get("additionalProperties")
        other: JSON = free if isinstance(free, dict) else {}
        return {key: defaulted(item, inner.get(key, other)) for key, item in result.items()}
    if isinstance(value, list):
        return [defaulted(item, schema.get("items") or {}) for item in value]
    return value


class Unfit(Exception):
    """The job has no runtime, or one that it does not fit."""


@dataclass
class Offline:
    """The toy server and the operator on it, for one case."""

    framework: Framework
    schemas: dict[str, JSON]
    now: datetime = field(default_factory=lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    objects: dict[Key, JSON] = field(default_factory=dict)
    snapshots: dict[str, JSON] = field(default_factory=dict)
    applied: dict[Key, JSON] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    uids: int = 0

    def replay(self, case: JSON, verdicts: list[list[str]], replay: ModuleType) -> JSON:
        """The captures of a case. ``verdicts`` are the recorded ones, in order of the steps that have one."""
        answers = iter(verdicts)
        captures = {}
        for step in case["steps"]:
            ((verb, raw),) = step.items()
            argument = replay.subst(raw, {"ns": NAMESPACE, "job": case["id"]})
            if verb == "settle":
                self.now += _QUIET
                self.settle()
            elif verb == "capture":
                captures[argument] = replay.normalize(copy.deepcopy(list(self._captured())), NAMESPACE)
            elif next(answers)[3] == "accepted":
                self._change(verb, argument)
                self.settle()
        return captures

    def settle(self) -> None:
        """Every job, until nothing changes any more."""
        while True:
            before = copy.deepcopy(self.objects)
            for key in [key for key in self.objects if key[1] == "TrainJob"]:
                self._reconcile(key)
            if self.objects == before:
                return

    def _captured(self) -> Iterator[JSON]:
        wanted = ("JobSet", "Secret", "ConfigMap", "PodGroup", "TrainJob")
        return (item for key, item in self.objects.items() if key[1] in wanted)

    def _change(self, verb: str, argument: JSON) -> None:
        reference = argument if verb == "create" else argument["ref"]
        name = argument["metadata"]["name"] if verb == "create" else reference["name"]
        key = (reference["apiVersion"], reference["kind"], name)
        match verb:
            case "create":
                self._create(key, argument)
            case "delete":
                self._delete(key)
            case "status":
                self.objects[key]["status"] = merge_patch(self.objects[key].get("status"), argument["body"]["status"])
            case "patch":
                self._patch(key, argument["body"])

    def _create(self, key: Key, obj: JSON) -> None:
        self.uids += 1
        stored = {**obj, "metadata": {**obj.get("metadata", {}), "uid": f"uid-{self.uids}", "generation": 1}}
        stored["metadata"] |= {"namespace": NAMESPACE, "creationTimestamp": status.timestamp(self.now)}
        self.objects[key] = self._stored(key, stored)

    def _patch(self, key: Key, body: JSON) -> None:
        before = self.objects[key]
        after = self._stored(key, merge_patch(before, {k: v for k, v in body.items() if k != "status"}))
        if after.get("spec") != before.get("spec"):
            after["metadata"]["generation"] = before["metadata"].get("generation", 1) + 1
        self.objects[key] = after

    def _stored(self, key: Key, obj: JSON) -> JSON:
        stored: JSON = defaulted(obj, self.schemas.get(key[0], self.schemas.get(key[1], {})))
        for entry in stored.get("spec", {}).get("runtimePatches", []) if key[1] == "TrainJob" else []:
            entry.setdefault("time", status.timestamp(self.now))
        return stored

    def _delete(self, key: Key) -> None:
        gone = self.objects.pop(key)
        uid = gone["metadata"].get("uid")
        owned = [k for k, item in self.objects.items() if uid in _owners(item)]
        for child in owned:
            self.objects.pop(child)
        self.applied.pop(key, None)
        if key[1] == "TrainJob":
            self.snapshots.pop(uid or "", None)

    def _reconcile(self, key: Key) -> None:
        """One round for one job, as the operator does it."""
        job = Job.from_json(self.objects[key])
        if not job.managed_here:
            return
        if not status.finished(job.status):
            try:
                self._build(job)
                self.problems.pop(job.name, None)
            except (BuildError, Unfit) as error:
                self.problems[job.name] = str(error)
        decision = status.decide(job, self._live(job), self.now)
        if decision.delete_job_set:
            self._delete((JOB_SET.api_version, JOB_SET.kind, job.name))
        if decision.changed:
            self.objects[key]["status"] = decision.status

    def _build(self, job: Job) -> None:
        spec = self._snapshot(job)
        found = {need: self.objects.get(self._key(need)) for need in self.framework.needs(job, spec)}
        for component in self.framework.build(job, spec, Observed(found)).components:
            self._write(component)

    def _snapshot(self, job: Job) -> JSON:
        """The runtime's spec when the job was first seen, once the job fits it."""
        if job.uid not in self.snapshots:
            ref = job.runtime_ref
            runtime = self.objects.get((f"{ref.api_group}/v1alpha1", ref.kind, ref.name))
            if runtime is None:
                raise Unfit(f"runtime {ref.name!r} does not exist")
            spec = copy.deepcopy(runtime.get("spec") or {})
            if errors := self.framework.validate(job, spec):
                raise Unfit("; ".join(map(str, errors)))
            self.snapshots[job.uid] = spec
        return self.snapshots[job.uid]

    def _write(self, component: Component) -> None:
        key = self._key(component)
        live = self.objects.get(key)
        if component.write is Write.ONCE and live is not None:
            return
        document = component.document()
        merged = applied(live or {}, self.applied.get(key, {}) if live else {}, document)
        self.applied[key] = document
        stored = self._stored(key, merged)
        if stored != live:
            self.uids += 1
            stored["metadata"].setdefault("uid", f"uid-{self.uids}")
            self.objects[key] = stored

    def _live(self, job: Job) -> JSON | None:
        return self.objects.get((JOB_SET.api_version, JOB_SET.kind, job.name))

    @staticmethod
    def _key(item: Any) -> Key:
        assert by_kind(item.resource.api_version, item.resource.kind) is not None
        return item.resource.api_version, item.resource.kind, item.name


def merge_patch(base: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(base) if isinstance(base, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def applied(live: JSON, before: JSON, wanted: JSON) -> JSON:
    """Server-side apply by one manager, with lists as a whole: fields of others stay, fields given up go."""
    result = {key: value for key, value in live.items() if key in wanted or key not in before}
    for key, value in wanted.items():
        old, mine = live.get(key), before.get(key)
        if isinstance(value, dict):
            result[key] = applied(old if isinstance(old, dict) else {}, mine if isinstance(mine, dict) else {}, value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def _owners(item: JSON) -> list[str]:
    return [reference["uid"] for reference in item["metadata"].get("ownerReferences") or []]
