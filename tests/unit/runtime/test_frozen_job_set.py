# SPDX-License-Identifier: Apache-2.0
"""A document that JobSet accepts for an existing JobSet whatever else has changed."""

from __future__ import annotations

from typing import Any

from support.building import box, job, job_set, patch, pod_patch, rjob, runtime
from trainsnap_controller.runtime.frozen import keep_frozen

JSON = dict[str, Any]


def stored(document: JSON) -> JSON:
    """What the server and JobSet's own admission make of a document."""
    spec = {**document["spec"], "successPolicy": {"operator": "All"}}
    jobs = []
    for item in spec["replicatedJobs"]:
        job_spec = {**item["template"]["spec"], "completionMode": "Indexed"}
        jobs.append({**item, "template": {**item["template"], "spec": job_spec}})
    return {**document, "spec": {**spec, "replicatedJobs": jobs}}


def pod(document: JSON) -> JSON:
    template: JSON = document["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    return template


LIVE = stored(job_set(job(suspend=True), runtime(rjob("node", nodeSelector={"zone": "a"}))))


def test_without_a_difference_only_suspend_changes() -> None:
    wanted = job_set(job(suspend=False), runtime(rjob("node", nodeSelector={"zone": "a"})))

    kept = keep_frozen(wanted, LIVE)

    assert kept.differences == ()
    assert kept.document == {**wanted, "spec": {**LIVE["spec"], "suspend": False}}


def test_frozen_parts_stay_and_are_reported() -> None:
    wanted = job_set(
        job({"image": "new"}, suspend=False), runtime(rjob("node", box(command=["c"])), ml={"numNodes": 2})
    )

    kept = keep_frozen(wanted, LIVE)

    assert pod(kept.document)["spec"]["containers"] == pod(LIVE)["spec"]["containers"]
    assert "nodeSelector" not in pod(kept.document)["spec"]
    where = "spec.replicatedJobs[0].template.spec"
    assert set(kept.differences) == {
        f"{where}.parallelism",
        f"{where}.completions",
        f"{where}.template.spec.containers[0].image",
        f"{where}.template.spec.containers[0].command",
    }


def test_what_may_change_follows_the_wanted_document() -> None:
    change = pod_patch(
        tolerations=[{"operator": "Exists"}], schedulingGates=[{"name": "g"}], nodeSelector={"zone": "b"}
    )
    change["template"]["spec"]["template"]["metadata"] = {"labels": {"l": "1"}, "annotations": {"a": "1"}}
    wanted = job_set(
        job(suspend=True, runtimePatches=[patch(change)]), runtime(rjob("node", nodeSelector={"zone": "a"}))
    )

    kept = keep_frozen(wanted, LIVE)

    assert kept.differences == ()
    assert pod(kept.document) == pod(wanted)


def test_a_replicated_job_that_one_side_lacks_is_a_difference() -> None:
    wanted = job_set(job(suspend=True), runtime(rjob("node"), rjob("more", ancestor=None)))
    kept = keep_frozen(wanted, LIVE)
    assert kept.document["spec"]["replicatedJobs"] == [
        {**LIVE["spec"]["replicatedJobs"][0], "template": kept.document["spec"]["replicatedJobs"][0]["template"]}
    ]
    assert kept.differences == ("spec.replicatedJobs",)


def test_what_is_given_is_left_as_it_was() -> None:
    wanted = job_set(job({"image": "new"}), runtime(rjob("node")))
    before = repr((wanted, LIVE))
    keep_frozen(wanted, LIVE)
    assert repr((wanted, LIVE)) == before
