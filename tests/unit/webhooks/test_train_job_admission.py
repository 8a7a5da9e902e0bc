# SPDX-License-Identifier: Apache-2.0
"""Which rules a TrainJob is judged by, and what is read for it: the live runtime, its own snapshot, or neither."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from support.building import box, rjob, runtime
from trainsnap_api.transport import Disconnected, NotFound, Resource
from trainsnap_api.transport.resources import (
    CLUSTER_TRAINING_RUNTIME,
    JOB_SET,
    PRIORITY_CLASS,
    TRAINING_RUNTIME,
    TRAINING_RUNTIME_SNAPSHOT,
)
from trainsnap_controller.runtime.registry import standard
from trainsnap_controller.webhooks.review import Answer, Review
from trainsnap_controller.webhooks.trainjobs import TrainJobs

pytestmark = pytest.mark.anyio

JSON = dict[str, Any]
SLURM = Resource("acme.io", "v1", "SlurmRuntime", "slurmruntimes")
TORCH = runtime(ml={"torch": {}})
PLAIN = runtime(ml={"numNodes": 1})
RESERVED = {"env": [{"name": "PET_NNODES", "value": "1"}]}


class Server:
    """An API server with these objects; remembers what was asked for."""

    def __init__(self, *objects: tuple[Resource, JSON], broken: Exception | None = None) -> None:
        self._objects = {(resource, obj["metadata"]["name"]): obj for resource, obj in objects}
        self._broken = broken
        self.asked: list[str] = []

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> JSON:
        self.asked.append(f"{resource.kind} {namespace or ''}/{name}")
        if self._broken is not None:
            raise self._broken
        found = self._objects.get((resource, name))
        if found is None:
            raise NotFound("no such object")
        return copy.deepcopy(found)


def named(name: str, **fields: Any) -> JSON:
    return {"metadata": {"name": name, **fields.pop("metadata", {})}, **fields}


def train_job(spec: Mapping[str, Any] | None = None, *, status: JSON | None = None, kind: str = "TrainingRuntime",
              group: str = "trainer.kubeflow.org", **metadata: Any) -> JSON:  # fmt: skip
    ref = {"name": "rt", "kind": kind, "apiGroup": group}
    obj: JSON = {
        "metadata": {"name": "job", "namespace": "team", "uid": "uid-1", **metadata},
        "spec": {"runtimeRef": ref, "suspend": False, "managedBy": "trainer.kubeflow.org/trainjob-controller"},
    }
    obj["spec"] |= spec or {}
    return obj if status is None else {**obj, "status": status}


def snapshot(spec: JSON | None, *, uid: str = "uid-1", **fields: Any) -> tuple[Resource, JSON]:
    source = {"kind": "TrainingRuntime", "trainJob": {"name": "job", "uid": uid}, **fields.pop("source", {})}
    content = {} if spec is None else {"spec": spec}
    return TRAINING_RUNTIME_SNAPSHOT, named("job", source=source, **content, **fields)


async def judged(server: Server, obj: JSON, old: JSON | None = None) -> Answer:
    question = Review("u", "TrainJob", "CREATE" if old is None else "UPDATE", obj, old)
    return await TrainJobs(server, standard(), {"SlurmRuntime.acme.io": SLURM}).review(question)


def live(spec: JSON, resource: Resource = TRAINING_RUNTIME, **labels: str) -> tuple[Resource, JSON]:
    return resource, named("rt", spec=spec, metadata={"labels": labels})


# Creation


async def test_a_new_job_is_judged_by_the_live_runtime_in_one_read() -> None:
    server = Server(live(TORCH), snapshot(PLAIN))
    answer = await judged(server, train_job({"trainer": RESERVED}))
    assert answer.message.startswith('spec.trainer.env: Invalid value: ["PET_NNODES"]: ')
    assert server.asked == ["TrainingRuntime team/rt"]
    assert (await judged(Server(live(PLAIN)), train_job({"trainer": RESERVED}))).allowed


async def test_a_runtime_of_the_cluster_is_read_without_a_namespace() -> None:
    server = Server(live(PLAIN, CLUSTER_TRAINING_RUNTIME))
    assert (await judged(server, train_job(kind="ClusterTrainingRuntime"))).allowed
    assert server.asked == ["ClusterTrainingRuntime /rt"]


MISSING = [
    pytest.param("TrainingRuntime", "TrainingRuntime 'rt' does not exist in namespace 'team'", id="namespaced"),
    pytest.param("ClusterTrainingRuntime", "ClusterTrainingRuntime 'rt' does not exist in the cluster", id="cluster"),
]


@pytest.mark.parametrize(("kind", "want"), MISSING)
async def test_a_runtime_must_exist_first(kind: str, want: str) -> None:
    answer = await judged(Server(), train_job(kind=kind))
    value = f'{{"name":"rt","apiGroup":"trainer.kubeflow.org","kind":"{kind}"}}'
    assert answer.message == f"spec.runtimeRef: Invalid value: {value}: {want}: create it before the TrainJob"
    assert answer.code == 403


async def test_the_other_kind_is_offered_when_it_has_one_of_the_name() -> None:
    answer = await judged(Server(live(PLAIN)), train_job(kind="ClusterTrainingRuntime"))
    assert answer.message.endswith("or set spec.runtimeRef.kind to TrainingRuntime, of which there is one of this name")


@pytest.mark.parametrize(
    ("kind", "group", "key"),
    [
        ("SlurmRuntime", "trainer.kubeflow.org", "SlurmRuntime.trainer.kubeflow.org"),
        ("TrainingRuntime", "acme.io", "TrainingRuntime.acme.io"),
        ("trainingruntime", "trainer.kubeflow.org", "trainingruntime.trainer.kubeflow.org"),
        ("", "", "."),
    ],
)
async def test_kinds_that_are_not_supported(kind: str, group: str, key: str) -> None:
    server = Server()
    answer = await judged(server, train_job(kind=kind, group=group))
    assert f"unsupported runtime: {key}; " in answer.message
    assert "ClusterTrainingRuntime.trainer.kubeflow.org, SlurmRuntime.acme.io, TrainingRuntime" in answer.message
    assert server.asked == []


async def test_a_job_without_a_spec() -> None:
    answer = await judged(Server(), {"metadata": {"name": "job", "namespace": "team"}})
    assert answer.message == "spec.runtimeRef: Required value: must name the runtime to start from"


async def test_runtimes_of_other_controllers_must_exist_and_are_not_looked_into() -> None:
    obj = train_job({"trainer": RESERVED}, kind="SlurmRuntime", group="acme.io")
    assert (await judged(Server((SLURM, named("rt", nodes="x"))), obj)).allowed
    assert "SlurmRuntime 'rt' does not exist in namespace 'team'" in (await judged(Server(), obj)).message


async def test_rules_without_a_runtime_hold_for_runtimes_of_other_controllers_too() -> None:
    obj = train_job({"runtimePatches": [{"manager": "bad"}]}, kind="SlurmRuntime", group="acme.io")
    answer = await judged(Server((SLURM, named("rt"))), obj)
    assert answer.message.startswith('spec.runtimePatches.manager: Invalid value: "bad": ')


async def test_a_runtime_that_nobody_checked_is_checked_with_its_first_job() -> None:
    """A label can switch the admission of runtimes off; jobs do not start from what is broken all the same."""
    broken = runtime(rjob("node", box("main")), ml={"numNodes": 1})
    answer = await judged(Server(live(broken)), train_job())
    path = "spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers"
    want = f'spec.runtimeRef: Invalid value: the runtime has {path}: Invalid value: ["main"]: must contain a container'
    assert answer.message.startswith(want)
    assert (await judged(Server(snapshot(broken)), train_job(), train_job(PAUSED))).allowed


async def test_several_rules_at_once() -> None:
    spec = {"trainer": RESERVED, "runtimePatches": [{"manager": "bad"}], "initializer": {"dataset": {}}}
    message = (await judged(Server(live(TORCH)), train_job(spec))).message
    assert message.startswith("[spec.runtimePatches.manager: ") and message.endswith("]")
    assert ", spec.trainer.env: Invalid value: " in message and ", spec.runtimeRef: Invalid value: " in message


async def test_only_what_a_rule_looks_at_is_read() -> None:
    spec = runtime(rjob("node", box(), priorityClassName="gold"), ml={"mpi": {}}, gang={"volcano": {}})
    server = Server(live(spec), (PRIORITY_CLASS, named("gold")))
    assert (await judged(server, train_job())).allowed
    assert server.asked == ["TrainingRuntime team/rt", "PriorityClass /gold"]
    assert "there is no PriorityClass 'gold'" in (await judged(Server(live(spec)), train_job())).message


@pytest.mark.parametrize("reads", [Disconnected("the network is down")], ids=["network"])
async def test_what_cannot_be_read_is_said_and_is_not_the_users_fault(reads: Exception) -> None:
    answer = await judged(Server(broken=reads), train_job())
    assert answer.code == 503
    assert answer.message.startswith("spec.runtimeRef: the TrainJob cannot be checked now, try again: ")


# Updates

PAUSED = {"suspend": True}
INITIALIZED: JSON = {"initializer": {"dataset": {}}}


async def test_an_old_job_is_judged_by_its_snapshot() -> None:
    server = Server(live(TORCH), snapshot(PLAIN))
    assert (await judged(server, train_job({"trainer": RESERVED}), train_job(PAUSED))).allowed
    assert server.asked == ["TrainingRuntimeSnapshot team/job"]
    answer = await judged(Server(live(PLAIN), snapshot(TORCH)), train_job({"trainer": RESERVED}), train_job(PAUSED))
    assert answer.message.startswith("spec.trainer.env: ")


async def test_with_a_snapshot_the_runtime_may_be_gone() -> None:
    assert (await judged(Server(snapshot(PLAIN)), train_job(), train_job(PAUSED))).allowed


@pytest.mark.parametrize(
    "found",
    [
        pytest.param([], id="none yet"),
        pytest.param([snapshot(PLAIN, uid="uid-of-an-earlier-job")], id="an earlier job's"),
        pytest.param([snapshot(PLAIN, source={"trainJob": None})], id="nobody's"),
    ],
)
async def test_without_a_snapshot_of_its_own_the_live_runtime_counts(found: list[tuple[Resource, JSON]]) -> None:
    server = Server(live(TORCH), *found)
    answer = await judged(server, train_job({"trainer": RESERVED}), train_job())
    assert answer.message.startswith("spec.trainer.env: ")
    assert server.asked == ["TrainingRuntimeSnapshot team/job", "TrainingRuntime team/rt"]


ALONE = [
    pytest.param({"status": {"conditions": [{"type": "Complete", "status": "True"}]}}, id="complete"),
    pytest.param({"status": {"conditions": [{"type": "Failed", "status": "True"}]}}, id="failed"),
    pytest.param({"deletionTimestamp": "2026-01-01T00:00:00Z"}, id="terminating"),
    pytest.param({"spec": {"managedBy": "kueue.x-k8s.io/multikueue"}}, id="managed elsewhere"),
]


@pytest.mark.parametrize("options", ALONE)
async def test_jobs_that_need_no_runtime_any_more(options: JSON) -> None:
    spec = options.get("spec", {})
    rest = {key: value for key, value in options.items() if key != "spec"}
    server = Server()
    new = train_job({**spec, "trainer": RESERVED}, **rest)
    assert (await judged(server, new, train_job({**spec, "suspend": True}, **rest))).allowed
    assert server.asked == ["TrainingRuntimeSnapshot team/job"]
    bad = train_job({**spec, "suspend": True, "runtimePatches": [{"manager": "bad"}]}, **rest)
    assert "spec.runtimePatches.manager" in (await judged(Server(), bad, train_job(spec, **rest))).message


async def test_an_opaque_snapshot_is_not_looked_into() -> None:
    found = snapshot(None, opaque={"spec": {"nodes": 1}})
    assert (await judged(Server(found), train_job({"trainer": RESERVED}), train_job())).allowed


async def test_an_update_is_not_blamed_for_what_was_wrong_before() -> None:
    server = Server(snapshot(TORCH))
    wrong = {"trainer": RESERVED}
    assert (await judged(server, train_job(wrong), train_job({**wrong, **PAUSED}))).allowed
    both = {**wrong, **INITIALIZED}
    answer = await judged(server, train_job(both), train_job(wrong))
    assert answer.message.startswith("spec.runtimeRef: Invalid value") and "PET_NNODES" not in answer.message


async def test_a_lost_snapshot_and_runtime_do_not_keep_a_job_from_pausing() -> None:
    answer = await judged(Server(), train_job(PAUSED), train_job())
    assert answer.allowed
    assert "TrainingRuntime 'rt' does not exist" in answer.warnings[0]


# Patches while the job runs

PATCHED = {"runtimePatches": [{"manager": "acme.io/x", "time": "2026-01-01T00:00:00Z"}]}


def job_set(*active: int, uid: str = "uid-1") -> tuple[Resource, JSON]:
    counts = [{"name": f"j{index}", "active": count} for index, count in enumerate(active)]
    owners = [{"controller": True, "uid": uid}]
    return JOB_SET, named("job", status={"replicatedJobsStatus": counts}, metadata={"ownerReferences": owners})


SUSPEND_TABLE = [
    pytest.param(False, False, [], 1, id="running before and after"),
    pytest.param(False, False, [job_set(0)], 1, id="running before and after, no pod"),
    pytest.param(None, None, [], 1, id="not said before and after counts as running"),
    pytest.param(True, True, [], 0, id="paused, no JobSet"),
    pytest.param(True, True, [job_set(0, 0)], 0, id="paused, no pod"),
    pytest.param(True, False, [job_set(0)], 0, id="resumed in the same request"),
    pytest.param(False, True, [job_set(0)], 0, id="paused in the same request"),
    pytest.param(True, True, [job_set(2, 0, 1)], 2, id="paused, pods of two jobs are still there"),
    pytest.param(True, False, [job_set(1)], 1, id="resumed, a pod is still there"),
    pytest.param(False, True, [job_set(1)], 1, id="paused in the same request, a pod is still there"),
    pytest.param(True, True, [job_set(1, uid="other")], 0, id="somebody else's JobSet says nothing"),
]


@pytest.mark.parametrize(("before", "after", "found", "want"), SUSPEND_TABLE)
async def test_when_patches_may_change(
    before: bool | None, after: bool | None, found: list[tuple[Resource, JSON]], want: int
) -> None:
    server = Server(snapshot(PLAIN), *found)
    answer = await judged(server, train_job({**PATCHED, "suspend": after}), train_job({"suspend": before}))
    assert answer.message.count("spec.runtimePatches: Forbidden: ") == want
    assert answer.allowed is (want == 0)
    reads_job_set = before is True or after is True
    assert ("JobSet team/job" in server.asked) is reads_job_set


async def test_a_job_set_is_not_read_when_patches_stay() -> None:
    server = Server(snapshot(PLAIN), job_set(3))
    assert (await judged(server, train_job(PATCHED), train_job({**PATCHED, **PAUSED}))).allowed
    assert server.asked == ["TrainingRuntimeSnapshot team/job"]


# Warnings

DEPRECATED: Any = {"trainer.kubeflow.org/support": "deprecated"}
URL = "https://www.kubeflow.org/docs/components/trainer/operator-guides/runtime/#runtime-deprecation-policy"


async def test_a_deprecated_runtime_of_the_cluster_is_warned_of() -> None:
    want = (f"spec.runtimeRef: ClusterTrainingRuntime 'rt' is deprecated and will be removed; see {URL}",)
    new = train_job(kind="ClusterTrainingRuntime")
    assert (await judged(Server(live(PLAIN, CLUSTER_TRAINING_RUNTIME, **DEPRECATED)), new)).warnings == want
    source = {"kind": "ClusterTrainingRuntime", "labels": DEPRECATED}
    assert (await judged(Server(snapshot(PLAIN, source=source)), new, train_job(PAUSED))).warnings == want
    assert (await judged(Server(live(PLAIN, **DEPRECATED)), train_job())).warnings == ()
    other = {"trainer.kubeflow.org/support": "phasing-out"}
    assert (await judged(Server(live(PLAIN, CLUSTER_TRAINING_RUNTIME, **other)), new)).warnings == ()
