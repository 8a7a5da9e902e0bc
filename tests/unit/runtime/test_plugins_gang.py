# SPDX-License-Identifier: Apache-2.0
"""coscheduling and volcano: labels, when the PodGroup is written, what it asks for, and Volcano's rules."""

from __future__ import annotations

from typing import Any

import pytest

from support.building import box, documents, job, observed, patch, plan, rjob, rjobs, rules, runtime
from trainsnap_api.transport.resources import COSCHEDULING_POD_GROUP, PRIORITY_CLASS, VOLCANO_POD_GROUP
from trainsnap_controller.runtime.extension import Maps
from trainsnap_controller.runtime.observed import Need, Observed
from trainsnap_controller.runtime.registry import standard

JSON = dict[str, Any]
QUEUE = "scheduling.volcano.sh/queue-name"


def two(gang: str, policy: JSON | None = None, **template: Any) -> JSON:
    """A runtime with one helper pod and two trainer pods."""
    resources = {"requests": {"cpu": "1500m", "memory": "1Gi"}}
    helper = rjob("helper", box("h", resources={"requests": {"cpu": "1"}}), ancestor=None)
    jobs = [helper, rjob("node", box(resources=resources))]
    return runtime(*jobs, ml={"numNodes": 2}, gang={gang: policy or {}}, **template)


def group(a_job: Any, spec: JSON) -> JSON:
    found: JSON = documents(a_job, spec)["PodGroup/alpha"]
    return found


def test_coscheduling_sums_up_all_pods() -> None:
    got = group(job(), two("coscheduling"))
    assert got["apiVersion"] == "scheduling.x-k8s.io/v1alpha1"
    assert got["spec"] == {
        "minMember": 3,
        "minResources": {"cpu": "4", "memory": "2Gi"},
        "scheduleTimeoutSeconds": 60,
    }


def test_what_the_job_asks_for_counts() -> None:
    a_job = job({"numNodes": 3, "resourcesPerNode": {"requests": {"cpu": 2}}})
    assert group(a_job, two("coscheduling"))["spec"]["minResources"] == {"cpu": "7", "memory": "3Gi"}


def test_every_pod_is_marked() -> None:
    cosched = rjobs(job(), two("coscheduling"))
    labels = {name: item["template"]["spec"]["template"]["metadata"]["labels"] for name, item in cosched.items()}
    assert labels == {name: {"scheduling.x-k8s.io/pod-group": "alpha"} for name in ("helper", "node")}
    marked = rjobs(job(), two("volcano"))["helper"]["template"]["spec"]["template"]["metadata"]
    assert marked == {"annotations": {"scheduling.k8s.io/group-name": "alpha"}}


@pytest.mark.parametrize("resource", [COSCHEDULING_POD_GROUP, VOLCANO_POD_GROUP], ids=["coscheduling", "volcano"])
@pytest.mark.parametrize(
    ("exists", "suspend", "want"), [(False, False, True), (True, False, False), (True, True, True), (False, True, True)]
)
def test_when_it_is_written(resource: Any, exists: bool, suspend: bool, want: bool) -> None:
    spec = two("coscheduling" if resource is COSCHEDULING_POD_GROUP else "volcano")
    live = {"metadata": {"name": "alpha", "namespace": "team"}}
    seen = observed((resource, live)) if exists else None
    assert ("PodGroup/alpha" in documents(job(suspend=suspend), spec, seen)) is want


def test_a_job_without_pods_has_no_gang() -> None:
    spec = runtime(rjob(), ml={}, gang={"coscheduling": {}})
    assert list(documents(job({"numNodes": 0}), spec)) == ["JobSet/alpha"]


def test_both_policies_make_two_groups_before_the_job_set() -> None:
    spec = runtime(gang={"coscheduling": {}, "volcano": {}})
    kinds = [item.resource for item in plan(job(), spec).components]
    assert kinds[:2] == [COSCHEDULING_POD_GROUP, VOLCANO_POD_GROUP]


def test_volcano_takes_queue_priority_and_topology() -> None:
    spec = runtime(
        rjob("a", box("a"), ancestor=None, priorityClassName="low"),
        rjob("node", priorityClassName="high"),
        gang={"volcano": {"networkTopology": {"mode": "soft"}}},
        metadata={"annotations": {QUEUE: "q1"}},
    )
    change = patch(metadata={"annotations": {QUEUE: "q2"}})

    got = group(job(runtimePatches=[change]), spec)["spec"]

    assert got["queue"] == "q2" and got["priorityClassName"] == "high"
    assert got["networkTopology"] == {"mode": "soft", "highestTierAllowed": 1}


def test_an_empty_queue_is_refused() -> None:
    (rule,) = rules(job(), runtime(gang={"volcano": {}}, metadata={"annotations": {QUEUE: ""}}))
    assert rule.startswith(f"spec.annotations[{QUEUE}]: Invalid value")


def prioritized(*names: str) -> JSON:
    jobs = [rjob(f"j{i}", box("c"), ancestor=None, priorityClassName=name) for i, name in enumerate(names)]
    return runtime(*jobs, gang={"volcano": {}})


PRIORITIES: list[Any] = [
    pytest.param(["there"], [], id="it exists"),
    pytest.param(["ghost"], ["ghost"], id="it does not"),
    pytest.param(["system-node-critical", "ghost"], [], id="one of the system's ends the check"),
    pytest.param(["ghost", "system-node-critical", "other"], ["ghost"], id="what was found before it stays"),
    pytest.param(["", "ghost"], ["ghost"], id="an empty name is none"),
]


@pytest.mark.parametrize(("names", "want"), PRIORITIES)
def test_priority_classes_must_exist(names: list[str], want: list[str]) -> None:
    spec = prioritized(*names)
    seen = Observed({Need(PRIORITY_CLASS, None, "there", child=False): {"metadata": {"name": "there"}}})
    got = rules(job(), spec, seen)
    assert len(got) == len(want) and all(name in rule for name, rule in zip(want, got, strict=True))


def test_what_must_be_known_beforehand() -> None:
    needs = [(n.resource.kind, n.name, n.child) for n in standard().needs(job(), prioritized("a", "", "a"))]
    assert needs == [("PodGroup", "alpha", True), ("PriorityClass", "a", False), ("JobSet", "alpha", True)]


def test_watches_of_gangs_need_their_crd() -> None:
    found = [w for w in standard().watches() if w.requires is not None]
    assert {(w.resource.kind, w.maps) for w in found} == {
        ("PodGroup", Maps.OWNER),
        ("LimitRange", Maps.SUSPENDED_IN_NAMESPACE),
        ("RuntimeClass", Maps.SUSPENDED_BY_RUNTIME_CLASS),
    }
    assert {w.requires for w in found} == {COSCHEDULING_POD_GROUP, VOLCANO_POD_GROUP}
