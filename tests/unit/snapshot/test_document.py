# SPDX-License-Identifier: Apache-2.0
"""What a snapshot says, and whose it is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from trainsnap_controller import constants as c
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.snapshot.digest import digest
from trainsnap_controller.snapshot.document import (
    Origin,
    Record,
    Whose,
    record_of,
    recorded,
    snapshot_of,
    whose,
)

JSON = dict[str, Any]
NOW = datetime(2026, 5, 1, 12, 0, 0, 987654, tzinfo=UTC)
JOB = Job.from_json({"metadata": {"name": "j", "namespace": "team", "uid": "job-uid"}})
SPEC: JSON = {"mlPolicy": {"numNodes": 2}}


def runtime(**changes: Any) -> JSON:
    metadata = {"name": "rt", "uid": "rt-uid", "generation": 3, **changes.pop("metadata", {})}
    kind = {"apiVersion": c.API_VERSION, "kind": "ClusterTrainingRuntime"}
    return {**kind, "metadata": metadata, "spec": SPEC, **changes}


def taken(source: JSON | None = None, **options: Any) -> JSON:
    return snapshot_of(JOB, source or runtime(), origin=Origin.RUNTIME, captured_at=NOW, **options)


def test_snapshot_says_where_it_comes_from_and_whose_it_is() -> None:
    snapshot = taken(runtime(metadata={"labels": {"team": "ml"}, "annotations": {"secret": "s", "docs": "d"}}))
    assert snapshot["metadata"] == {"name": "j", "namespace": "team", "ownerReferences": [JOB.owner_reference]}
    assert snapshot["source"] == {
        "apiGroup": "trainer.kubeflow.org",
        "kind": "ClusterTrainingRuntime",
        "name": "rt",
        "uid": "rt-uid",
        "generation": 3,
        "labels": {"team": "ml"},
        "trainJob": {"name": "j", "uid": "job-uid"},
        "origin": "Runtime",
        "digest": digest(SPEC),
        "capturedAt": "2026-05-01T12:00:00Z",
    }
    assert snapshot["spec"] == SPEC


def test_annotations_are_kept_by_allow_list_only() -> None:
    source = runtime(metadata={"annotations": {"secret": "s", "docs": "d"}})
    assert taken(source, keep_annotations=["docs"])["source"]["annotations"] == {"docs": "d"}


def test_runtime_without_spec_gives_neither_spec_nor_opaque() -> None:
    source = runtime()
    del source["spec"]
    snapshot = taken(source)
    assert "spec" not in snapshot
    assert "opaque" not in snapshot
    assert snapshot["source"]["digest"] == digest(None)


def test_unknown_kind_is_kept_whole_less_its_envelope() -> None:
    slurm = {"apiVersion": "hpc.dev/v1", "kind": "SlurmRuntime", "metadata": {"name": "s"}, "status": {"x": 1},
             "spec": {"a": 1}, "extra": [1]}  # fmt: skip
    snapshot = taken(slurm)
    assert snapshot["opaque"] == {"spec": {"spec": {"a": 1}, "extra": [1]}}
    assert snapshot["source"]["digest"] == digest({"spec": {"a": 1}, "extra": [1]})
    assert "uid" not in snapshot["source"]


def test_jobset_remembers_and_recognizes_its_runtime() -> None:
    annotations = record_of(taken()).annotations()
    record = recorded({"metadata": {"annotations": annotations}})
    assert record == Record("rt-uid", 3, digest(SPEC))
    assert record.matches(runtime())
    assert record.matches(runtime(metadata={"uid": "other", "generation": 9})), "same content is enough"
    assert not record.matches(runtime(metadata={"generation": 4}, spec={}))


@pytest.mark.parametrize("annotations", [None, {}, {"other": "1"}])
def test_jobset_without_record(annotations: JSON | None) -> None:
    assert recorded({"metadata": {"annotations": annotations}}) is None


@pytest.mark.parametrize("generation", ["²", "", "-1", "9" * 5000], ids=["superscript", "nothing", "negative", "huge"])
def test_nonsense_in_the_record_is_not_trusted(generation: str) -> None:
    record = recorded({"metadata": {"annotations": {c.SNAPSHOT_UID: "rt-uid", c.SNAPSHOT_GENERATION: generation}}})
    assert record == Record("rt-uid", None, None)
    assert not record.matches(runtime())


OTHER_OWNER: JSON = {**JOB.owner_reference, "uid": "other"}


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param({}, Whose.OURS, id="made for this job and owned by it"),
        pytest.param({"owners": []}, Whose.OURS_STRIPPED, id="owner reference taken off"),
        pytest.param({"owners": [{**JOB.owner_reference, "controller": False}]}, Whose.OURS_STRIPPED,
                     id="owner reference is no controller any more"),
        pytest.param({"made_for": "old", "owners": [OTHER_OWNER]}, Whose.LEFTOVER, id="of an earlier job"),
        pytest.param({"made_for": "old", "owners": []}, Whose.LEFTOVER, id="of an earlier job, orphaned"),
        pytest.param({"made_for": "old"}, Whose.LEFTOVER, id="of an earlier job, but the owner reference names us"),
        pytest.param({"made_for": None}, Whose.FOREIGN, id="nobody says for whom it was made"),
        pytest.param({"owners": [OTHER_OWNER]}, Whose.FOREIGN, id="made for us, owned by another job"),
        pytest.param({"owners": [{**OTHER_OWNER, "kind": "Deployment"}]}, Whose.FOREIGN, id="owned by another kind"),
    ],
)  # fmt: skip
def test_whose(change: JSON, want: Whose) -> None:
    snapshot = taken()
    if "made_for" in change:
        snapshot["source"]["trainJob"]["uid"] = change["made_for"]
    if "owners" in change:
        snapshot["metadata"]["ownerReferences"] = change["owners"]
    assert whose(snapshot, JOB) is want
