# SPDX-License-Identifier: Apache-2.0
"""Whatever the schemas admit is built or refused by name: never a traceback, never by chance, never in place."""

from __future__ import annotations

import copy
import functools
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support import offline_golden as offline
from support.schema_values import Values
from trainsnap_api.transport.resources import JOB_SET
from trainsnap_controller.runtime import status
from trainsnap_controller.runtime.errors import BuildError
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.runtime.observed import Need, Observed
from trainsnap_controller.runtime.registry import standard

JSON = dict[str, Any]
NOW = datetime(2026, 5, 6, tzinfo=UTC)
FRAMEWORK = standard(ssh_key_pair=lambda: (b"a", b"b"), curve_secret_key=lambda: bytes(32))
EXAMPLES = 2000


@functools.cache
def schemas() -> dict[str, JSON]:
    return offline.schemas()


def pair(seed: int, density: float) -> tuple[JSON, JSON]:
    """A TrainJob and a runtime's spec, as the API server would store them."""
    values = Values(Random(seed), density)
    job_schema, runtime_schema = (schemas()[kind]["properties"] for kind in ("TrainJob", "TrainingRuntime"))
    spec = values.of(job_schema["spec"], "spec")
    trainer = values.of(job_schema["spec"]["properties"]["trainer"], "trainer")
    if values.random.random() < 0.8:
        spec["trainer"] = trainer
    obj = {"metadata": {"name": "alpha", "namespace": "team", "uid": "u", "generation": 1}, "spec": spec}
    obj["metadata"]["creationTimestamp"] = "2026-05-05T00:00:00Z"
    runtime = values.of(runtime_schema["spec"], "spec")
    runtime.setdefault("template", values.of(runtime_schema["spec"]["properties"]["template"], "template"))
    return offline.defaulted(obj, schemas()["TrainJob"]), offline.defaulted(runtime, runtime_schema["spec"])


def outcome(obj: JSON, runtime: JSON) -> JSON:
    """Everything that is decided about a job, as JSON."""
    job = Job.from_json(obj)
    FRAMEWORK.needs(job, runtime)
    problems = [str(error) for error in FRAMEWORK.validate(job, runtime)]
    try:
        plan = FRAMEWORK.build(job, runtime, Observed())
    except BuildError as error:
        assert error.field and error.rule
        return {"problems": problems, "refused": str(error)}
    return {"problems": problems, "built": [component.document() for component in plan.components]}


many = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
objects = st.tuples(st.integers(0, 2**32), st.sampled_from((0.05, 0.2, 0.35, 0.5, 0.8)))


@pytest.mark.timeout(900)
@many
@given(objects)
def test_built_or_refused_by_name(drawn: tuple[int, float]) -> None:
    obj, runtime = pair(*drawn)
    before = copy.deepcopy((obj, runtime))

    first = outcome(obj, runtime)

    assert (obj, runtime) == before, "what was given was changed"
    assert json.dumps(outcome(obj, runtime)) == json.dumps(first), "not the same twice"
    for document in first.get("built", []):
        assert document["metadata"]["ownerReferences"][0]["uid"] == "u"
    if "built" in first:
        assert first["built"][-1]["kind"] == "JobSet"


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(objects, st.booleans())
def test_status_of_any_job_and_any_job_set(drawn: tuple[int, float], present: bool) -> None:
    obj, _ = pair(*drawn)
    values = Values(Random(drawn[0]), drawn[1])
    obj["status"] = values.of(schemas()["TrainJob"]["properties"]["status"], "status")
    for item in obj["status"].get("conditions", []):
        item["lastTransitionTime"] = "2026-05-05T00:00:00Z"
    job_set = {"metadata": {"name": "alpha"}, "spec": {}, "status": values.of({"type": "object"}, "status")}

    first = status.decide(Job.from_json(obj), job_set if present else None, NOW)
    again = status.decide(Job.from_json({**obj, "status": first.status}), job_set if present else None, NOW)

    assert not again.changed and again.status == first.status, "a second look must find nothing to do"


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(objects)
def test_what_runs_is_left_alone_whatever_it_is(drawn: tuple[int, float]) -> None:
    obj, runtime = pair(*drawn)
    obj["spec"]["suspend"] = False
    job = Job.from_json(obj)
    live = {"metadata": {"name": "alpha", "namespace": "team"}, "spec": {"suspend": False}}
    seen = Observed({Need(JOB_SET, "team", "alpha"): live})
    try:
        plan = FRAMEWORK.build(job, runtime, seen)
    except BuildError:
        return
    assert all(component.resource is not JOB_SET for component in plan.components)


def test_the_same_bytes_whatever_the_hash_seed() -> None:
    """Sets and dictionaries by hash would show here: two processes, two seeds, one answer."""
    script = (
        "import json, sys; sys.path[:0] = sys.argv[1:]\n"
        "from property.test_build_fuzz import outcome, pair\n"
        "print(json.dumps([outcome(*pair(seed, 0.35)) for seed in range(40)]))"
    )
    folder = str(offline.ROOT / "tests")
    answers = {
        subprocess.run(
            [sys.executable, "-c", script, folder],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(answers) == 1
