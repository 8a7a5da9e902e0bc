# SPDX-License-Identifier: Apache-2.0
"""The transport against a real API server: what Kubernetes answers, and who it thinks we are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from support.plane import Target
from trainsnap_api.transport import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    KindNotServed,
    NotFound,
    Resource,
    TooLarge,
    Transport,
)
from trainsnap_api.transport.resources import CONFIG_MAP, LEASE, NAMESPACE, SECRET, SERVICE_ACCOUNT

pytestmark = [pytest.mark.anyio, pytest.mark.api]

WHO_AM_I = Resource("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", namespaced=False)
NOT_INSTALLED = Resource("nowhere.example", "v1", "Thing", "things")


@pytest.fixture
async def api(plane: Target) -> AsyncIterator[Transport]:
    async with await Transport.connect(kubeconfig=plane.kubeconfig, probe=True) as transport:
        yield transport


def config_map(namespace: str, name: str = "x", **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "data": data}


def managers(obj: dict[str, Any]) -> set[tuple[str, str]]:
    return {(entry["manager"], entry["operation"]) for entry in obj["metadata"]["managedFields"]}


async def test_an_object_through_all_verbs(api: Transport, namespace: str) -> None:
    made = await api.create(CONFIG_MAP, config_map(namespace, a="1"), field_manager="maker")
    assert managers(made) == {("maker", "Update")}
    with pytest.raises(AlreadyExists):
        await api.create(CONFIG_MAP, config_map(namespace))

    applied = await api.apply(CONFIG_MAP, config_map(namespace, a="2", b="2"), field_manager="trainer")
    assert applied["data"] == {"a": "2", "b": "2"}
    assert ("trainer", "Apply") in managers(applied)
    with pytest.raises(Conflict) as conflict:
        await api.apply(CONFIG_MAP, config_map(namespace, a="3"), field_manager="other", force=False)
    assert [(cause.field, cause.reason) for cause in conflict.value.causes] == [(".data.a", "FieldManagerConflict")]
    dropped = await api.apply(CONFIG_MAP, config_map(namespace, a="2"), field_manager="trainer")
    assert dropped["data"] == {"a": "2"}, "a field that is applied no more is removed"

    merged = await api.merge_patch(CONFIG_MAP, "x", namespace, {"data": {"a": None, "c": "3"}})
    assert merged["data"] == {"c": "3"}
    assert "trainsnap" in {name for name, _ in managers(merged)}, "the user agent is the default manager"
    patched = await api.json_patch(CONFIG_MAP, "x", namespace, [{"op": "add", "path": "/data/d", "value": "4"}])
    replaced = await api.replace(CONFIG_MAP, {**patched, "data": {"e": "5"}})
    assert replaced["data"] == {"e": "5"}
    with pytest.raises(Conflict):
        await api.replace(CONFIG_MAP, patched)

    dry = await api.merge_patch(CONFIG_MAP, "x", namespace, {"data": {"e": "9"}}, dry_run=True)
    assert dry["data"] == {"e": "9"}
    assert (await api.get(CONFIG_MAP, "x", namespace))["data"] == {"e": "5"}

    with pytest.raises(Conflict):
        await api.delete(CONFIG_MAP, "x", namespace, uid="of-another")
    with pytest.raises(Conflict):
        await api.delete(CONFIG_MAP, "x", namespace, resource_version=made["metadata"]["resourceVersion"])
    await api.delete(CONFIG_MAP, "x", namespace, uid=made["metadata"]["uid"], propagation="Background")
    with pytest.raises(NotFound) as missing:
        await api.get(CONFIG_MAP, "x", namespace)
    assert not isinstance(missing.value, KindNotServed)


async def test_status_goes_to_the_subresource_only(api: Transport, namespace: str) -> None:
    current = await api.merge_patch(NAMESPACE, namespace, None, {"status": {"phase": "Odd"}})
    assert current["status"]["phase"] == "Active", "the main endpoint drops a status"
    condition = {"type": "Seen", "status": "True", "reason": "Test", "message": "", "lastTransitionTime": None}
    body = {"metadata": {"name": namespace}, "status": {"conditions": [condition]}}
    applied = await api.apply(NAMESPACE, body, field_manager="trainer", subresource="status")
    assert [entry["type"] for entry in applied["status"]["conditions"]] == ["Seen"]
    assert any(entry.get("subresource") == "status" for entry in applied["metadata"]["managedFields"])


async def test_unknown_fields_are_refused_or_warned_about(api: Transport, namespace: str) -> None:
    odd = {**config_map(namespace), "bogus": 1}
    with pytest.raises(BadRequest, match='unknown field "bogus"'):
        await api.create(CONFIG_MAP, odd)
    path = CONFIG_MAP.path(namespace)
    body = {"apiVersion": "v1", "kind": "ConfigMap", **odd}
    answer = await api.request("POST", path, params={"fieldValidation": "Warn"}, body=body)
    assert answer.warnings == ('unknown field "bogus"',)


async def test_what_is_too_large(api: Transport, namespace: str) -> None:
    with pytest.raises(Invalid, match="Too long"):
        await api.create(CONFIG_MAP, config_map(namespace, a="x" * 1_200_000))
    with pytest.raises(TooLarge):
        await api.create(CONFIG_MAP, config_map(namespace, a="x" * 4_000_000))


async def test_kinds_that_are_served_and_not(api: Transport) -> None:
    assert await api.served(LEASE)
    assert not await api.served(NOT_INSTALLED)
    assert not await api.served(Resource("apps", "v1", "Thing", "things"))
    for missing in (NOT_INSTALLED, Resource("apps", "v1", "Thing", "things")):
        with pytest.raises(KindNotServed):
            await api.list(missing)
        with pytest.raises(KindNotServed):
            await api.get(missing, "x", "default")


async def test_lists_in_pages_and_a_watch_from_the_lists_version(api: Transport, namespace: str) -> None:
    for number in range(7):
        await api.create(CONFIG_MAP, config_map(namespace, f"x{number}"))
    async with aclosing(api.pages(CONFIG_MAP, namespace, page_size=3)) as stream:
        pages = [page async for page in stream]
    assert [len(page.items) for page in pages] == [3, 3, 1]
    assert len({page.resource_version for page in pages}) == 1

    nasty = {"metadata": {"annotations": {"note": "a\x85b\u2028c"}}}
    await api.merge_patch(CONFIG_MAP, "x0", namespace, nasty)
    await api.delete(CONFIG_MAP, "x1", namespace)
    version = pages[0].resource_version
    got: list[tuple[str, str]] = []
    async with aclosing(api.watch(CONFIG_MAP, namespace, resource_version=version, timeout_seconds=2)) as events:
        async for event in events:
            meta = event.json()["metadata"]
            got.append((event.type, meta.get("name", "")))
            if event.type == "MODIFIED":
                assert meta["annotations"]["note"] == "a\x85b\u2028c"
    assert got[:2] == [("MODIFIED", "x0"), ("DELETED", "x1")]
    assert {kind for kind, _ in got[2:]} <= {"BOOKMARK"}


async def test_a_continue_token_that_means_nothing_and_a_version_of_the_future(api: Transport, namespace: str) -> None:
    with pytest.raises((BadRequest, Expired)):
        await api.request("GET", CONFIG_MAP.path(namespace), params={"continue": "bm9uc2Vuc2U", "limit": 1})
    with pytest.raises(ApiError, match="nonsense"):  # a 500, of all things
        async with aclosing(api.watch(CONFIG_MAP, namespace, resource_version="nonsense")) as events:
            async for _ in events:
                pass


async def test_a_token_provider_acts_as_the_service_account_and_never_as_the_admin(
    plane: Target, api: Transport, namespace: str
) -> None:
    """The kubeconfig holds an admin's client certificate, which would win over any token if it were shown."""
    await api.create(SERVICE_ACCOUNT, {"metadata": {"name": "worker", "namespace": namespace}})

    async def provide() -> str:
        return (await api.service_account_token("worker", namespace, seconds=600)).token

    async with await Transport.connect(kubeconfig=plane.kubeconfig, token_provider=provide) as worker:
        review = await worker.create(WHO_AM_I, {}, field_validation=None)
        assert review["status"]["userInfo"]["username"] == f"system:serviceaccount:{namespace}:worker"
        with pytest.raises(Forbidden, match=f"system:serviceaccount:{namespace}:worker"):
            await worker.list(SECRET, namespace)
