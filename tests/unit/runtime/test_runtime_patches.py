# SPDX-License-Identifier: Apache-2.0
"""``spec.runtimePatches``: several managers, what they may name, and what they may not do."""

from __future__ import annotations

from typing import Any

import pytest

from support.building import box, job, job_set, patch, plan, pod_patch, pods, rjob, rules, runtime
from trainsnap_controller.runtime import patches
from trainsnap_controller.runtime.errors import BuildError

JSON = dict[str, Any]


def test_later_patches_win_key_by_key() -> None:
    a_job = job(
        runtimePatches=[
            patch(
                pod_patch(nodeSelector={"zone": "a", "pool": "x"}), manager="a.io/m", metadata={"labels": {"l": "1"}}
            ),
            patch(pod_patch(nodeSelector={"zone": "b"}), manager="b.io/m", metadata={"labels": {"l": "2", "m": "3"}}),
        ]
    )
    spec = runtime(rjob("node", nodeSelector={"disk": "ssd"}), metadata={"labels": {"l": "0", "k": "0"}})

    assert pods(a_job, spec)["node"]["nodeSelector"] == {"disk": "ssd", "pool": "x", "zone": "b"}
    assert job_set(a_job, spec)["metadata"]["labels"] == {"l": "2", "k": "0", "m": "3"}


def test_replicated_jobs_keep_the_order_of_the_runtime() -> None:
    spec = runtime(rjob("prepare", ancestor=None), rjob("node"), rjob("evaluate", ancestor=None))
    a_job = job(runtimePatches=[patch(pod_patch("evaluate"), pod_patch("prepare", nodeSelector={"a": "b"}))])

    assert [item["name"] for item in job_set(a_job, spec)["spec"]["replicatedJobs"]] == ["prepare", "node", "evaluate"]


def test_labels_of_the_job_template_decide_what_the_job_stands_for() -> None:
    spec = runtime(rjob("node", ancestor=None), ml={"numNodes": 3})
    change = {"name": "node", "template": {"metadata": {"labels": rjob()["template"]["metadata"]["labels"]}}}

    got = job_set(job(runtimePatches=[patch(change)]), spec)

    assert got["spec"]["replicatedJobs"][0]["template"]["spec"]["parallelism"] == 3


def test_names_in_the_metadata_of_the_template_are_ignored() -> None:
    got = job_set(job(), runtime(metadata={"name": "x", "namespace": "y", "finalizers": ["a/b"]}))
    assert got["metadata"]["name"] == "alpha" and got["metadata"]["namespace"] == "team"
    assert "finalizers" not in got["metadata"]


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(pod_patch(serviceAccountName="sa"), {"serviceAccountName": "sa"}, id="a value"),
        pytest.param(pod_patch(serviceAccountName=""), {}, id="an empty value does not override"),
        pytest.param(pod_patch(terminationGracePeriodSeconds=0), {"terminationGracePeriodSeconds": 0}, id="zero"),
        pytest.param(
            pod_patch(securityContext={"runAsUser": 0}), {"securityContext": {"runAsUser": 0}}, id="zero in a context"
        ),
        pytest.param({"name": "node"}, {}, id="nothing but the name"),
        pytest.param({"name": "node", "template": {}}, {}, id="an empty template"),
    ],
)
def test_values_that_look_empty(change: JSON, want: JSON) -> None:
    got = pods(job(runtimePatches=[patch(change)]), runtime())["node"]
    assert {key: value for key, value in got.items() if key != "containers"} == want


UNKNOWN = [
    pytest.param(pod_patch("ghost"), "no replicated job named 'ghost'", id="replicated job"),
    pytest.param(pod_patch(containers=[{"name": "ghost"}]), "no container named 'ghost'", id="container"),
    pytest.param(pod_patch(initContainers=[{"name": "ghost"}]), "no init container named 'ghost'", id="init container"),
    pytest.param(pod_patch(initContainers=[{"name": "node"}]), "no init container named 'node'", id="the wrong list"),
    pytest.param(pod_patch(containers=[{"name": "init"}]), "no container named 'init'", id="other wrong list"),
]


@pytest.mark.parametrize(("change", "want"), UNKNOWN)
def test_a_patch_never_adds_what_the_runtime_lacks(change: JSON, want: str) -> None:
    a_job, spec = job(runtimePatches=[patch(change)]), runtime(rjob("node", initContainers=[box("init")]))

    assert [want in rule for rule in rules(a_job, spec)] == [True]
    with pytest.raises(BuildError, match=want):
        plan(a_job, spec)


@pytest.mark.parametrize("manager", ["kueue.k8s.io/manager", "a.b/c/d", "a/b", "x.io/A-Z~!$&'()*+,;=:%"])
def test_managers_that_are_accepted(manager: str) -> None:
    assert rules(job(runtimePatches=[patch(manager=manager)]), runtime()) == []


@pytest.mark.parametrize("manager", ["kueue.k8s.io/", "foo", "/x", "Upper.io/x", "a..b/c", "-a.b/c", "a.b/c d", "a/\n"])
def test_managers_that_are_refused(manager: str) -> None:
    (rule,) = rules(job(runtimePatches=[patch(manager=manager)]), runtime())
    assert rule.startswith("spec.runtimePatches.manager: Invalid value")


@pytest.mark.parametrize("name", ["node", "dataset-initializer", "model-initializer"])
def test_variables_that_have_a_place_of_their_own(name: str) -> None:
    spec = runtime(rjob("j", box(name), initContainers=[box(name)], ancestor=None))
    env = [{"name": "A", "value": "1"}]

    (rule,) = rules(job(runtimePatches=[patch(pod_patch("j", containers=[{"name": name, "env": env}]))]), spec)
    assert "must not set env" in rule
    assert rules(job(runtimePatches=[patch(pod_patch("j", initContainers=[{"name": name, "env": env}]))]), spec) == []
    assert rules(job(runtimePatches=[patch(pod_patch("j", containers=[{"name": name}]))]), spec) == []


def test_a_quantity_that_is_none_is_named_with_its_patch() -> None:
    volume = {"name": "v", "emptyDir": {"sizeLimit": "1e3.5"}}
    (rule,) = rules(job(runtimePatches=[patch(), patch(pod_patch(volumes=[volume]), manager="b.io/m")]), runtime())
    assert rule.startswith("spec.runtimePatches[1].trainingRuntimeSpec.template.spec.replicatedJobs[node]")


SAME = [
    pytest.param([], [], id="none"),
    pytest.param([patch(pod_patch(nodeSelector={}))], [patch(pod_patch())], id="empty and missing"),
    pytest.param(
        [patch(pod_patch(volumes=[{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}]))],
        [patch(pod_patch(volumes=[{"name": "v", "emptyDir": {"sizeLimit": "1024Mi"}}]))],
        id="quantities by value",
    ),
]
OTHER = [
    pytest.param([], [patch()], id="added"),
    pytest.param([patch(manager="a.io/m")], [patch(manager="b.io/m")], id="another manager"),
    pytest.param(
        [patch(pod_patch(nodeSelector={"a": "1"}))], [patch(pod_patch(nodeSelector={"a": "2"}))], id="content"
    ),
    pytest.param([{**patch(), "time": "2026-01-01T00:00:00Z"}], [patch()], id="time"),
]


@pytest.mark.parametrize(("old", "new"), SAME)
def test_the_same_in_meaning(old: list[JSON], new: list[JSON]) -> None:
    assert not patches.differ(job(runtimePatches=old), job(runtimePatches=new))


@pytest.mark.parametrize(("old", "new"), OTHER)
def test_changed(old: list[JSON], new: list[JSON]) -> None:
    assert patches.differ(job(runtimePatches=old), job(runtimePatches=new))
