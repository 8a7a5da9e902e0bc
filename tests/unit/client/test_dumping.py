# SPDX-License-Identifier: Apache-2.0
"""``dump`` is ``model_dump`` of what was set, by API names: also for what is no JSON, for which it warns."""

from __future__ import annotations

import datetime
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import field_serializer

from support import mutations
from trainsnap_api import dumping, models
from trainsnap_api.models import Model, TrainingRuntime, TrainJob, TrainJobSpec

_THREE: Any = 3


def job(**spec: Any) -> TrainJob:
    return TrainJob(spec=TrainJobSpec(**spec))


def changed(**values: Any) -> TrainJob:
    """A job that was read, and of which something was set to what it should not be."""
    found = TrainJob.model_validate(mutations.trainjob("a", "b"))
    for name, value in values.items():
        setattr(found.spec, name, value)
    return found


class Shouting(TrainJobSpec):
    @field_serializer("managed_by")
    def loud(self, value: str | None) -> str | None:
        return value and value.upper()


def jobs() -> dict[str, TrainJob]:
    return {
        "nothing": TrainJob(),
        "null": job(trainer=None),
        "built by hand": job(trainer=models.Trainer(env=[models.EnvVar(name="a", value="b")])),
        "in another order": job(suspend=True, labels=None, managed_by="x"),
        "as it was read": changed(),
        "changed": changed(suspend=None),
        "an unknown field": changed(new={"a": [1, {"b": None}]}),
        "a model in an unknown field": changed(new=models.EnvVar(name="a")),
        "a date": changed(new=datetime.date(2030, 1, 1)),
        "a tuple": changed(new=(1, [2])),
        "text for a boolean": changed(suspend="yes"),
        "a boolean for a number": changed(active_deadline_seconds=True),
        "data for an object": changed(trainer={"image": "i"}),
        "another object": changed(trainer=models.EnvVar(name="a")),
        "an untouched object of another class": changed(trainer=changed().spec),
        "an object for a list": changed(runtime_patches=models.RuntimePatch(manager="m")),
        "a tuple of objects": changed(runtime_patches=(models.RuntimePatch(manager="m"),)),
        "a program's own class": TrainJob(spec=Shouting(managed_by="x")),
        "made without checks": TrainJob.model_construct(spec=TrainJobSpec.model_construct(suspend=_THREE)),
    }


@pytest.mark.parametrize("name", jobs())
def test_it_is_model_dump(name: str) -> None:
    def of(dump: Callable[[Model], Any]) -> tuple[str, list[str]]:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            found = repr(dump(jobs()[name]))
        return found, [str(warning.message) for warning in seen]

    assert of(lambda obj: obj.dump()) == of(lambda obj: obj.model_dump(exclude_unset=True, by_alias=True))


def test_changes_of_what_was_dumped_do_not_show_in_the_object() -> None:
    want = mutations.runtime("a", "b") | {"unknown": {"a": [1]}}
    runtime = TrainingRuntime.model_validate(want)
    for _ in range(2):
        got = runtime.dump()
        assert got == want
        got["unknown"]["a"].append(2)
        got["metadata"]["name"] = "changed"
        got["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"].clear()
        assert runtime.metadata is not None
    assert runtime.spec is not None
    assert dumping.dumped(runtime.spec) == want["spec"]


def test_no_serializer_of_pydantic_is_built_for_it() -> None:
    program = (
        "from trainsnap_api.models import TrainJob\n"
        "job = TrainJob.model_validate({'spec': {'runtimeRef': {'name': 'r'}}})\n"
        "print(job.dump()['spec']['runtimeRef']['name'], TrainJob.__pydantic_complete__)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["r", "False"]
