# SPDX-License-Identifier: Apache-2.0
"""What is gathered: every job once, however often the list starts again, and signs of a reference that runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from trainsnap_api.transport import KindNotServed, NotFound, RawPage, Resource, Response
from trainsnap_controller.migration.facts import jobs, rivals

pytestmark = pytest.mark.anyio

JSON = dict[str, Any]
NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


class Api:
    """Answers from memory."""

    def __init__(self, *, lists: list[list[str]] | None = None, objects: dict[str, JSON] | None = None) -> None:
        self._lists, self._objects = lists, objects or {}

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> JSON:
        if resource.kind not in self._objects:
            raise NotFound(f"{namespace}/{name}")
        return self._objects[resource.kind]

    async def request(self, method: str, path: str, *, params: dict[str, str]) -> Response:
        raise AssertionError(f"{method} {path} {params}")

    async def pages(
        self, resource: Resource, namespace: str | None = None, *, page_size: int, on_restart: Any
    ) -> AsyncIterator[RawPage]:
        del namespace, page_size
        if self._lists is None:
            raise KindNotServed(resource.name)
        for names in self._lists:
            if "404" in names:
                raise KindNotServed(resource.name)
            if "restart" in names:
                on_restart()
                continue
            items = [msgspec.Raw(msgspec.json.encode({"metadata": {"name": n, "namespace": "ns"}})) for n in names]
            yield RawPage(items, "1", None)


async def test_every_job_once_though_the_list_starts_again() -> None:
    api = Api(lists=[["a", "b"], ["c"], ["restart"], ["a", "b"], ["bb", "c", "d"], []])
    found = [job.name async for page in jobs(api, None) for job in page.jobs]
    assert found == ["a", "b", "c", "d"], "what was made behind the place that was reached is of a new operator"


async def test_no_jobs_where_the_kind_is_not_served() -> None:
    assert [page async for page in jobs(Api(), None)] == []


async def test_a_list_that_breaks_off_is_no_short_list() -> None:
    """Something in front of the API server may answer 404, too."""
    found = []
    with pytest.raises(KindNotServed):
        async for page in jobs(Api(lists=[["a", "b"], ["404"]]), None):
            found += [job.name for job in page.jobs]
    assert found == ["a", "b"]


def lease(holder: str, renewed: str | None) -> JSON:
    return {"spec": {"holderIdentity": holder, **({"renewTime": renewed} if renewed else {})}}


@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param({}, [], id="nothing"),
        pytest.param({"Deployment": {"spec": {"replicas": 0}}}, [], id="scaled down"),
        pytest.param({"Deployment": {"spec": {}, "status": {"readyReplicas": 1}}}, ["1 pods ready"], id="running"),
        pytest.param({"Lease": lease("kubeflow-trainer-controller-manager-1_a", "2026-01-05T11:59:55.000000Z")},
                     ["is held by kubeflow"], id="a live lease"),
        pytest.param({"Lease": lease("kubeflow-trainer-controller-manager-1_a", "2026-01-05T11:00:00.000000Z")}, [],
                     id="a lease that was given up"),
        pytest.param({"Lease": lease("trainsnap-1_a", None)}, [], id="our own lease"),
    ],
)  # fmt: skip
async def test_signs_of_a_reference_that_runs(objects: dict[str, JSON], want: list[str]) -> None:
    found = await rivals(Api(objects=objects), NOW)
    assert len(found) == len(want)
    for line, part in zip(found, want, strict=True):
        assert part in line
