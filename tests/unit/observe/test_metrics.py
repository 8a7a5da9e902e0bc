# SPDX-License-Identifier: Apache-2.0
"""The table of metrics: every row exists, from the first second, under the names that dashboards know."""

from __future__ import annotations

import re

import pytest
from prometheus_client import generate_latest

from trainsnap_api.transport.resources import JOB_SET
from trainsnap_controller.observe.metrics import METRICS, Metrics
from trainsnap_controller.queue import WorkQueue


def text(metrics: Metrics) -> str:
    return generate_latest(metrics.registry).decode()


def test_names_are_unique_valid_and_explained() -> None:
    names = [spec.name for spec in METRICS]
    assert len(names) == len(set(names))
    for spec in METRICS:
        assert re.fullmatch(r"[a-z][a-z0-9_]+", spec.name)
        assert spec.name.endswith("_total") == (spec.type == "counter"), spec.name
        assert spec.help.endswith(".")
        assert (spec.type == "histogram") == bool(spec.buckets)


def test_every_known_combination_is_there_with_zero() -> None:
    metrics = Metrics()
    metrics.controller("c")
    metrics.queue("c")
    metrics.leader().leading("lease", False)
    metrics.cache().attached(JOB_SET, lambda: 7, lambda: True)
    metrics.recorder()
    metrics.certificates()
    metrics.webhooks(["/path"])
    shown = text(metrics)
    for spec in METRICS:
        if spec.name == "rest_client_requests_total":
            continue
        series = [line for line in shown.splitlines() if re.match(rf"{spec.name}(_count|_bucket)?[{{ ]", line)]
        assert series, spec.name
        for value in spec.values:
            assert any(f'="{value}"' in line for line in series), (spec.name, value)
    assert 'trainsnap_cache_objects{resource="jobsets.jobset.x-k8s.io"} 7.0' in shown
    assert 'workqueue_adds_total{controller="c",name="c"} 0.0' in shown


def test_a_queue_tells_its_depth_when_it_is_asked() -> None:
    metrics = Metrics()
    queue: WorkQueue[str] = WorkQueue("q", metrics=metrics.queue("q"))
    queue.add("a")
    labels = {"name": "q", "controller": "q"}
    assert metrics.registry.get_sample_value("workqueue_depth", labels) == 1
    assert metrics.registry.get_sample_value("workqueue_unfinished_work_seconds", labels) == 0


def test_requests_are_counted_by_code_method_and_host() -> None:
    metrics = Metrics()
    count = metrics.rest_client("host:6443")
    count("GET", "/api/v1/x", 200, 0.1)
    count("GET", "/api/v1/y", 200, 0.1)
    count("POST", "/api/v1/x", 0, 0.1)
    value = metrics.registry.get_sample_value
    assert value("rest_client_requests_total", {"code": "200", "method": "GET", "host": "host:6443"}) == 2
    assert value("rest_client_requests_total", {"code": "<error>", "method": "POST", "host": "host:6443"}) == 1


def test_two_managers_in_one_process_do_not_share() -> None:
    one, two = Metrics(), Metrics()
    one.controller("c").failed("panic")
    assert one.registry.get_sample_value("controller_runtime_reconcile_panics_total", {"controller": "c"}) == 1
    assert two.registry.get_sample_value("controller_runtime_reconcile_panics_total", {"controller": "c"}) is None


def test_the_process_itself_is_measured_on_demand() -> None:
    assert "process_resident_memory_bytes" in text(Metrics(process=True))
    assert "process_resident_memory_bytes" not in text(Metrics())


def test_what_is_not_in_the_table_does_not_exist() -> None:
    with pytest.raises(KeyError):
        Metrics().child("nope_total")
