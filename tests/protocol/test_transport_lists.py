# SPDX-License-Identifier: Apache-2.0
"""Lists in pages against a server that misbehaves: the list's version, and continue tokens that grow old."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from support.loopback import Waits, pair
from support.misbehaving import reply, reset, status, text
from trainsnap_api.transport import Expired, KindNotServed, MalformedResponse, RawPage, Transport
from trainsnap_api.transport.resources import CONFIG_MAP, TRAIN_JOB

pytestmark = pytest.mark.anyio

TOO_OLD = status(410, "Expired", "The provided continue parameter is too old", metadata={"continue": "inconsistent"})


def page(*names: str, version: str = "10", token: str = "", **metadata: Any) -> dict[str, Any]:
    meta = {"resourceVersion": version, "continue": token, **metadata}
    return {"kind": "List", "metadata": meta, "items": [{"metadata": {"name": name}} for name in names]}


async def names(transport: Transport, **arguments: Any) -> list[str]:
    return [item["metadata"]["name"] for item in (await transport.list(TRAIN_JOB, **arguments)).items]


async def test_pages_are_followed_and_the_version_is_the_lists() -> None:
    async with pair() as (server, transport):
        server.then(
            reply(page("a", "b", token="t/1=", remainingItemCount=3)),
            reply(page("c", "d", token="t/2=", version="10")),
            reply(page("e", version="10")),
        )
        got = await transport.list(TRAIN_JOB, "ns", label_selector="x in (1,2)", field_selector="a=b", page_size=2)
        assert [item["metadata"]["name"] for item in got.items] == ["a", "b", "c", "d", "e"]
        assert got.resource_version == "10"
        selectors = {"labelSelector": "x in (1,2)", "fieldSelector": "a=b", "limit": "2"}
        assert [seen.query for seen in server.seen] == [
            selectors,
            {**selectors, "continue": "t/1="},
            {**selectors, "continue": "t/2="},
        ]
        assert {seen.path for seen in server.seen} == {"/apis/trainer.kubeflow.org/v1alpha1/namespaces/ns/trainjobs"}


async def test_items_of_a_list_have_their_kind_and_keep_their_own() -> None:
    async with pair() as (server, transport):
        items = [{"metadata": {}}, {"apiVersion": "v9", "kind": "Odd", "metadata": {}}]
        server.then(reply({"metadata": {"resourceVersion": "1"}, "items": items}))
        got = (await transport.list(CONFIG_MAP)).items
        assert [(item["apiVersion"], item["kind"]) for item in got] == [("v1", "ConfigMap"), ("v9", "Odd")]


async def test_pages_hand_out_raw_items() -> None:
    async with pair() as (server, transport):
        body = '{"metadata":{"resourceVersion":"1","remainingItemCount":4},"items":[{"a": 1.0},  {"b":"\\u0041"}]}'
        server.then(text(200, body))
        async with aclosing(transport.pages(TRAIN_JOB)) as pages:
            got = [
                ([bytes(item) for item in page.items], page.resource_version, page.remaining) async for page in pages
            ]
        assert got == [([b'{"a": 1.0}', b'{"b":"\\u0041"}'], "1", 4)]


@pytest.mark.parametrize("items", ["null", "[]"])
async def test_an_empty_list_is_a_list(items: str) -> None:
    async with pair() as (server, transport):
        server.then(text(200, '{"metadata":{"resourceVersion":"3"},"items":' + items + "}"))
        got = await transport.list(TRAIN_JOB)
        assert (got.items, got.resource_version) == ([], "3")


async def test_an_expired_continue_token_starts_the_whole_list_again() -> None:
    async with pair() as (server, transport):
        server.then(
            reply(page("a", "gone", token="t1")),
            TOO_OLD,
            reply(page("a", version="20", token="t2")),
            reply(page("b", version="20")),
        )
        got = await transport.list(TRAIN_JOB, page_size=2)
        assert [item["metadata"]["name"] for item in got.items] == ["a", "b"], "nothing of the first try is left"
        assert got.resource_version == "20"
        assert [(seen.query["limit"], seen.query.get("continue")) for seen in server.seen] == [
            ("2", None), ("2", "t1"), ("20", None), ("20", "t2"),
        ]  # fmt: skip


async def test_a_list_that_expires_again_and_again_ends_in_one_page() -> None:
    async with pair() as (server, transport):
        server.then(reply(page("a", token="t")), TOO_OLD, reply(page("a", token="t")), TOO_OLD, reply(page("a", "b")))
        assert await names(transport, page_size=1) == ["a", "b"]
        assert [seen.query.get("limit") for seen in server.seen] == ["1", "1", "10", "10", None]


async def test_a_list_that_is_always_expired_is_not_asked_for_ever() -> None:
    async with pair() as (server, transport):
        server.then(TOO_OLD)
        with pytest.raises(Expired):
            await transport.list(TRAIN_JOB)
        assert len(server.seen) == 3


async def test_pages_without_a_restart_function_raise() -> None:
    async def collect(pages: AsyncIterator[RawPage]) -> None:
        async for _ in pages:
            pass

    async with pair() as (server, transport):
        server.then(reply(page("a", token="t")), TOO_OLD)
        async with aclosing(transport.pages(TRAIN_JOB)) as pages:
            with pytest.raises(Expired):
                await collect(pages)
        assert len(server.seen) == 2


async def test_one_page_when_asked_for() -> None:
    async with pair() as (server, transport):
        server.then(reply(page("a")))
        assert await names(transport, page_size=0) == ["a"]
        assert server.seen[0].query == {}


async def test_a_page_that_breaks_is_asked_for_again_with_the_same_token() -> None:
    async with pair(sleep=Waits()) as (server, transport):
        server.then(reply(page("a", token="t")), reset, reply(page("b")))
        assert await names(transport) == ["a", "b"]
        assert [seen.query.get("continue") for seen in server.seen] == [None, "t", "t"]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("{}", id="no metadata"),
        pytest.param('{"metadata":{},"items":[]}', id="no resourceVersion"),
        pytest.param('{"metadata":{"resourceVersion":"1"},"items":{}}', id="items is an object"),
        pytest.param('{"metadata":{"resourceVersion":1},"items":[]}', id="version is a number"),
        pytest.param('{"metadata":{"resourceVersion":"1"},"items":[', id="cut off"),
    ],
)
async def test_an_answer_that_is_no_list_is_malformed(body: str) -> None:
    async with pair() as (server, transport):
        server.then(text(200, body))
        with pytest.raises(MalformedResponse, match="trainjobs"):
            await transport.list(TRAIN_JOB)


async def test_listing_a_kind_that_is_not_served() -> None:
    async with pair() as (server, transport):
        server.then(text(404, "404 page not found"))
        with pytest.raises(KindNotServed):
            await transport.list(TRAIN_JOB)
