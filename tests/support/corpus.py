# SPDX-License-Identifier: Apache-2.0
"""The corpus of wrong objects, ``tests/integration/corpus``: how it is read, built and judged.

Each file is a list of cases::

    id       unique; also the object's name unless the case sets another
    base     trainjob (default), patched (a TrainJob with one runtime patch), runtime, clusterruntime, snapshot
    runtime  what spec.runtimeRef names, one of RUNTIMES; "plain" by default
    set      path -> value in the object; PATCHED, PATCH, JOB and POD stand for the places in PLACES
    unset    paths that are taken away
    change   a merge patch: the object is created, and the change is what must be refused
    text     instead of set: lines of spec as a user typed them, fed to kubectl as they are
    code     HTTP status of the refusal; "client" when kubectl does not even send it
    path     must be in the message; the places above are written out

``shows.yaml`` holds what a user of kubectl sees for each, word by word, as recorded on a real API server by
``python -m support.corpus_run KUBECONFIG KUBECTL`` (which needs a plane with the operator on it). `as_kubectl` says how
kubectl words an answer; a sample of the cases goes through kubectl itself.
"""

from __future__ import annotations

import copy
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from support.objects import API_VERSION, TRAINER_LABEL, replicated_job
from trainsnap_api.transport import ApiError

JSON = dict[str, Any]
FOLDER = Path(__file__).resolve().parents[1] / "integration" / "corpus"
SHOWS = FOLDER / "shows.yaml"
_PATCHED = "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0]"
_JOB = "spec.template.spec.replicatedJobs[0]"
PLACES = {
    "PATCHED": _PATCHED,
    "PATCH": f"{_PATCHED}.template.spec.template.spec",
    "JOB": _JOB,
    "POD": f"{_JOB}.template.spec.template.spec",
}
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Case:
    """One wrong object."""

    id: str
    code: int | str
    path: str
    base: str = "trainjob"
    runtime: str = "plain"
    set: JSON = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    change: JSON | None = None
    text: str | None = None

    @property
    def want_path(self) -> str:
        """The path as the message has it."""
        return _written_out(self.path)

    def object(self, namespace: str) -> JSON:
        """The object to create."""
        obj = _base(self, namespace)
        for path, value in self.set.items():
            _put(obj, _written_out(path), copy.deepcopy(value))
        for path in self.unset:
            _put(obj, _written_out(path), None, remove=True)
        return obj

    def file(self, namespace: str) -> str:
        """What is fed to kubectl."""
        if self.text is None:
            return yaml.safe_dump(self.object(namespace), allow_unicode=True)
        head = f"apiVersion: {API_VERSION}\nkind: TrainJob\nmetadata: {{name: {self.id}, namespace: {namespace}}}\n"
        typed = textwrap.indent(self.text, "  ")
        return f"{head}spec:\n  runtimeRef: {{name: {self.runtime}, kind: TrainingRuntime}}\n{typed}\n"


def cases() -> list[Case]:
    """All cases of the files, and those that are too large to be written down."""
    found = []
    for file in sorted(FOLDER.glob("*.yaml")):
        if file != SHOWS:
            loaded = yaml.safe_load(file.read_text(encoding="utf-8"))
            found += [Case(**{**case, "unset": tuple(case.get("unset", ()))}) for case in loaded]
    return [*found, *_large()]


def shows() -> dict[str, str]:
    """What kubectl shows, by case."""
    loaded: dict[str, str] = yaml.safe_load(SHOWS.read_text(encoding="utf-8")) if SHOWS.exists() else {}
    return loaded


def as_kubectl(error: ApiError, *, doing: str) -> str:
    """The words of kubectl for a refusal. ``doing`` is what it puts in front of the server's words."""
    details = error.details
    causes = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in error.causes))
    if error.reason == "Invalid" and causes:
        head = f"The {details.get('kind', '')} {_quoted(details.get('name', ''))} is invalid: "
        return head + (causes[0] if len(causes) == 1 else "\n" + "\n".join(f"* {cause}" for cause in causes))
    if error.reason == "Invalid" and details.get("kind"):
        return f"The {details['kind']} {_quoted(details.get('name', ''))} is invalid"
    return f"Error from server ({error.reason}): {doing}{error.message}"


def _quoted(text: str) -> str:
    """A text in quotes as Go writes it: what cannot be printed is escaped."""
    known = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return '"' + "".join(known.get(c, c if c.isprintable() else f"\\u{ord(c):04x}") for c in text) + '"'


def settled(text: str, namespace: str) -> str:
    """A text without what differs between runs: the namespace, times, addresses."""
    text = text.replace(namespace, "${ns}")
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "${time}", text)
    return text.strip()


# What the cases start from


def runtimes(namespace: str) -> Iterator[JSON]:
    """The runtimes that the cases name."""
    for name, spec in RUNTIMES.items():
        yield {
            "apiVersion": API_VERSION,
            "kind": "TrainingRuntime",
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec,
        }


def _spec(*jobs: JSON, ml: JSON | None = None, **fields: Any) -> JSON:
    metadata = fields.pop("metadata", None)
    template: JSON = {"spec": {"replicatedJobs": list(jobs)}}
    if metadata:
        template["metadata"] = metadata
    return {"mlPolicy": {"numNodes": 1, **(ml or {})}, "template": template, **fields}


def _pod(job: JSON, **fields: Any) -> JSON:
    job["template"]["spec"]["template"]["spec"] |= fields
    return job


_MOUNT: Any = {"volumeMounts": [{"name": "initializer", "mountPath": "/workspace"}]}
_DATASET, _MODEL = "dataset-initializer", "model-initializer"
_TORCH = _spec(replicated_job(), ml={"torch": {}})
RUNTIMES: dict[str, JSON] = {
    "plain": _spec(_pod(replicated_job(), initContainers=[{"name": "setup", "image": "acme/setup:1"}])),
    "torch": _TORCH,
    "torchtune-llama3.2-1b": _TORCH,
    "torchtune-llama3.2-3b": _TORCH,
    "torchtune-llama3.3-70b": _TORCH,
    "torchtune-qwen2.5-1.5b": _TORCH,
    "torchtune-mistral-7b": _TORCH,
    "torch-injects": _spec(
        replicated_job(),
        ml={"torch": {"envInjection": {"targets": [{"jobName": "node", "containerNames": ["agent"]}]}}},
    ),
    "initializers": _spec(
        replicated_job(_DATASET, trainer=False, **_MOUNT),
        replicated_job(_MODEL, trainer=False, **_MOUNT),
        replicated_job(),
    ),
    "no-initializer-container": _spec(_pod(replicated_job(_DATASET, trainer=False), containers=[{"name": "x"}])),
    "no-initializer-mount": _spec(replicated_job(_DATASET, trainer=False), replicated_job()),
    "mpi-launcher-only": _spec(
        {**replicated_job(), "name": "launcher"}, ml={"mpi": {"runLauncherAsNode": True, "numProcPerNode": 1}}
    ),
    "xgboost": _spec(replicated_job(), ml={"xgboost": {}}),
    "flux-taken": _spec(
        _pod(replicated_job(), initContainers=[{"name": "flux-installer", "image": "x"}]), ml={"flux": {}}
    ),
    "volcano-queue": _spec(
        replicated_job(),
        podGroupPolicy={"volcano": {}},
        metadata={"annotations": {"scheduling.volcano.sh/queue-name": ""}},
    ),
    "volcano-class": _spec(_pod(replicated_job(), priorityClassName="no-such-class"), podGroupPolicy={"volcano": {}}),
    "no-containers": _spec(_pod(replicated_job(trainer=False), containers=[])),
}


def _base(case: Case, namespace: str) -> JSON:
    metadata: JSON = {"name": case.id}
    if case.base != "clusterruntime":
        metadata["namespace"] = namespace
    obj: JSON = {"apiVersion": API_VERSION, "metadata": metadata}
    match case.base:
        case "runtime" | "clusterruntime":
            kind = "TrainingRuntime" if case.base == "runtime" else "ClusterTrainingRuntime"
            return {**obj, "kind": kind, "spec": _spec(copy.deepcopy(replicated_job()))}
        case "snapshot":
            source = {"kind": "TrainingRuntime", "name": "plain", "origin": "Runtime"}
            return {**obj, "kind": "TrainingRuntimeSnapshot", "source": source, "spec": _spec(replicated_job())}
    spec: JSON = {"runtimeRef": {"name": case.runtime, "kind": "TrainingRuntime"}}
    if case.base == "patched":
        job = {"name": "node", "template": {"spec": {"template": {"spec": {}}}}}
        patch = {"template": {"spec": {"replicatedJobs": [job]}}}
        spec["runtimePatches"] = [{"manager": "acme.io/x", "trainingRuntimeSpec": patch}]
    return {**obj, "kind": "TrainJob", "spec": spec}


# Objects of a size that nobody writes down


def _large() -> Iterator[Case]:
    """Very long, very many, very deep."""
    mebibyte = 1024 * 1024
    yield _invalid("long-name", "metadata.name", {"metadata.name": "a" * 64})
    yield _invalid("very-long-name", "metadata.name", {"metadata.name": "a" * 300})
    yield _invalid("long-label", "metadata.labels", {"metadata.labels": {"a": "b" * 64}})
    yield _invalid("long-runtime-ref", "spec.runtimeRef.name", {"spec.runtimeRef.name": "a" * 254})
    yield _invalid("long-kind", "spec.runtimeRef.kind", {"spec.runtimeRef.kind": "A" * 254})
    yield _invalid("long-managed-by", "spec.managedBy", {"spec.managedBy": "a" * 254})
    yield _invalid("long-image", "spec.trainer.image", {"spec.trainer": {"image": "a" * 501}})
    uri = {"spec.initializer": {"dataset": {"storageUri": "s3://" + "a" * 2044}}}
    yield _invalid("long-uri", "spec.initializer.dataset.storageUri", uri)
    yield _invalid("long-argument", "spec.trainer.args[0]", {"spec.trainer": {"args": ["a" * (mebibyte + 1)]}})
    yield _invalid("long-command", "spec.trainer.command[0]", {"spec.trainer": {"command": ["a" * (mebibyte + 1)]}})
    manager = {"spec.runtimePatches": [{"manager": "a.io/" + "x" * 249}]}
    yield _invalid("long-manager", "spec.runtimePatches[0].manager", manager)
    yield Case(
        "manager-with-a-long-domain", 403, "spec.runtimePatches.manager",
        set={"spec.runtimePatches": [{"manager": "a" * 250 + "/" + "b"}, {"manager": "/" + "b" * 250}]},
    )  # fmt: skip
    yield _invalid("long-job-in-patch", "PATCHED.name", {"PATCHED.name": "a" * 254}, base="patched")
    account = {"PATCH.serviceAccountName": "a" * 254}
    yield _invalid("long-account-in-patch", "PATCH.serviceAccountName", account, base="patched")
    path = {"spec.mlPolicy": {"mpi": {"sshAuthMountPath": "/" * 4097}}}
    yield _invalid("long-ssh-path", "spec.mlPolicy.mpi.sshAuthMountPath", path, base="runtime")
    container = {"spec.mlPolicy": _injecting({"jobName": "a", "containerNames": ["x" * 64]})}
    yield _invalid("long-injected-container", "containerNames[0]", container, base="runtime")
    yield _invalid("many-arguments", "spec.trainer.args", {"spec.trainer": {"args": ["a"] * 129}})
    yield _invalid("many-words-of-a-command", "spec.trainer.command", {"spec.trainer": {"command": ["a"] * 129}})
    many = [{"name": f"A{index}"} for index in range(129)]
    yield _invalid("many-variables", "spec.trainer.env", {"spec.trainer": {"env": many}})
    yield _invalid(
        "many-dataset-variables", "spec.initializer.dataset.env", {"spec.initializer": {"dataset": {"env": many}}}
    )
    yield _invalid("five-thousand-variables", "spec.trainer.env",
                   {"spec.trainer": {"env": [{"name": f"A{index}"} for index in range(5000)]}})  # fmt: skip
    patches = [{"manager": f"a.io/{index}"} for index in range(17)]
    yield _invalid("many-patches", "spec.runtimePatches", {"spec.runtimePatches": patches})
    jobs = [{"name": f"j{index}"} for index in range(101)]
    place = "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs"
    yield _invalid("many-patched-jobs", place, {place: jobs}, base="patched")
    for key, count in (("containers", 65), ("initContainers", 65), ("volumes", 129), ("imagePullSecrets", 65),
                       ("schedulingGates", 17), ("tolerations", 129)):  # fmt: skip
        items = [{"key" if key == "tolerations" else "name": f"n{index}"} for index in range(count)]
        yield _invalid(f"many-{key.lower()}", f"PATCH.{key}", {f"PATCH.{key}": items}, base="patched")
    targets = [{"jobName": f"j{index}", "containerNames": ["a"]} for index in range(17)]
    yield _invalid("many-injections", "envInjection.targets", {"spec.mlPolicy": _injecting(*targets)}, base="runtime")
    names = _injecting({"jobName": "j", "containerNames": [f"c{index}" for index in range(9)]})
    yield _invalid("many-injected-containers", "containerNames", {"spec.mlPolicy": names}, base="runtime")
    needs = [{"name": f"n{index}", "status": "Ready"} for index in range(6)]
    yield _invalid("many-dependencies", "JOB.dependsOn", {"JOB.dependsOn": needs}, base="runtime")
    copies = [_named(f"j{index}", replicas=2) for index in range(300)]
    yield Case("three-hundred-wrong-jobs", 403, "spec.template.spec.replicatedJobs[0].replicas", base="runtime",
               set={"spec.template.spec.replicatedJobs": copies})  # fmt: skip
    deep: Any = "x"
    for _ in range(200):
        deep = {"a": deep}
    yield Case("deep-unknown-field", 400, "spec.deep", set={"spec.deep": deep})
    yield Case("deep-in-a-text", 400, "spec.trainer.image", set={"spec.trainer": {"image": deep}})
    deep_list: Any = "x"
    for _ in range(200):
        deep_list = [deep_list]
    yield _invalid("deep-list-of-arguments", "spec.trainer.args[0]", {"spec.trainer": {"args": deep_list}})


def _invalid(case: str, path: str, values: JSON, *, base: str = "trainjob") -> Case:
    return Case(case, 422, path, base=base, set=values)


def _injecting(*targets: JSON) -> JSON:
    return {"torch": {"envInjection": {"targets": list(targets)}}}


def _named(name: str, **fields: Any) -> JSON:
    job = copy.deepcopy(replicated_job())
    job["template"]["metadata"] = {"labels": TRAINER_LABEL}
    return {**job, "name": name, **fields}


# Paths


def _written_out(path: str) -> str:
    head, dot, rest = path.partition(".")
    return f"{PLACES[head]}{dot}{rest}" if head in PLACES else path


def _put(obj: JSON, path: str, value: Any, *, remove: bool = False) -> None:
    """Set or remove what is at a path; objects on the way are made."""
    steps = [key or int(index) for key, index in _STEP.findall(path)]
    here: Any = obj
    for step in steps[:-1]:
        here = here.setdefault(step, {}) if isinstance(here, dict) else here[step]
    if remove:
        del here[steps[-1]]
    else:
        here[steps[-1]] = value
