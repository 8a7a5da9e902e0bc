# SPDX-License-Identifier: Apache-2.0
"""The JobSet itself: endpoints and pod counts, initializers, the trainer's overrides, and the document.

Runs for every runtime. Also holds the rules that need the job's patches and its JobSet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from trainsnap_api.transport.resources import JOB_SET
from trainsnap_controller import constants as c
from trainsnap_controller.runtime import normalform, patches, upsert
from trainsnap_controller.runtime.component import Component
from trainsnap_controller.runtime.errors import FieldError, Kind
from trainsnap_controller.runtime.extension import Maps, Watch
from trainsnap_controller.runtime.info import Endpoints, PodSet, RuntimeInfo
from trainsnap_controller.runtime.job import Initializer, Job, Trainer
from trainsnap_controller.runtime.observed import Need, Observed

JSON = dict[str, Any]

_MANAGER: Final = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
)
_ENV_ELSEWHERE: Final = (c.NODE, c.DATASET_INITIALIZER, c.MODEL_INITIALIZER)
"""Containers whose variables have a place of their own in the TrainJob."""
_MOUNT: Final = "initializer"


class JobSetPlugin:
    """Runs last: what it writes starts the pods."""

    name = "jobset"

    def watches(self) -> Sequence[Watch]:
        """JobSets, by the TrainJob that owns them."""
        return [Watch(JOB_SET, Maps.OWNER)]

    def needs(self, job: Job, spec: JSON) -> Sequence[Need]:
        """The live JobSet: whether it is written at all depends on it."""
        return [Need(JOB_SET, job.namespace, job.name)]

    def connect_pods(self, job: Job, info: RuntimeInfo) -> RuntimeInfo:
        """Every pod's DNS name, and as many pods per job as the count says, in parallel."""

        def connect(pod_set: PodSet) -> PodSet:
            domain = info.subdomain or job.name
            names = Endpoints(f"{job.name}-{pod_set.name}", domain, pod_set.replicas, pod_set.count)
            counted = pod_set.with_job_spec(parallelism=pod_set.count, completions=pod_set.count)
            return replace(counted, endpoints=names)

        return info.with_pod_sets(connect)

    def components(self, job: Job, info: RuntimeInfo, observed: Observed) -> Sequence[Component]:
        """The JobSet, unless it runs and shall run: then it is not touched."""
        live = observed.job_set(job.namespace, job.name)
        running = live is not None and (live.get("spec") or {}).get("suspend") is not True
        return [] if running and not job.suspended else [Component.of(JOB_SET, document(job, info))]

    def validate(self, job: Job, info: RuntimeInfo, observed: Observed, old: Job | None) -> Sequence[FieldError]:
        """Initializers have a place to go, and patches are aimed at what exists."""
        del observed, old
        return [
            *_initializer_rules(job, info, c.DATASET_INITIALIZER, job.dataset),
            *_initializer_rules(job, info, c.MODEL_INITIALIZER, job.model),
            *patches.unknown_targets(job, {"template": {"spec": info.unpatched}}),
        ]

    def validate_alone(self, job: Job, observed: Observed, old: Job | None) -> Sequence[FieldError]:
        """Patches may change at this moment, are named right, and leave alone what has a place of its own."""
        return [*_change_rules(job, observed, old), *_patch_rules(job)]


def document(job: Job, info: RuntimeInfo) -> JSON:
    """The whole JobSet as it is applied."""
    pod_sets = [_finished(job, info, pod_set) for pod_set in info.pod_sets]
    metadata = job.child_metadata(job.name)
    if info.labels:
        metadata["labels"] = dict(info.labels)
    if info.annotations:
        metadata["annotations"] = dict(info.annotations)
    spec = {key: value for key, value in info.template.items() if key != "suspend"}
    if pod_sets:
        spec["replicatedJobs"] = [pod_set.job for pod_set in pod_sets]
    if job.suspend is not None:
        spec["suspend"] = job.suspend
    return {"apiVersion": JOB_SET.api_version, "kind": JOB_SET.kind, "metadata": metadata, "spec": spec}


def _finished(job: Job, info: RuntimeInfo, pod_set: PodSet) -> PodSet:
    """One replicated job with the job's initializers or trainer written in."""
    match pod_set.ancestor:
        case c.DATASET_INITIALIZER:
            pod_set = _single(_initialized(pod_set, c.DATASET_INITIALIZER, job.dataset))
        case c.MODEL_INITIALIZER:
            pod_set = _single(_initialized(pod_set, c.MODEL_INITIALIZER, job.model))
        case c.TRAINER:
            pod_set = _single(_overridden(pod_set, info.trainer))
    if job.trainer is not None and _takes_trainer_env(pod_set, info):
        # Last, so that what the user sets wins over every plugin.
        variables = normalform.env_list(job.trainer.env, "spec.trainer.env")
        pod_set = pod_set.with_container(c.NODE, upsert.on_container(env_vars=variables))
    return pod_set


def _single(pod_set: PodSet) -> PodSet:
    """A step of the TrainJob runs once."""
    return replace(pod_set, job={**pod_set.job, "replicas": 1})


def _takes_trainer_env(pod_set: PodSet, info: RuntimeInfo) -> bool:
    launcher_as_node = bool((info.policy("mpi") or {}).get("runLauncherAsNode"))
    return pod_set.ancestor == c.TRAINER or (launcher_as_node and pod_set.name == c.NODE)


def _initialized(pod_set: PodSet, container: str, initializer: Initializer | None) -> PodSet:
    if initializer is None:
        return pod_set
    path = f"spec.initializer.{container.removesuffix('-initializer')}.env"
    variables = normalform.env_list(initializer.env, path)
    if initializer.storage_uri is not None:
        variables = [{"name": "STORAGE_URI", "value": initializer.storage_uri}, *variables]
    add_variables = upsert.on_container(env_vars=variables)
    secret = initializer.secret

    def change(item: JSON) -> JSON:
        item = add_variables(item)
        if secret is not None:
            item["envFrom"] = [*(item.get("envFrom") or []), {"secretRef": {"name": secret}}]
        return item

    return pod_set.with_container(container, change)


def _overridden(pod_set: PodSet, trainer: Trainer | None) -> PodSet:
    """Image, command and arguments where the job gives them; an empty list takes the runtime's away."""
    if trainer is None:
        return pod_set
    given: JSON = {"image": trainer.image, "command": trainer.command, "args": trainer.args}
    fields = {key: value if key == "image" else list(value) for key, value in given.items() if value is not None}

    def change(item: JSON) -> JSON:
        return {key: value for key, value in {**item, **fields}.items() if value != []}

    return pod_set.with_container(c.NODE, change)


def _initializer_rules(job: Job, info: RuntimeInfo, name: str, initializer: Initializer | None) -> Iterator[FieldError]:
    """The first of three rules that is broken. Looked up by name, as the reference does, not by ancestor."""
    if initializer is None:
        return
    step = name.removesuffix("-initializer")
    pod_set = info.by_name(name)
    if pod_set is None:
        rule = f"must have a replicated job named {name!r}, since spec.initializer.{step} is set"
    elif not pod_set.has(name):
        rule = f"replicated job {name!r} must have a container of the same name, since spec.initializer.{step} is set"
    elif not _mounts_initializer(pod_set.container(name)):
        rule = f"container {name!r} must mount a volume named {_MOUNT!r}, since spec.initializer.{step} is set"
    else:
        return
    yield FieldError("spec.runtimeRef", _reference(job), rule)


def _mounts_initializer(container: JSON | None) -> bool:
    mounts: Iterable[JSON] = (container or {}).get("volumeMounts") or []
    return any(item["name"] == _MOUNT for item in mounts)


def _change_rules(job: Job, observed: Observed, old: Job | None) -> Iterator[FieldError]:
    """Patches change only while the job is paused before or after, and while no pod runs."""
    if old is None or not patches.differ(old, job):
        return
    if not (old.suspended or job.suspended):
        yield FieldError(patches.PATH, None, "may only change while the TrainJob is suspended", Kind.FORBIDDEN)
        return
    status = (observed.job_set(job.namespace, job.name) or {}).get("status") or {}
    for item in status.get("replicatedJobsStatus") or []:
        if item.get("active", 0) > 0:
            rule = f"may not change while replicated job {item['name']!r} has active pods"
            yield FieldError(patches.PATH, None, rule, Kind.FORBIDDEN)


def _patch_rules(job: Job) -> Iterator[FieldError]:
    for entry in job.runtime_patches:
        if not _MANAGER.fullmatch(entry["manager"]) or len(entry["manager"].partition("/")[0]) > 253:
            rule = "must be a path that starts with a domain, as in 'kueue.x-k8s.io/manager'"
            yield FieldError(f"{patches.PATH}.manager", entry["manager"], rule)
        for name, key, container in patches.patched_containers(entry):
            if key == "containers" and container["name"] in _ENV_ELSEWHERE and container.get("env"):
                rule = f"must not set env of {container['name']!r} in {name!r}: use spec.trainer or spec.initializer"
                yield FieldError(patches.PATH, container["name"], rule)


def _reference(job: Job) -> JSON:
    ref = job.runtime_ref
    return {"name": ref.name, "apiGroup": ref.api_group, "kind": ref.kind}
