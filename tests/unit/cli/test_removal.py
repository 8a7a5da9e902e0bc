# SPDX-License-Identifier: Apache-2.0
"""``trainsnap dev --clean``: what goes, what is kept, and what it says about both."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from trainsnap_api.transport import Forbidden, NotFound, ObjectList, Resource
from trainsnap_api.transport import resources as r
from trainsnap_controller.cli import manifests
from trainsnap_controller.cli.install import NOT_OUTSIDE, remove

pytestmark = pytest.mark.anyio

JSON = dict[str, Any]
INSTALLED = [obj for obj in manifests.base() if obj["kind"] not in {*NOT_OUTSIDE, "Namespace"}]


class Cluster:
    """An API server: ``names`` is what is there, ``jobs`` how many TrainJobs exist."""

    def __init__(self, *, installed: bool = True, jobs: int = 0, forbidden: str = "") -> None:
        objects = [*INSTALLED, {"kind": "Namespace", "metadata": {"name": "kubeflow-system"}}] if installed else []
        self.names = {(obj["kind"], obj["metadata"]["name"]) for obj in objects}
        self.jobs = jobs
        self.forbidden = forbidden

    async def get(self, resource: Resource, name: str) -> JSON:
        if (resource.kind, name) not in self.names:
            raise NotFound(name)
        return {"metadata": {"name": name}}

    async def list(self, resource: Resource) -> ObjectList:
        count = self.jobs if resource.kind == r.TRAIN_JOB.kind else 0
        return ObjectList([{}] * count, "1")

    async def delete(self, resource: Resource, name: str, namespace: str | None) -> None:
        if self.forbidden == resource.kind:
            raise Forbidden("not for you")
        if (resource.kind, name) not in self.names:
            raise NotFound(name)
        self.names.remove((resource.kind, name))

    async def __aenter__(self) -> Cluster:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


async def said(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    module = importlib.import_module("trainsnap_controller.cli.dev")

    async def connect(**_: Any) -> Cluster:
        return cluster

    monkeypatch.setattr(module.Transport, "connect", connect)
    assert await module.clean(Path("kubeconfig"), None) == 0
    return capsys.readouterr().out.splitlines()


NAMESPACE = "kept Namespace kubeflow-system: other things may live in it"
CRD = "kept CRD trainjobs.trainer.kubeflow.org: "


@pytest.mark.parametrize(
    ("options", "want"),
    [
        pytest.param({}, [NAMESPACE, "removed the rest"], id="no jobs"),
        pytest.param({"jobs": 1}, [f"{CRD}1 object of it exists", NAMESPACE, "removed the rest"], id="one job"),
        pytest.param({"jobs": 2}, [f"{CRD}2 objects of it exist", NAMESPACE, "removed the rest"], id="two jobs"),
        pytest.param({"installed": False}, ["there was nothing to remove"], id="nothing there"),
    ],
)
async def test_what_it_says(
    options: dict[str, Any], want: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster(**options)
    assert await said(cluster, monkeypatch, capsys) == want
    assert await said(cluster, monkeypatch, capsys) == [*want[:-1], "there was nothing to remove"], "a second time"


async def test_what_may_not_be_removed_is_named() -> None:
    done = await remove(Cluster(forbidden="ClusterRole"), manifests.base())
    roles = [obj["metadata"]["name"] for obj in reversed(INSTALLED) if obj["kind"] == "ClusterRole"]
    assert [line for line in done.kept if "ClusterRole " in line] == [
        f"ClusterRole {name}: not for you" for name in roles
    ]
    assert done.removed == len(INSTALLED) - len(roles)
