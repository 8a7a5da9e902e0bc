# SPDX-License-Identifier: Apache-2.0
"""Entries are replaced in place where a match exists, else added at the end."""

from __future__ import annotations

from typing import Any

import pytest

from trainsnap_controller.runtime import upsert

JSON = dict[str, Any]


def named(*names: str, **fields: Any) -> list[JSON]:
    return [{"name": name, **fields} for name in names]


def test_variables_are_replaced_whole_and_keep_their_place() -> None:
    existing: list[JSON] = [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]

    got = upsert.env(existing, [{"name": "C", "value": "3"}, {"name": "B", "value": "2"}])

    assert got == [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "C", "value": "3"}]


def test_the_last_of_equal_names_wins() -> None:
    assert upsert.env(None, [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]) == named("A", value="2")


def test_mounts_match_by_path_not_by_volume() -> None:
    existing = [{"name": "work", "mountPath": "/a"}, {"name": "work", "mountPath": "/b"}]

    got = upsert.mounts(existing, [{"name": "new", "mountPath": "/a"}, {"name": "work", "mountPath": "/c"}])

    assert [(item["name"], item["mountPath"]) for item in got] == [("new", "/a"), ("work", "/b"), ("work", "/c")]


def test_volumes_match_by_name() -> None:
    got = upsert.volumes([{"name": "a", "emptyDir": {}}], [{"name": "a", "configMap": {"name": "c"}}])
    assert got == [{"name": "a", "configMap": {"name": "c"}}]


@pytest.mark.parametrize(
    ("existing", "want"),
    [
        pytest.param([], [29500], id="none"),
        pytest.param([{"containerPort": 8080}], [8080, 29500], id="an unnamed port is another port"),
        pytest.param([{"containerPort": 8080}, {"containerPort": 9090}], [8080, 9090, 29500], id="two unnamed ports"),
        pytest.param([{"containerPort": 29500, "name": "rdzv"}], [29500], id="the number is taken"),
        pytest.param([{"containerPort": 29500, "protocol": "UDP"}], [29500, 29500], id="another protocol"),
        pytest.param([{"containerPort": 29500, "protocol": "TCP"}], [29500], id="TCP is what no protocol means"),
    ],
)
def test_ports(existing: list[JSON], want: list[int]) -> None:
    got = upsert.ports(existing, [{"containerPort": 29500}])
    assert [item["containerPort"] for item in got] == want


def test_ports_of_one_name_are_one_port() -> None:
    got = upsert.ports([{"name": "http", "containerPort": 80}], [{"name": "http", "containerPort": 81}])
    assert got == [{"name": "http", "containerPort": 81}]


def test_a_container_change_leaves_alone_what_it_does_not_name() -> None:
    container = {"name": "node", "env": named("A", value="1"), "image": "i"}
    before = repr(container)

    got = upsert.on_container(port_list=[{"containerPort": 1}])(container)

    assert got == {**container, "ports": [{"containerPort": 1}]}
    assert repr(container) == before
