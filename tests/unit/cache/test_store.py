# SPDX-License-Identifier: Apache-2.0
"""Entries, indexes, and reading our own writes before the watch has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from structlog.testing import capture_logs

from support.scripted import obj
from trainsnap_api.transport.resources import CONFIG_MAP, JOB_SET
from trainsnap_controller.cache import CacheEvent, Entry, Key, Store
from trainsnap_controller.cache.entry import UndecodableObjectError, decode_entry

if TYPE_CHECKING:
    from trainsnap_api.transport.resources import Resource


def entry(document: dict[str, Any] | bytes, resource: Resource = JOB_SET) -> Entry:
    return decode_entry(document if isinstance(document, bytes) else msgspec.json.encode(document), resource)


def told(events: list[CacheEvent]) -> list[str]:
    return [
        f"{e.type} {e.key.name}@{'>'.join(x.resource_version for x in (e.old, e.new) if x is not None)}" for e in events
    ]


class TestEntry:
    def test_the_metadata_that_indexes_need_is_decoded(self) -> None:
        owner = {"apiVersion": "v1", "kind": "TrainJob", "name": "j", "uid": "u1", "controller": True}
        other = {"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u2"}
        got = entry(
            obj("a", 5, metadata={"generation": 3, "labels": {"k": "v"}, "ownerReferences": [other, owner],
                                  "deletionTimestamp": "2026-01-01T00:00:00Z"})
        )  # fmt: skip
        assert got.key == Key("ns", "a")
        assert (got.uid, got.resource_version, got.generation) == ("uid-a", "5", 3)
        assert got.labels == {"k": "v"}
        assert got.controller is not None
        assert (got.controller.kind, got.controller.uid) == ("TrainJob", "u1")
        assert got.deletion_timestamp == "2026-01-01T00:00:00Z"

    def test_absent_metadata_is_empty_and_a_cluster_scoped_key_has_no_namespace(self) -> None:
        got = entry(obj("a", 5, namespace=None))
        assert (got.key, got.generation, got.labels, got.owner_references) == (Key("", "a"), 0, {}, ())
        assert str(got.key) == "a"
        assert got.controller is None

    def test_managed_fields_are_gone_and_nothing_else(self) -> None:
        document = obj("a", 5, spec={"managedFields": [1], "order": {"b": 1, "a": 2}}, metadata={"annotations": {}})
        with_fields = {**document, "metadata": {**document["metadata"], "managedFields": [{"manager": "kubectl"}]}}
        got = entry(with_fields)
        assert got.object() == document
        assert list(got.object()["spec"]["order"]) == ["b", "a"]
        assert b"kubectl" not in got.raw

    def test_items_of_built_in_lists_get_their_kind_back(self) -> None:
        got = entry(b'{"metadata":{"name":"c","namespace":"ns"}}', CONFIG_MAP)
        assert got.object() == {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "c", "namespace": "ns"},
        }

    def test_what_a_caller_does_to_his_copy_stays_his(self) -> None:
        got = entry(obj("a", 5, spec={"list": [1]}))
        got.object()["spec"]["list"].append(2)
        assert got.object()["spec"] == {"list": [1]}

    def test_text_that_confuses_line_splitting_and_escapes_survives(self) -> None:
        text = 'a\u0085b\u2028c\\"managedFields\\":[] \U0001f600'
        assert (
            entry(obj("a", 5, metadata={"annotations": {"t": text}})).object()["metadata"]["annotations"]["t"] == text
        )

    @pytest.mark.parametrize(
        "data",
        [
            pytest.param(b"{", id="cut off"),
            pytest.param(b"[]", id="no object"),
            pytest.param(b'{"kind":"Status"}', id="no metadata"),
            pytest.param(b'{"metadata":{}}', id="no name"),
            pytest.param(b'{"metadata":{"name":5}}', id="name is no text"),
            pytest.param(b'{"metadata":{"name":"a"},"spec":' + b'{"a":' * 9000 + b"1" + b"}" * 9001, id="too deep"),
        ],
    )
    def test_what_is_no_object_is_refused(self, data: bytes) -> None:
        with pytest.raises(UndecodableObjectError, match=r"^jobsets\.jobset\.x-k8s\.io: "):
            entry(data)


class TestIndexes:
    def store(self) -> Store:
        store = Store(JOB_SET)
        store.add_index("owner", lambda e: [o.uid for o in e.owner_references])
        return store

    def owned(self, name: str, version: int, *owners: str) -> Entry:
        references = [{"apiVersion": "v1", "kind": "T", "name": o, "uid": o} for o in owners]
        return entry(obj(name, version, metadata={"ownerReferences": references}))

    def names(self, store: Store, value: str) -> list[str]:
        return sorted(e.name for e in store.by_index("owner", value))

    def test_an_index_follows_changes_and_deletions(self) -> None:
        store = self.store()
        store.apply(self.owned("a", 1, "x"))
        store.apply(self.owned("b", 2, "x", "y"))
        assert self.names(store, "x") == ["a", "b"]
        store.apply(self.owned("b", 3, "y"))
        assert (self.names(store, "x"), self.names(store, "y")) == (["a"], ["b"])
        store.apply(self.owned("b", 4), deleted=True)
        assert self.names(store, "y") == []
        assert self.names(store, "nobody") == []

    def test_an_index_that_comes_late_has_what_is_there(self) -> None:
        store = Store(JOB_SET)
        store.apply(entry(obj("a", 1, metadata={"labels": {"l": "v"}})))
        store.add_index("label", lambda e: e.labels.values())
        assert [e.name for e in store.by_index("label", "v")] == ["a"]

    def test_an_object_on_which_the_function_fails_is_left_out_of_the_index_only(self) -> None:
        store = Store(JOB_SET)
        store.add_index("spec", lambda e: [e.object()["spec"]["name"]])
        with capture_logs() as logs:
            store.apply(entry(obj("odd", 1)))
        store.apply(entry(obj("good", 2, spec={"name": "n"})))
        assert [e.name for e in store.by_index("spec", "n")] == ["good"]
        assert store.get("ns", "odd") is not None
        assert logs[0]["object"] == "ns/odd"

    def test_names_are_checked(self) -> None:
        store = self.store()
        with pytest.raises(KeyError):
            store.by_index("nope", "x")
        with pytest.raises(ValueError, match="exists already"):
            store.add_index("owner", lambda e: [])


class TestReadYourWrites:
    def store(self) -> Store:
        store = Store(JOB_SET)
        store.replace_all({}, "10")
        return store

    def version(self, store: Store, name: str = "a") -> str | None:
        found = store.get("ns", name)
        return found.resource_version if found else None

    def test_a_write_is_seen_at_once_and_reported_when_the_watch_has_it(self) -> None:
        store = self.store()
        assert store.observe_write(obj("a", 11))
        assert self.version(store) == "11"
        assert told(store.apply(entry(obj("a", 11)))) == ["added a@11"]
        assert told(store.apply(entry(obj("a", 12)))) == ["updated a@11>12"]

    def test_an_update_is_reported_with_the_state_that_handlers_knew(self) -> None:
        store = self.store()
        store.apply(entry(obj("a", 11)))
        store.observe_write(obj("a", 13))
        assert told(store.apply(entry(obj("a", 12)))) == ["updated a@11>12"]
        assert self.version(store) == "13", "what somebody wrote before us does not hide our write"
        assert told(store.apply(entry(obj("a", 13)))) == ["updated a@12>13"]

    def test_an_answer_that_comes_after_the_watch_saw_the_deletion_brings_nothing_back(self) -> None:
        store = self.store()
        store.apply(entry(obj("a", 11)))
        store.apply(entry(obj("a", 14)), deleted=True)
        assert not store.observe_write(obj("a", 12))
        assert self.version(store) is None

    def test_an_answer_that_the_watch_has_overtaken_is_ignored(self) -> None:
        store = self.store()
        store.apply(entry(obj("a", 20)))
        assert not store.observe_write(obj("a", 15))
        assert not store.observe_write(obj("a", 20))
        assert self.version(store) == "20"

    def test_a_deletion_after_our_write_ends_it(self) -> None:
        store = self.store()
        store.observe_write(obj("a", 11))
        assert told(store.apply(entry(obj("a", 11)))) == ["added a@11"]
        store.observe_write(obj("a", 12))
        assert told(store.apply(entry(obj("a", 15)), deleted=True)) == ["deleted a@15"]
        assert self.version(store) is None

    def test_an_object_made_anew_survives_the_late_deletion_of_its_predecessor(self) -> None:
        store = self.store()
        store.apply(entry(obj("a", 11, uid="old")))
        store.observe_write(obj("a", 13, uid="new"))
        assert told(store.apply(entry(obj("a", 12, uid="old")), deleted=True)) == ["deleted a@12"]
        assert self.version(store) == "13"
        assert told(store.apply(entry(obj("a", 13, uid="new")))) == ["added a@13"]

    def test_a_write_that_the_watch_never_shows_goes_when_the_watch_has_passed_it(self) -> None:
        store = self.store()
        store.observe_write(obj("elsewhere", 11))
        store.advance("10")
        assert self.version(store, "elsewhere") == "11"
        store.advance("11")
        assert self.version(store, "elsewhere") is None

    def test_a_list_older_than_our_write_does_not_delete_it(self) -> None:
        store = self.store()
        store.observe_write(obj("a", 15))
        assert told(store.replace_all({}, "12")) == []
        assert self.version(store) == "15"
        assert told(store.apply(entry(obj("a", 15)))) == ["added a@15"]

    def test_a_list_newer_than_our_write_counts(self) -> None:
        store = self.store()
        store.observe_write(obj("a", 15))
        assert told(store.replace_all({}, "20")) == []
        assert self.version(store) is None

    def test_when_history_went_backwards_our_writes_are_history_too(self) -> None:
        store = self.store()
        store.observe_write(obj("a", 15))
        store.replace_all({}, "3")
        assert self.version(store) is None
        assert store.observe_write(obj("b", 4))

    def test_before_the_first_list_a_write_is_taken(self) -> None:
        store = Store(JOB_SET)
        assert store.observe_write(obj("a", 11))
        found = entry(obj("a", 11))
        assert told(store.replace_all({found.key: found}, "12")) == ["added a@11"]

    def test_a_version_that_is_no_number_is_left_to_the_watch(self) -> None:
        store = self.store()
        assert not store.observe_write(obj("a", "abc"))

    def test_indexes_show_the_write(self) -> None:
        store = self.store()
        store.add_index("label", lambda e: e.labels.values())
        store.apply(entry(obj("a", 11, metadata={"labels": {"l": "old"}})))
        store.observe_write(obj("a", 12, metadata={"labels": {"l": "new"}}))
        assert [e.name for e in store.by_index("label", "new")] == ["a"]
        assert store.by_index("label", "old") == []
        assert [e.resource_version for e in store.confirmed()] == ["11"]
