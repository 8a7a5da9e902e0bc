# SPDX-License-Identifier: Apache-2.0
"""The view of a TrainJob tells "not given" from "given as nothing", and takes anything that the schema admits."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from trainsnap_controller.runtime.job import Initializer, Job, RuntimeRef, Trainer


@pytest.mark.parametrize("obj", [{}, {"metadata": {"name": "a"}}, {"spec": {}}, {"spec": {"initializer": {}}}], ids=str)
def test_almost_nothing(obj: dict[str, object]) -> None:
    got = Job.from_json(obj)
    assert (got.trainer, got.dataset, got.model, got.suspended, got.managed_here) == (None, None, None, False, True)


def test_everything() -> None:
    got = Job.from_json(
        {
            "metadata": {
                "name": "a",
                "namespace": "n",
                "uid": "u",
                "generation": 7,
                "creationTimestamp": "2026-01-02T03:04:05Z",
                "deletionTimestamp": "2026-01-02T03:04:05Z",
            },
            "spec": {
                "runtimeRef": {"apiGroup": "g", "kind": "K", "name": "r"},
                "suspend": True,
                "managedBy": "kueue.x-k8s.io/multikueue",
                "trainer": {"command": [], "numNodes": 0},
                "initializer": {"dataset": {"storageUri": "", "secretRef": {}}, "model": {}},
            },
            "status": {"conditions": []},
        }
    )
    assert got.runtime_ref == RuntimeRef("g", "K", "r") and got.runtime_ref.key == "K.g"
    assert got.trainer == Trainer(command=(), num_nodes=0)
    assert got.dataset == Initializer(storage_uri="", secret="") and got.model == Initializer()
    assert got.created == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert got.suspended and got.deleting and not got.managed_here
    assert got.child_metadata("c")["ownerReferences"][0]["uid"] == "u"
