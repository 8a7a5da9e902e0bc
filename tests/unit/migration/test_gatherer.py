# SPDX-License-Identifier: Apache-2.0
"""ConfigMaps are read out of the API server's memory no older than the page of jobs, or else straight from storage."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from trainsnap_api.transport import ApiError, Forbidden, NotFound, RawPage, Resource, Response, ServerTimeout
from trainsnap_controller.migration.facts import Gatherer

pytestmark = pytest.mark.anyio

JSON = dict[str, Any]


class Api:
    """Two pages of one job each; ConfigMaps say how they were read."""

    def __init__(self, *, may_list: bool = True, cached: ApiError | None = None) -> None:
        self.may_list, self.cached = may_list, cached
        self.asked: list[str] = []
        self.version = 10

    async def pages(
        self, resource: Resource, namespace: str | None = None, *, page_size: int, on_restart: Any
    ) -> AsyncIterator[RawPage]:
        if resource.kind == "ConfigMap":
            self.asked.append(f"list {namespace} {page_size}")
            if not self.may_list:
                raise Forbidden("no")
            self.version += 1
            yield RawPage([], str(self.version), None)
            raise AssertionError("one page is enough")
        for name in ("a", "b"):
            item = {"metadata": {"name": name, "namespace": "ns"}}
            yield RawPage([msgspec.Raw(msgspec.json.encode(item))], "1", None)

    async def request(self, method: str, path: str, *, params: dict[str, str]) -> Response:
        self.asked.append(f"{method} {path} {params}")
        if self.cached is not None:
            raise self.cached
        return Response(200, {}, b'{"read": "cached"}')

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> JSON:
        self.asked.append(f"get {namespace}/{name}")
        return {"read": "stored"}


async def gathered(api: Api) -> list[JSON | None]:
    gather = Gatherer(api, "ns")
    return [
        (await gather.of(job, snapshot=False)).config_map async for page in gather.pages() for job in page.jobs
    ]  # fmt: skip


PATH = "GET /api/v1/namespaces/ns/configmaps/{}-runtime-snapshot {{'resourceVersion': '{}'}}"
STORED = "get ns/{}-runtime-snapshot"


@pytest.mark.parametrize(
    ("api", "found", "asked"),
    [
        pytest.param(
            Api(), {"read": "cached"}, ["list ns 1", PATH.format("a", 11), "list ns 1", PATH.format("b", 12)],
            id="no older than the page",
        ),
        pytest.param(
            Api(may_list=False), {"read": "stored"}, ["list ns 1", STORED.format("a"), STORED.format("b")],
            id="without the right to list, asked for once",
        ),
        pytest.param(
            Api(cached=ServerTimeout("Too large resource version", status=504)), {"read": "stored"},
            ["list ns 1", PATH.format("a", 11), STORED.format("a"), "list ns 1", PATH.format("b", 12),
             STORED.format("b")],
            id="from a server that is behind",
        ),
        pytest.param(
            Api(cached=NotFound("no", status=404)), None,
            ["list ns 1", PATH.format("a", 11), "list ns 1", PATH.format("b", 12)],
            id="none",
        ),
    ],
)  # fmt: skip
async def test_how_configmaps_are_read(api: Api, found: JSON | None, asked: list[str]) -> None:
    assert await gathered(api) == [found, found]
    assert api.asked == asked
