# SPDX-License-Identifier: Apache-2.0
"""``trainsnap migrate`` on a cluster that the reference has left: there, further, and back."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from support.cluster import Cluster, eventually
from support.eras import remove_webhooks
from support.identity import service_account, user_with
from support.legacy import config_map, finish, job_set, left_by_reference, live_runtime
from support.migrating import Migrate
from support.objects import image_of, runtime, runtime_spec, train_job
from support.operator import Operator
from support.plane import Target
from trainsnap_api.transport import ApiError, Transport
from trainsnap_api.transport import resources as r
from trainsnap_api.transport.resources import (
    CONFIG_MAP,
    JOB_SET,
    TRAIN_JOB,
    TRAINING_RUNTIME,
    TRAINING_RUNTIME_SNAPSHOT,
)
from trainsnap_controller.migration.act import Actor
from trainsnap_controller.migration.decide import Result, to_hand_back
from trainsnap_controller.migration.facts import Facts
from trainsnap_controller.migration.legacy import judge
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.snapshot.document import Origin, snapshot_of

pytestmark = [pytest.mark.anyio, pytest.mark.api]

JSON = dict[str, Any]


@pytest.fixture
async def migrate(stopped: Operator, plane: Target, admin: Transport, namespace: str, tmp_path: Path) -> Migrate:
    """The command, on the test's namespace; the operator does not run."""
    if stopped.running:
        stopped.stop()
    await remove_webhooks(admin)
    await anyio.sleep(0.5)
    return Migrate(plane.kubeconfig, namespace, tmp_path)


async def state(cluster: Cluster) -> dict[str, Any]:
    """Everything that is not an event, by kind and name."""
    kinds = (TRAIN_JOB, JOB_SET, CONFIG_MAP, TRAINING_RUNTIME_SNAPSHOT)
    return {
        f"{kind.kind} {obj['metadata']['name']}": obj
        for kind in kinds
        for obj in (await cluster.api.list(kind, cluster.namespace)).items
    }


async def leave_everything(cluster: Cluster) -> None:
    """Jobs in every state: running, paused, not built yet, finished, being deleted, broken, without ConfigMap."""
    namespace = cluster.namespace
    await cluster.create(runtime("rt", namespace, image="acme/train:1"))
    await left_by_reference(cluster, train_job("running", namespace))
    await left_by_reference(cluster, train_job("paused", namespace, suspend=True))
    await left_by_reference(cluster, train_job("created", namespace, suspend=True), with_job_set=False)
    await left_by_reference(cluster, train_job("finished", namespace))
    await finish(cluster, "finished")
    await left_by_reference(cluster, train_job("older", namespace), with_config_map=False)
    deleting = train_job("deleting", namespace)
    deleting["metadata"]["finalizers"] = ["acme.org/hold"]
    await left_by_reference(cluster, deleting)
    await cluster.delete(TRAIN_JOB, "deleting")
    broken, _, _ = await left_by_reference(cluster, train_job("broken", namespace), with_config_map=False)
    await cluster.create(config_map(broken, text="{{"))
    await cluster.patch(TRAINING_RUNTIME, "rt", {"spec": runtime_spec(image="acme/train:2")})


@pytest.mark.timeout(400)
async def test_there_and_back(migrate: Migrate, stopped: Operator, cluster: Cluster) -> None:
    await leave_everything(cluster)
    before = await state(cluster)

    planned = await migrate("plan")
    assert planned.code == 1, planned.err
    assert {name: row["result"] for name, row in planned.jobs.items()} == {
        "running": "todo", "paused": "todo", "created": "todo", "finished": "nothing", "older": "todo",
        "deleting": "nothing", "broken": "problem",
    }  # fmt: skip
    assert "would store it as it is" in planned.result("running")[1]
    assert "cannot be read: line" in planned.result("broken")[1]
    assert "by the operator: there is no ConfigMap" in planned.result("older")[1]
    assert await state(cluster) == before

    rehearsed = await migrate("apply", "--dry-run")
    assert {name: row["result"] for name, row in rehearsed.jobs.items()} == {
        name: row["result"] for name, row in planned.jobs.items()
    }
    assert await state(cluster) == before

    for _ in range(2):
        applied = await migrate("apply")
        assert {name for name, row in applied.jobs.items() if row["result"] == "done"} == {
            "running",
            "paused",
            "created",
        }
    after = await state(cluster)
    made = {key for key in after if key not in before}
    assert made == {f"TrainingRuntimeSnapshot {name}" for name in ("running", "paused", "created")}
    assert {key: after[key] for key in before} == before, "nothing of the reference's was touched"
    for key in made:
        assert (after[key]["source"]["origin"], image_of(after[key])) == ("ConfigMap", "acme/train:1")

    refused = await migrate("finalize")
    assert (refused.code, {row["name"] for row in refused.report["jobs"]}) == (1, {"broken"})
    assert refused.report["remark"] == "nothing was deleted, since 1 checks failed"
    assert {key: value for key, value in (await state(cluster)).items() if "ConfigMap" in key} == {
        key: value for key, value in before.items() if "ConfigMap" in key
    }, "one problem, and nothing is deleted"

    # The operator takes over while the command goes on; a human mends the broken one.
    stopped.start()
    job = await cluster.get(TRAIN_JOB, "broken")
    await cluster.patch(
        CONFIG_MAP, "broken-runtime-snapshot", {"data": config_map(job, await live_runtime(cluster, job))["data"]}
    )
    await cluster.create(train_job("new", cluster.namespace))
    await cluster.until(TRAINING_RUNTIME_SNAPSHOT, "new")
    assert (await migrate("apply")).code == 0
    await cluster.until(TRAINING_RUNTIME_SNAPSHOT, "older")
    verified = await migrate("verify")
    assert (verified.code, verified.result("running")) == (
        0, ("done", "builds the same objects from ConfigMap and snapshot"),
    )  # fmt: skip
    for name in ("running", "paused"):
        assert await cluster.get(JOB_SET, name) == before[f"JobSet {name}"], (
            "not one field, the resourceVersion included"
        )

    finalized = await migrate("finalize")
    assert finalized.code == 0, finalized.out
    left = {key for key in await state(cluster) if "ConfigMap" in key}
    assert left == {"ConfigMap deleting-runtime-snapshot", "ConfigMap finished-runtime-snapshot"}

    back = await migrate("rollback")
    assert back.code == 0, back.out
    for name in ("running", "paused", "created", "older", "broken", "new"):
        view = Job.from_json(await cluster.get(TRAIN_JOB, name))
        written = await cluster.get(CONFIG_MAP, f"{name}-runtime-snapshot")
        verdict = judge(written, view, view.runtime_ref)
        assert verdict.runtime is not None
        assert verdict.runtime["spec"] == (await cluster.get(TRAINING_RUNTIME_SNAPSHOT, name))["spec"]
        assert [entry["manager"] for entry in written["metadata"]["managedFields"]] == ["trainer"]
        assert written["metadata"]["ownerReferences"] == [view.owner_reference]
    settled = await state(cluster)
    assert (await migrate("rollback")).code == 0
    again = await state(cluster)
    assert {key: again[key]["metadata"]["resourceVersion"] for key in again if "ConfigMap" in key} == {
        key: settled[key]["metadata"]["resourceVersion"] for key in settled if "ConfigMap" in key
    }, "what is there already is not written again"
    assert (await migrate("verify")).code == 0

    lines = [json.loads(line) for line in (migrate.folder / "journal.jsonl").read_text().splitlines()]
    assert [line["operation"] for line in lines if line["event"] == "ended"] == [
        "apply", "apply", "finalize", "apply", "finalize", "rollback", "rollback",
    ]  # fmt: skip
    told = await migrate("status")
    assert any("last run by the journal: rollback, ended" in fact for fact in told.report["facts"])


async def test_what_is_there_already_decides(migrate: Migrate, plane: Target, cluster: Cluster) -> None:
    await cluster.create(runtime("rt", cluster.namespace))
    for name in ("same", "other", "foreign"):
        await left_by_reference(cluster, train_job(name, cluster.namespace))
    assert (await migrate("apply")).code == 0
    async with service_account(str(plane.kubeconfig), cluster.api, "kubeflow-system", "trainsnap") as api:
        for name, spec in (("other", runtime_spec(image="acme/evil:1")), ("foreign", runtime_spec())):
            snapshot = await cluster.get(TRAINING_RUNTIME_SNAPSHOT, name)
            await api.delete(TRAINING_RUNTIME_SNAPSHOT, name, cluster.namespace)
            source = (
                snapshot["source"]
                if name == "other"
                else {**snapshot["source"], "trainJob": {"name": name, "uid": "x"}}
            )
            metadata = {key: snapshot["metadata"][key] for key in ("name", "namespace", "ownerReferences")}
            await api.create(
                TRAINING_RUNTIME_SNAPSHOT, {**snapshot, "metadata": metadata, "source": source, "spec": spec}
            )
    before = await state(cluster)
    applied = await migrate("apply")
    assert applied.result("same")[0] == "done"
    assert applied.result("other")[0] == "problem"
    assert "other content than the ConfigMap: spec.template" in applied.result("other")[1]
    assert "of an earlier TrainJob" in applied.result("foreign")[1]
    assert await state(cluster) == before


RECORDED = [
    pytest.param(json.loads(path.read_text()), id=path.stem)
    for path in sorted((Path(__file__).parents[1] / "golden" / "legacy-configmaps").glob("*.json"))
]


@pytest.mark.parametrize("recorded", RECORDED)
async def test_recorded_configmaps_build_what_their_runtimes_build(
    migrate: Migrate, cluster: Cluster, recorded: JSON
) -> None:
    runtime_of, text = recorded["runtime"], recorded["configMap"]["data"]["runtime"]
    kind, name = runtime_of["kind"], runtime_of["metadata"]["name"]
    where = cluster.namespace if kind == "TrainingRuntime" else None
    live = await cluster.create(runtime(name, where, spec=runtime_of["spec"]))
    job = await cluster.create(train_job("job", cluster.namespace, name, kind=kind))
    await cluster.create(config_map(job, text=text))
    try:
        assert (await migrate("apply")).result("job")[0] == "done"
        assert (await migrate("verify")).result("job") == (
            "done", "builds the same objects from ConfigMap and snapshot",
        )  # fmt: skip
        snapshot = await cluster.get(TRAINING_RUNTIME_SNAPSHOT, "job")
        assert job_set(job, snapshot["spec"]) == job_set(job, live["spec"])
        assert snapshot["source"]["uid"] == runtime_of["metadata"]["uid"]
    finally:
        if where is None:
            await cluster.api.delete(r.CLUSTER_TRAINING_RUNTIME, name)


async def test_later_jobs_and_configmaps_are_not_believed(migrate: Migrate, cluster: Cluster) -> None:
    await cluster.create(runtime("rt", cluster.namespace))
    await left_by_reference(cluster, train_job("job", cluster.namespace))
    planned = await migrate("plan", "--legacy-before", "2020-01-01T00:00:00Z")
    assert planned.result("job")[0] == "problem"
    assert "the job is not from before legacyBefore (2020-01-01T00:00:00Z)" in planned.result("job")[1]
    assert (await migrate("plan")).result("job")[0] == "todo"


async def test_a_snapshot_that_says_more_is_found_before_the_configmap_goes(
    migrate: Migrate, plane: Target, cluster: Cluster
) -> None:
    """Such as one from a runtime that was edited since, which was taken while ConfigMaps were ignored."""
    await cluster.create(runtime("rt", cluster.namespace))
    job, kept, _ = await left_by_reference(cluster, train_job("job", cluster.namespace))
    edited = await live_runtime(cluster, job)
    pod = edited["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["hostNetwork"] = True
    pod["containers"][0]["env"] = [{"name": "MODE", "value": "other"}]
    taken = snapshot_of(Job.from_json(job), edited, origin=Origin.LEGACY_JOB, captured_at=datetime.now(UTC))
    async with operator_identity(migrate, cluster) as api:
        await api.create(TRAINING_RUNTIME_SNAPSHOT, taken)
    for operation in ("plan", "apply", "verify", "finalize"):
        result, detail = (await migrate(operation)).result("job")
        assert result == "problem", operation
        assert "hostNetwork: was added" in detail
        assert "containers[0].env: was added" in detail
    assert await cluster.get(CONFIG_MAP, "job-runtime-snapshot") == kept
    assert "over the one that is there: it has other content" in (await migrate("rollback")).result("job")[1]
    written = await cluster.get(CONFIG_MAP, "job-runtime-snapshot")
    assert "hostNetwork: true" in written["data"]["runtime"]
    assert (await migrate("verify")).result("job")[0] == "done"


async def test_a_configmap_that_somebody_else_put_there_meanwhile_stays(migrate: Migrate, cluster: Cluster) -> None:
    await cluster.create(runtime("rt", cluster.namespace))
    job = await cluster.create(train_job("job", cluster.namespace))
    view, live = Job.from_json(job), await live_runtime(cluster, job)
    taken = snapshot_of(view, live, origin=Origin.RUNTIME, captured_at=datetime.now(UTC))
    changed = await cluster.create(config_map(job, text="{{"))
    async with operator_identity(migrate, cluster) as api:
        over, new = to_hand_back(Facts(view, changed, taken)), to_hand_back(Facts(view, None, taken))
        await cluster.delete(CONFIG_MAP, "job-runtime-snapshot")
        precious = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"precious": "1"},
                    "metadata": {"name": "job-runtime-snapshot", "namespace": cluster.namespace}}  # fmt: skip
        theirs = await cluster.create(precious)
        for step in (over, new):
            assert step.document is not None
            told = await Actor(api).hand_back(step)
            assert told.result is Result.PROBLEM
            assert "run it again" in told.detail
        assert await cluster.get(CONFIG_MAP, "job-runtime-snapshot") == theirs
        await cluster.delete(CONFIG_MAP, "job-runtime-snapshot")
        assert (await Actor(api).hand_back(over)).result is Result.PROBLEM, "it is not made anew either"
        assert (await Actor(api).hand_back(new)).result is Result.DONE


async def test_a_journal_of_another_cluster_ends_it_before_anything_is_written(
    migrate: Migrate, cluster: Cluster, admin: Transport
) -> None:
    journal = migrate.folder / "journal.jsonl"
    journal.write_text('{"event":"opened","cluster":"another"}\n')
    before = await admin.get(CONFIG_MAP, "trainsnap-state", "kubeflow-system")
    refused = await migrate("apply", "--legacy-before", "2001-01-01T00:00:00Z")
    assert (refused.code, refused.out) == (1, "")
    assert "is of another cluster" in refused.err
    assert await admin.get(CONFIG_MAP, "trainsnap-state", "kubeflow-system") == before
    told = await migrate("status")
    assert (told.code, told.out) == (1, "")
    assert "is of another cluster" in told.err


async def test_what_the_guide_says_is_enough_to_plan_is_enough(
    migrate: Migrate, plane: Target, cluster: Cluster, admin: Transport, tmp_path: Path
) -> None:
    await cluster.create(runtime("rt", cluster.namespace))
    await left_by_reference(cluster, train_job("job", cluster.namespace))
    rules = [
        {"apiGroups": ["trainer.kubeflow.org"], "verbs": ["get", "list"],
         "resources": ["trainjobs", "trainingruntimesnapshots"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    ]  # fmt: skip
    name = f"planner-{cluster.namespace}"
    role = {"apiVersion": r.CLUSTER_ROLE.api_version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}
    await admin.create(r.CLUSTER_ROLE, role)
    try:
        async with user_with(str(plane.kubeconfig), admin, cluster.namespace, "planner", name):
            token = await admin.service_account_token("planner", cluster.namespace, seconds=600)
        config = yaml.safe_load(plane.kubeconfig.read_text())
        config["users"] = [{"name": user["name"], "user": {"token": token.token}} for user in config["users"]]
        file = tmp_path / "planner.kubeconfig"
        file.write_text(yaml.safe_dump(config))
        planned = await Migrate(file, cluster.namespace, tmp_path)("plan", "--legacy-before", "now")
    finally:
        await admin.delete(r.CLUSTER_ROLE, name)
    assert planned.code == 0, planned.err
    assert planned.result("job")[0] == "todo"
    facts = " ".join(planned.report["facts"])
    assert "the reference may still be running: you may not look: " in facts
    assert "contents are not tried" in facts


async def test_every_field_that_would_be_lost_is_named(migrate: Migrate, cluster: Cluster) -> None:
    await cluster.create(runtime("rt", cluster.namespace))
    job = await cluster.create(train_job("job", cluster.namespace))
    text = config_map(job, await live_runtime(cluster, job))["data"]["runtime"]
    text = text.replace("numNodes: 1", "numNodes: 1\n    nodes: 1").replace("replicas: 1", "replicas: one")
    await cluster.create(config_map(job, text=text))
    result, detail = (await migrate("apply")).result("job")
    assert result == "problem"
    assert 'unknown field "spec.mlPolicy.nodes"' in detail
    assert await cluster.find(TRAINING_RUNTIME_SNAPSHOT, "job") is None


async def test_a_refused_value_is_named_alike_before_and_by_the_write(migrate: Migrate, cluster: Cluster) -> None:
    """Of the second and the third content of a shape ``apply`` makes no dry run."""
    spec = runtime_spec()
    spec["template"]["spec"] |= {"startupPolicy": {"startupPolicyOrder": "AnyOrder"}, "ttlSecondsAfterFinished": 60}
    await cluster.create(runtime("rt", cluster.namespace, spec=spec))
    for name, change in (
        ("a-good", ("", "")),
        ("b-bound", ("ttlSecondsAfterFinished: 60", "ttlSecondsAfterFinished: -1")),
        ("c-enum", ("AnyOrder", "Sideways")),
        ("d-good", ("acme/train:1", "acme/train:2")),
    ):
        job = await cluster.create(train_job(name, cluster.namespace))
        text = config_map(job, await live_runtime(cluster, job))["data"]["runtime"]
        assert change[0] in text
        await cluster.create(config_map(job, text=text.replace(*change)))
    planned = await migrate("plan")
    rehearsed = await migrate("apply", "--dry-run")
    applied = await migrate("apply", "--parallel", "1")
    for name, field in (("b-bound", "ttlSecondsAfterFinished"), ("c-enum", "startupPolicyOrder")):
        result, detail = applied.result(name)
        assert result == "problem"
        assert "would not store it as it is: spec." in detail
        assert field in detail
        assert planned.result(name) == rehearsed.result(name) == (result, detail)
        assert await cluster.find(TRAINING_RUNTIME_SNAPSHOT, name) is None
    for name, image in (("a-good", "acme/train:1"), ("d-good", "acme/train:2")):
        assert applied.result(name)[0] == "done"
        assert image_of(await cluster.get(TRAINING_RUNTIME_SNAPSHOT, name)) == image


async def test_a_reference_that_still_runs_is_reported(migrate: Migrate, cluster: Cluster, admin: Transport) -> None:
    name = "kubeflow-trainer-controller-manager"
    metadata = {"name": name, "namespace": "kubeflow-system"}
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
                  "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": pod}}  # fmt: skip
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"holderIdentity": f"{name}-5d9_ab"},
             "metadata": {"name": "trainer.kubeflow.org", "namespace": "kubeflow-system"}}  # fmt: skip
    await admin.create(r.DEPLOYMENT, deployment)
    try:
        # An operator that led may have left the Lease, given back.
        await admin.apply(r.LEASE, lease, field_manager="test")
        facts = " ".join((await migrate("plan")).report["facts"])
        assert f"Deployment kubeflow-system/{name} exists" in facts
        assert f"is held by {name}-5d9_ab" in facts
        refused = await migrate("finalize")
        assert refused.code == 1
        assert "the reference may still need the ConfigMaps" in refused.err
    finally:
        await admin.delete(r.DEPLOYMENT, name, "kubeflow-system")
        await admin.delete(r.LEASE, "trainer.kubeflow.org", "kubeflow-system")


async def test_who_may_not_write_is_told_which_right_is_missing(
    migrate: Migrate, plane: Target, cluster: Cluster, admin: Transport, tmp_path: Path
) -> None:
    async with user_with(str(plane.kubeconfig), admin, cluster.namespace, "somebody", "edit"):
        token = await admin.service_account_token("somebody", cluster.namespace, seconds=600)
    config = yaml.safe_load(plane.kubeconfig.read_text())
    config["users"] = [{"name": user["name"], "user": {"token": token.token}} for user in config["users"]]
    file = tmp_path / "somebody.kubeconfig"
    file.write_text(yaml.safe_dump(config))
    refused = await Migrate(file, cluster.namespace, tmp_path)("apply")
    assert refused.code == 1
    assert (
        "you need the verb create on serviceaccounts/token, name trainsnap, in namespace kubeflow-system" in refused.err
    )
    assert "Traceback" not in refused.err


async def test_a_namespace_that_does_not_exist_is_said(migrate: Migrate) -> None:
    for operation in ("plan", "apply", "status"):
        found = await Migrate(migrate.kubeconfig, "no-such-place", migrate.folder)(operation)
        assert (found.code, found.out) == (1, "")
        assert "namespace 'no-such-place' does not exist" in found.err


def command(migrate: Migrate, *arguments: str) -> list[str]:
    """The command as a process of its own, whose environment is this one's."""
    code = "import sys; from trainsnap_controller.cli import main; sys.exit(main())"
    return [sys.executable, "-P", "-c", code, "migrate", *arguments, "--kubeconfig", str(migrate.kubeconfig),
            "-n", migrate.namespace]  # fmt: skip


@pytest.mark.timeout(300)
async def test_several_at_once_one_interrupted_one_unheard_and_the_operator(
    migrate: Migrate, stopped: Operator, cluster: Cluster
) -> None:
    await cluster.create(runtime("rt", cluster.namespace, image="acme/train:1"))
    names = [f"job-{number:02}" for number in range(24)]
    for name in names:
        await left_by_reference(cluster, train_job(name, cluster.namespace))
    await cluster.patch(TRAINING_RUNTIME, "rt", {"spec": runtime_spec(image="acme/train:2")})
    before = await state(cluster)

    for number, name in ((signal.SIGTERM, "term"), (signal.SIGHUP, "hup"), (signal.SIGINT, "journal")):
        journal = migrate.folder / f"{name}.jsonl"
        slow = command(migrate, "apply", "-o", "json", "--qps", "4", "--parallel", "2", "--journal", str(journal))
        async with await anyio.open_process(slow, stdin=subprocess.DEVNULL) as process:
            await has_done_a_job(journal)
            process.send_signal(number)
            assert await process.wait() == 130
            assert process.stderr is not None
            assert process.stdout is not None
            assert b"Traceback" not in b"".join([part async for part in process.stderr])
            whole = json.loads(b"".join([part async for part in process.stdout]))
            assert whole["remark"] == "broken off: interrupted"
            assert len(whole["jobs"]) == whole["sums"]["jobs"] < len(names)
    told = await migrate("status")
    assert any("begun and not ended" in fact for fact in told.report["facts"])

    unheard = " ".join(f"'{part}'" for part in command(migrate, "plan", "-o", "html", "--all"))
    ran = await anyio.run_process(["bash", "-c", f"{unheard} | true"], check=False, stdin=subprocess.DEVNULL)
    assert b"Traceback" not in ran.stderr

    stopped.start()
    found: list[JSON] = []

    async def apply(number: int) -> None:
        each = command(migrate, "apply", "-o", "json", "--journal", str(migrate.folder / f"{number}.jsonl"))
        ran = await anyio.run_process(each, check=False, stdin=subprocess.DEVNULL)
        assert ran.returncode == 0, ran.stderr
        found.append(json.loads(ran.stdout)["sums"])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(apply, 1)
        tasks.start_soon(apply, 2)
    assert found == [{"jobs": 24, "todo": 0, "done": 24, "nothing": 0, "problem": 0}] * 2
    for name in names:
        assert image_of(await cluster.get(TRAINING_RUNTIME_SNAPSHOT, name)) == "acme/train:1"
        assert await cluster.get(JOB_SET, name) == before[f"JobSet {name}"]


async def has_done_a_job(journal: Path) -> None:
    """Return when a run has written that it is done with a job."""
    await eventually(lambda: contents(journal), lambda text: '"job"' in text, what="a job is done", seconds=60)


async def contents(path: Path) -> str:
    """A file's text so far."""
    return path.read_text() if path.exists() else ""  # noqa: ASYNC240


async def test_reports(migrate: Migrate, cluster: Cluster) -> None:
    await leave_everything(cluster)
    table = await migrate("plan", output="table")
    assert f"{cluster.namespace}/running" in table.out
    assert "7 jobs: 4 to do, 2 nothing to do, 1 problem" in table.out
    page = await migrate("plan", output="html")
    assert page.out.startswith("<!doctype html>")
    assert "src=" not in page.out
    assert "<td>broken</td>" in page.out


KILLED = Path(__file__).parents[1] / "support" / "migrate_killed.py"


@pytest.mark.timeout(900)
async def test_killed_at_every_write_boundary_it_ends_in_the_same_state(
    migrate: Migrate, plane: Target, cluster: Cluster, tmp_path: Path
) -> None:
    names = [f"job-{number:02}" for number in range(16)]
    for image in ("acme/train:1", "acme/train:2"):
        await cluster.create(runtime(image[-1], cluster.namespace, image=image))
    for number, name in enumerate(names):
        wanted = train_job(name, cluster.namespace, str(1 + number % 2), suspend=number % 3 == 0)
        await left_by_reference(cluster, wanted)
    await cluster.patch(TRAINING_RUNTIME, "1", {"spec": runtime_spec(image="acme/train:9")})
    before = await state(cluster)
    kills = 0
    for operation in ("apply", "finalize", "rollback"):
        command = [sys.executable, "-P", str(KILLED), str(plane.kubeconfig), cluster.namespace, operation]
        ran = await anyio.run_process([*command, str(tmp_path / "j.jsonl")], check=False, stdin=subprocess.DEVNULL)
        assert ran.returncode == 0, ran.stderr.decode()
        kills += int(ran.stdout)
        after = await state(cluster)
        snapshots = [obj for key, obj in after.items() if obj["kind"] == "TrainingRuntimeSnapshot"]
        assert [obj["metadata"]["name"] for obj in snapshots] == names
        for number, snapshot in enumerate(snapshots):
            assert image_of(snapshot) == f"acme/train:{1 + number % 2}"
        for key in before:
            if not key.startswith("ConfigMap"):
                assert after[key] == before[key]
        config_maps = [key for key in after if key.startswith("ConfigMap")]
        assert len(config_maps) == (0 if operation == "finalize" else len(names))
        if operation == "apply":
            assert {key: after[key] for key in config_maps} == {key: before[key] for key in config_maps}
        else:
            assert (await migrate("verify")).code == 0
    assert kills >= 200, kills
    undisturbed = await migrate("apply")
    assert undisturbed.report["sums"] == {"jobs": 16, "todo": 0, "done": 16, "nothing": 0, "problem": 0}


SLURM = {"apiVersion": "acme.org/v1", "kind": "SlurmRuntime", "metadata": {"name": "slurm", "generation": 3},
         "spec": {"partition": "gpu", "nothing": None, "deep": [{"a": [1, 1.5, "1", True, {}]}], "numNodes": "many"},
         "extra": {"kept": "too"}}  # fmt: skip


async def test_an_unknown_kind_of_runtime_is_kept_whole_once_it_is_configured(
    migrate: Migrate, cluster: Cluster, tmp_path: Path
) -> None:
    """Nothing of it is pruned, coerced or taken for an absent field, null included."""
    wanted = train_job("job", cluster.namespace, "slurm", kind="SlurmRuntime")
    wanted["spec"]["runtimeRef"]["apiGroup"] = "acme.org"
    job = await cluster.create(wanted)
    await cluster.create(config_map(job, SLURM))
    before = await state(cluster)
    for operation in ("plan", "apply"):
        refused = await migrate(operation)
        assert refused.result("job") == (
            "problem",
            "SlurmRuntime.acme.org is not a kind that trainsnap is configured for",
        )
    assert await state(cluster) == before

    kind = {"group": "acme.org", "version": "v1", "kind": "SlurmRuntime", "plural": "slurmruntimes"}
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump({"apiVersion": "config.trainer.kubeflow.org/v1alpha1", "kind": "Configuration",
                                      "snapshots": {"opaqueRuntimes": [kind]}}))  # fmt: skip
    assert "would store it as it is" in (await migrate("plan", "--config", str(config))).result("job")[1]
    for _ in range(2):
        assert (await migrate("apply", "--config", str(config))).result("job")[0] == "done"
    snapshot = await cluster.get(TRAINING_RUNTIME_SNAPSHOT, "job")
    assert "spec" not in snapshot
    assert snapshot["opaque"] == {"spec": {"spec": SLURM["spec"], "extra": SLURM["extra"]}}
    source = snapshot["source"]
    assert (source["apiGroup"], source["kind"], source["name"], source["generation"], source["origin"]) == (
        "acme.org", "SlurmRuntime", "slurm", 3, "ConfigMap",
    )  # fmt: skip
    assert (await migrate("verify")).result("job")[0] == "done"
    assert (await migrate("rollback")).result("job") == ("nothing", "the reference does not know SlurmRuntime.acme.org")
    assert {key: value for key, value in (await state(cluster)).items() if key in before} == before


async def test_a_restored_backup(migrate: Migrate, stopped: Operator, cluster: Cluster) -> None:
    """A restored job is a new one, to which nothing belongs until somebody says so."""
    await cluster.create(runtime("rt", cluster.namespace, image="acme/train:1"))
    await left_by_reference(cluster, train_job("job", cluster.namespace), with_config_map=False, with_job_set=False)
    stopped.start()
    snapshot = await cluster.until(TRAINING_RUNTIME_SNAPSHOT, "job")
    await cluster.until(JOB_SET, "job")
    stopped.stop()
    await remove_webhooks(cluster.api)
    assert (await migrate("rollback")).result("job")[0] == "done"
    kept = await cluster.get(CONFIG_MAP, "job-runtime-snapshot")

    # Everything is lost, and comes back without what the API server gives objects.
    for resource, name in ((TRAIN_JOB, "job"), (JOB_SET, "job"), (CONFIG_MAP, "job-runtime-snapshot")):
        await cluster.delete(resource, name)
    async with operator_identity(migrate, cluster) as api:
        await api.delete(TRAINING_RUNTIME_SNAPSHOT, "job", cluster.namespace)
    await cluster.until_gone(JOB_SET, "job")
    await cluster.patch(TRAINING_RUNTIME, "rt", {"spec": runtime_spec(image="acme/train:2")})
    job = await cluster.create(train_job("job", cluster.namespace))
    own = {key: kept["metadata"][key] for key in ("name", "namespace", "ownerReferences")}
    await cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": own, "data": kept["data"]})
    metadata = {key: snapshot["metadata"][key] for key in ("name", "namespace", "ownerReferences")}
    with pytest.raises(ApiError, match="only trainsnap creates"):
        await cluster.create({**snapshot, "metadata": metadata})

    for operation in ("plan", "apply", "rollback"):
        result, detail = (await migrate(operation)).result("job")
        assert result == "problem"
        assert f"controlled by TrainJob job (uid {snapshot['source']['trainJob']['uid']}), not by this" in detail
    assert await cluster.find(TRAINING_RUNTIME_SNAPSHOT, "job") is None

    view = Job.from_json(job)
    owner = {"metadata": {"ownerReferences": [view.owner_reference]}}
    await cluster.patch(CONFIG_MAP, "job-runtime-snapshot", owner)
    assert (await migrate("apply")).result("job")[0] == "done"
    again = await cluster.get(TRAINING_RUNTIME_SNAPSHOT, "job")
    assert (again["spec"], again["source"]["trainJob"]["uid"]) == (snapshot["spec"], view.uid)
    stopped.start()
    assert image_of(await cluster.until(JOB_SET, "job")) == "acme/train:1"


def operator_identity(migrate: Migrate, cluster: Cluster) -> Any:
    """The operator's own connection, which may delete snapshots."""
    return service_account(str(migrate.kubeconfig), cluster.api, "kubeflow-system", "trainsnap")
