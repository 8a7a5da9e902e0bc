# SPDX-License-Identifier: Apache-2.0
"""From a ConfigMap that the reference wrote, and from the runtime it was taken from, the same objects are built."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support import offline_golden
from trainsnap_controller.migration.handback import config_map_of
from trainsnap_controller.migration.legacy import judge
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.runtime.observed import Observed
from trainsnap_controller.runtime.registry import standard
from trainsnap_controller.snapshot.document import Origin, snapshot_of

JSON = dict[str, Any]
RECORDED = sorted((Path(__file__).parents[2] / "golden" / "legacy-configmaps").glob("*.json"))


def built(job: Job, spec: JSON) -> list[JSON]:
    """Everything but what is random by nature."""
    plan = standard().build(job, spec, Observed())
    return [component.document() for component in plan.components if component.resource.kind != "Secret"]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_the_same_is_built_from_both_and_again_after_going_back(path: Path) -> None:
    recorded = json.loads(path.read_text())
    config_map, runtime = recorded["configMap"], recorded["runtime"]
    (reference,) = config_map["metadata"]["ownerReferences"]
    name = {"kind": runtime["kind"], "name": runtime["metadata"]["name"], "apiGroup": "trainer.kubeflow.org"}
    job = Job.from_json(
        {
            "metadata": {"name": reference["name"], "namespace": "legacy", "uid": reference["uid"]},
            "spec": {"runtimeRef": name},
        }
    )
    spec = offline_golden.defaulted(runtime, offline_golden.schemas()[runtime["kind"]])["spec"]
    verdict = judge(config_map, job, job.runtime_ref)
    assert verdict.runtime is not None
    want = built(job, spec)
    assert built(job, verdict.runtime["spec"]) == want
    assert want[-1]["kind"] == "JobSet"

    now = datetime(2026, 1, 5, tzinfo=UTC)
    snapshot = snapshot_of(job, verdict.runtime, origin=Origin.CONFIG_MAP, captured_at=now)
    back = config_map_of(snapshot, job.owner_reference, None)
    assert back is not None
    assert back["metadata"]["ownerReferences"] == [reference]
    again = judge(back, job, job.runtime_ref)
    assert again.runtime is not None
    assert again.runtime["spec"] == verdict.runtime["spec"]
    assert len(back["data"]["runtime"]) < len(config_map["data"]["runtime"])
