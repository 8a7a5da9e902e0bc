# SPDX-License-Identifier: Apache-2.0
"""The recorded cases in which the reference is not followed: every difference is wanted, and there is no other.

The reasons are in ``docs/differences.md``, which must name each of these cases.
"""

from __future__ import annotations

import re
from functools import cache
from types import ModuleType
from typing import Any

import pytest

from support import offline_golden as offline
from trainsnap_controller.runtime.registry import standard

CASES = {case["id"]: case for case in offline.cases("differs")}
POD = "spec.replicatedJobs[0].template.spec.template.spec"

WANT: dict[str, list[str]] = {
    "to-nodes": [f"JobSet/to-nodes-net.{POD}.containers[0].env[3].value"],
    "mp-impl-empty": [
        "ConfigMap/mp-impl-empty-mpi-hostfile",
        "Secret/mp-impl-empty-mpi-ssh-auth",
        "JobSet/mp-impl-empty",
    ],
    "mp-children-deleted": [],
    "jx-names": [f"JobSet/jx-names.{POD}.containers[1].env[2].value"],
    "rp-env": [f"JobSet/rp-env.{POD.replace('[0]', '[1]')}.containers[1].env[3].value"],
    "sr-add-late": [],
    "rm-deleted-paused": [],
    "rm-same-name": [],
    "rm-invalid-for-job": [],
    "ad-runtime-update": [],
    "nd-gpu-names-mpi": [f"JobSet/nd-gpu-names-mpi-mpi.{POD.replace('[0]', '[1]')}.containers[0].env[2].value"],
    "nd-zero-nodes-gang": [],
    "qk-unnamed-ports": [
        f"JobSet/qk-unnamed-ports-torch.{POD}.containers[0].ports",
        "JobSet/qk-unnamed-ports-two",
    ],
    "qk-claims-lost": [f"JobSet/qk-claims-lost-lost.{POD}.containers[0].resources.claims"],
    "qk-filekeyref": [f"JobSet/qk-filekeyref.{POD}.containers[0].env[1].valueFrom.fileKeyRef"],
    "qk-unknown-job": ["JobSet/qk-unknown-job-full"],
    "qk-unknown-container": [f"JobSet/qk-unknown-container-{suffix}" for suffix in ("c", "i", "swapped")],
    "qk-merged-sources": [
        f"JobSet/qk-merged-sources.{POD}.containers[1].env[0].valueFrom",
        f"JobSet/qk-merged-sources.{POD}.containers[1].env[1].value",
        f"JobSet/qk-merged-sources.{POD}.volumes[0].emptyDir",
    ],
    "qk-zero-values": ["JobSet/qk-zero-values.spec.replicatedJobs[0].replicas"],
}
"""Where ours is another than the reference's. Cases of which only parts are compared have a test of their own."""


@cache
def replayer() -> ModuleType:
    return offline.replayer()


@cache
def schemas() -> dict[str, offline.JSON]:
    return offline.schemas()


def replay(case_id: str) -> tuple[offline.JSON, offline.Offline]:
    server = offline.Offline(standard(), schemas())
    steps = offline.recorded(case_id, "differs")["steps"]
    return server.replay(CASES[case_id], steps, replayer()), server


@pytest.mark.parametrize("case_id", sorted(WANT))
def test_differences_are_the_wanted_ones(case_id: str) -> None:
    got, _ = replay(case_id)

    found = [line.split(": ")[0] for line in replayer().diff(offline.recorded(case_id, "differs")["captures"], got)]

    assert sorted(re.sub(r"^\$\.\w+\.[\w.-]+?/", "", path) for path in found) == sorted(WANT[case_id])


def trainer_env(got: offline.JSON, job_set: str) -> list[str]:
    spec = got["created"][f"jobset.x-k8s.io/JobSet/{job_set}"]["spec"]
    container = spec["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    return [item["name"] for item in container["env"]]


def test_xgboost_puts_the_users_variables_first() -> None:
    got, _ = replay("nd-xgboost-env-order")
    names = ["FIRST", "NEW_A", "NEW_B", "DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER"]
    assert trainer_env(got, "nd-xgboost-env-order") == names


def test_flux_runs_without_a_trainer_section() -> None:
    got, server = replay("qk-flux-no-trainer")
    job_sets = [key for key in got["created"] if "/JobSet/" in key]
    assert len(job_sets) == 3 and server.problems == {}
    assert got["created"]["trainer.kubeflow.org/TrainJob/qk-flux-no-trainer-c"]["status"]["conditions"]


def test_quantities_of_a_job_stay_as_they_were_written() -> None:
    got, _ = replay("qk-webhook-rewrite")
    plain, patched = (
        got["created"][f"trainer.kubeflow.org/TrainJob/qk-webhook-rewrite-{name}"]["spec"]["trainer"]
        for name in ("plain", "patched")
    )
    assert patched == plain
    assert patched["resourcesPerNode"]["requests"] == {"cpu": "1.50", "memory": "1e9"}


@pytest.mark.parametrize(
    ("case_id", "word"), [("qk-unknown-job", "replicated job"), ("qk-unknown-container", "container")]
)
def test_unknown_names_in_patches_are_said(case_id: str, word: str) -> None:
    _, server = replay(case_id)
    assert len(server.problems) == 3
    assert all("spec.runtimePatches" in text and word in text for text in server.problems.values())


def test_every_case_is_decided_and_listed() -> None:
    apart = {"nd-xgboost-env-order", "qk-flux-no-trainer", "qk-webhook-rewrite"}
    assert set(WANT) | apart == set(CASES)
    page: Any = (offline.ROOT / "docs" / "differences.md").read_text()
    assert [case_id for case_id in CASES if f"`{case_id}`" not in page] == []
