# SPDX-License-Identifier: Apache-2.0
"""Requests of a pod, GPUs and CPUs of a node, and ``resourcesPerNode`` over the runtime's values."""

from __future__ import annotations

from typing import Any

import pytest

from support.building import box, container, job, rjob, rules, runtime
from trainsnap_controller.runtime import normalform, resources
from trainsnap_controller.runtime.info import PodSet

JSON = dict[str, Any]


def requesting(name: str, *, sidecar: bool = False, **requests: str) -> JSON:
    extra = {"restartPolicy": "Always"} if sidecar else {}
    return {"name": name, "resources": {"requests": requests}, **extra}


def requests_of(containers: list[JSON], **pod: Any) -> dict[str, str]:
    spec = {"replicatedJobs": [rjob("node", *containers, **pod)]}
    item = normalform.job_set_spec(spec, "p")["replicatedJobs"][0]
    return {name: str(amount) for name, amount in resources.pod_requests(PodSet(item, 1)).items()}


CASES: list[Any] = [
    pytest.param([requesting("a", cpu="1"), requesting("b", cpu="500m", memory="1Gi")], {}, "1500m 1Gi", id="sum"),
    pytest.param(
        [requesting("a", cpu="1")], {"initContainers": [requesting("i", cpu="4")]}, "4 -", id="a large init container"
    ),
    pytest.param(
        [requesting("a", cpu="2")],
        {"initContainers": [requesting("i", cpu="1"), requesting("j", cpu="1500m")]},
        "2 -",
        id="init containers run one after the other",
    ),
    pytest.param(
        [requesting("a", cpu="1")],
        {"initContainers": [requesting("s", sidecar=True, cpu="1"), requesting("i", cpu="2")]},
        "3 -",
        id="an init container beside an earlier sidecar",
    ),
    pytest.param(
        [requesting("a", cpu="1")],
        {"initContainers": [requesting("i", cpu="2"), requesting("s", sidecar=True, cpu="1")]},
        "2 -",
        id="a later sidecar only runs beside the containers",
    ),
    pytest.param(
        [requesting("a", cpu="1", memory="1Gi")],
        {"resources": {"requests": {"cpu": "3", "nvidia.com/gpu": "1"}}},
        "3 1Gi",
        id="the pod's own requests for what a pod may request",
    ),
    pytest.param([requesting("a", cpu="1")], {"overhead": {"cpu": "250m"}}, "1250m -", id="overhead comes on top"),
    pytest.param([{"name": "a", "resources": {"limits": {"cpu": "1"}}}], {}, "- -", id="limits do not count"),
]


@pytest.mark.parametrize(("containers", "pod", "want"), CASES)
def test_requests_of_one_pod(containers: list[JSON], pod: JSON, want: str) -> None:
    got = requests_of(containers, **pod)
    assert f"{got.get('cpu', '-')} {got.get('memory', '-')}" == want


GPUS = [
    ({"limits": {"nvidia.com/gpu": 2}}, 2),
    ({"requests": {"amd.com/gpu": "1"}, "limits": {"amd.com/gpu": "4"}}, 1),
    ({"requests": {"nvidia.com/gpu": 0}, "limits": {"nvidia.com/gpu": 3}}, 3),
    ({"limits": {"example.com/vGPU": "1500m"}}, 2),
    ({"limits": {"nvidia.com/mig-1g.5gb": 1, "google.com/tpu": 4}}, 0),
    ({"limits": {"nvidia.com/gpumem": 3000, "nvidia.com/gpu": 1, "nvidia.com/gpucores": 30}}, 1),
    ({"limits": {"a/gpu": 0, "b/gpu": 2}}, 2),
    ({}, 0),
]


@pytest.mark.parametrize(("given", "want"), GPUS, ids=[str(row[0]) for row in GPUS])
def test_gpus(given: JSON, want: int) -> None:
    assert resources.gpus(given) == want


CPUS = [
    ({"requests": {"cpu": "2500m"}, "limits": {"cpu": "8"}}, 3),
    ({"requests": {"cpu": 0}, "limits": {"cpu": "500m"}}, 1),
    ({"limits": {"cpu": 4}}, 4),
    ({"requests": {"memory": "1Gi"}}, 0),
]


@pytest.mark.parametrize(("given", "want"), CPUS, ids=[str(row[0]) for row in CPUS])
def test_cpus(given: JSON, want: int) -> None:
    assert resources.cpus(given) == want


def test_the_job_wins_name_by_name() -> None:
    own = {"limits": {"cpu": "4", "memory": "8Gi"}, "requests": {"cpu": "1"}}
    spec = runtime(rjob("node", box(resources=own)), ml={})

    got = container(job({"resourcesPerNode": {"limits": {"memory": "16384Mi", "nvidia.com/gpu": 1}}}), spec)

    assert got["resources"] == {
        "limits": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"},
        "requests": {"cpu": "1"},
    }


def test_claims_of_both_sides_stay() -> None:
    spec = runtime(rjob("node", box(resources={"claims": [{"name": "a"}, {"name": "b"}]})), ml={})
    per_node = {"requests": {"cpu": 2}, "claims": [{"name": "b", "request": "r"}, {"name": "c"}]}

    got = container(job({"resourcesPerNode": per_node}), spec)

    assert got["resources"] == {
        "requests": {"cpu": "2"},
        "claims": [{"name": "a"}, {"name": "b", "request": "r"}, {"name": "c"}],
    }


def test_without_a_policy_the_runtime_keeps_its_resources() -> None:
    """Recorded of the reference."""
    spec = runtime(rjob("node", box(resources={"requests": {"cpu": "1"}})))
    got = container(job({"resourcesPerNode": {"requests": {"cpu": 9}}}), spec)
    assert got["resources"] == {"requests": {"cpu": "1"}}


def test_only_the_trainers_node_container_gets_them() -> None:
    spec = runtime(rjob("node", box("side"), box("node")), rjob("other", ancestor=None), ml={})
    a_job = job({"resourcesPerNode": {"requests": {"cpu": 9}}})
    assert container(a_job, spec, "side")["resources"] == {}
    assert container(a_job, spec, "node")["resources"] == {"requests": {"cpu": "9"}}
    assert container(a_job, spec, "node", "other")["resources"] == {}


def test_what_is_no_quantity_is_reported_at_its_place() -> None:
    got = rules(job({"resourcesPerNode": {"limits": {"cpu": "1e3.5"}}}), runtime(ml={}))
    assert got == [
        "spec.trainer.resourcesPerNode.limits[cpu]: Invalid value: '1e3.5' is not a quantity",
    ]
