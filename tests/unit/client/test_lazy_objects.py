# SPDX-License-Identifier: Apache-2.0
"""Objects that are built when they are first used: no use of any kind shows that they were not there before."""

from __future__ import annotations

import copy
import dataclasses
import gc
import pickle
import pprint
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, TypeAdapter, create_model, field_validator

from support import mutations
from trainsnap_api import models
from trainsnap_api.models import JobSetTemplate, Model, TrainingRuntime, TrainJob, TrainJobSpec

DATA = mutations.runtime("rt", "default")


def read() -> TrainingRuntime:
    return TrainingRuntime.model_validate(DATA)


def eager() -> TrainingRuntime:
    return BaseModel.model_validate.__func__(TrainingRuntime, DATA, by_alias=True, by_name=False)  # type: ignore[attr-defined,no-any-return]


def untouched() -> Any:
    """An object inside another one, as it is before its first use."""
    found = read().spec
    assert type(found) is not models.TrainingRuntimeSpec
    return found


def is_ordinary(obj: Any) -> bool:
    return type(obj) is models.TrainingRuntimeSpec and obj.__pydantic_private__ is None


USES: dict[str, Callable[[Any], Any]] = {
    "a field": lambda obj: obj.template.spec.replicated_jobs[0].name,
    "its class": lambda obj: obj.__class__,
    "isinstance": lambda obj: isinstance(obj, models.TrainingRuntimeSpec),
    "not isinstance": lambda obj: isinstance(obj, TrainJob),
    "match": lambda obj: [1 for _ in [0] if _matched(obj)],
    "equal": lambda obj: obj == eager().spec,
    "equal, on the right": lambda obj: eager().spec == obj,
    "unequal": lambda obj: obj != eager().spec,
    "equal to something else": lambda obj: obj == 1,
    "in a list": lambda obj: obj in [eager().spec],
    "repr": repr,
    "str": str,
    "format": lambda obj: f"{obj} {obj!r}",
    "pprint": pprint.pformat,
    "dir": lambda obj: "template" in dir(obj),
    "vars": lambda obj: list(vars(obj)),
    "iterate": lambda obj: [name for name, _ in obj],
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda obj: pickle.loads(pickle.dumps(obj)),
    "pickle, old protocol": lambda obj: pickle.loads(pickle.dumps(obj, 2)),
    "pickle in Python": lambda obj: pickle.loads(pickle._dumps(obj)),  # type: ignore[attr-defined]
    "model_dump": lambda obj: obj.model_dump(),
    "model_dump_json": lambda obj: obj.model_dump_json(by_alias=True),
    "model_copy": lambda obj: obj.model_copy(deep=True),
    "model_copy with a change": lambda obj: obj.model_copy(update={"template": None}),
    "fields set": lambda obj: obj.model_fields_set,
    "extra": lambda obj: obj.model_extra,
    "an unknown attribute": lambda obj: getattr(obj, "nothing", "nothing"),
    "the class's schema": lambda obj: sorted(obj.model_json_schema()),
    "set": lambda obj: setattr(obj, "ml_policy", None),
    "delete": lambda obj: delattr(obj, "ml_policy"),
    "bool": bool,
}


def _matched(obj: Any) -> bool:
    match obj:
        case models.TrainingRuntimeSpec(template=JobSetTemplate()):
            return True
    return False


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_the_first_use_gives_what_it_gives_of_an_ordinary_object(use: Callable[[Any], Any]) -> None:
    obj, ordinary = untouched(), eager().spec
    assert use(obj) == use(ordinary)
    assert obj == ordinary
    assert obj.dump() == ordinary.dump() if ordinary is not None else True
    assert is_ordinary(obj)


def test_copies_of_untouched_objects_are_ordinary() -> None:
    makers: tuple[Callable[[Any], Any], ...] = (copy.copy, copy.deepcopy, lambda obj: pickle.loads(pickle.dumps(obj)))
    for make in makers:
        assert is_ordinary(make(untouched()))
        assert make(untouched()) == eager().spec


def test_the_outermost_object_is_ordinary_at_once() -> None:
    assert type(read()) is TrainingRuntime


CLASS_USES: dict[str, Callable[[Any], Any]] = {
    "construct": lambda cls: cls(template=None),
    "construct by pydantic": lambda cls: cls.model_construct(template=None),
    "read": lambda cls: cls.model_validate({"template": {}}),
    "read text": lambda cls: cls.model_validate_json("{}"),
    "adapter": lambda cls: TypeAdapter(cls).validate_python({}),
    "field": lambda cls: dict(create_model("Own", spec=(cls, ...))(spec={}))["spec"],
}


@pytest.mark.parametrize("use", CLASS_USES.values(), ids=CLASS_USES.keys())
def test_the_type_of_an_untouched_object_makes_ordinary_ones(use: Callable[[Any], Any]) -> None:
    """``type(x)(...)`` is how generic code makes another object like x."""
    found, want = use(type(untouched())), use(models.TrainingRuntimeSpec)
    assert found == want
    assert found.dump() == want.dump()
    assert is_ordinary(found)


def test_the_type_of_an_untouched_object_is_nothing_to_derive_from() -> None:
    with pytest.raises(TypeError, match=r"derive from trainsnap_api\.\S+\.TrainingRuntimeSpec itself"):
        type("Derived", (type(untouched()),), {})


def test_models_are_unhashable_as_ever() -> None:
    for obj in (untouched(), eager().spec):
        with pytest.raises(TypeError, match="unhashable type: 'TrainingRuntimeSpec'"):
            hash(obj)


def test_an_attribute_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="'TrainingRuntimeSpec' object has no attribute 'nothing'"):
        _ = untouched().nothing


def test_the_api_name_cannot_be_set_on_an_untouched_object() -> None:
    with pytest.raises(AttributeError, match="is called ml_policy in Python"):
        untouched().mlPolicy = None


def test_weak_references() -> None:
    obj = untouched()
    reference = weakref.ref(obj)
    assert obj.template is not None
    assert reference() is obj
    del obj
    gc.collect()
    assert reference() is None


def test_later_changes_of_the_data_do_not_show() -> None:
    unknown = {"a": [{"b": 1}]}
    data = copy.deepcopy(DATA) | {"unknown": unknown}
    data["spec"]["template"]["spec"]["unknown"] = unknown
    want = copy.deepcopy(data)
    runtime = TrainingRuntime.model_validate(data)
    data["spec"]["template"]["spec"]["replicatedJobs"][0]["name"] = "changed"
    data["spec"]["template"]["spec"]["replicatedJobs"].append(1)
    unknown["a"][0]["b"] = 2
    assert runtime.dump() == want


def test_changes_of_the_object_stay_and_do_not_show_in_the_data() -> None:
    want = copy.deepcopy(DATA)
    runtime = TrainingRuntime.model_validate(DATA)
    jobs: Any = runtime.spec.template.spec.replicated_jobs  # type: ignore[union-attr]
    jobs[0].name = "changed"
    jobs[0].template.spec.template.spec.containers[0].env.append(models.EnvVar(name="N", value="1"))
    jobs[0].template.spec.template.spec.containers[0].resources.requests["memory"] = "1Gi"
    jobs.append(models.ReplicatedJob(name="second"))
    got = runtime.dump()["spec"]["template"]["spec"]["replicatedJobs"]
    assert [job["name"] for job in got] == ["changed", "second"]
    container = got[0]["template"]["spec"]["template"]["spec"]["containers"][0]
    assert container["env"][-1] == {"name": "N", "value": "1"}
    assert container["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}
    assert want == DATA


def test_unknown_fields_keep_their_exact_values() -> None:
    values: dict[str, Any] = {
        "big": 10**40,
        "float": 1.0,
        "int": 1,
        "null": None,
        "none": {},
        "list": [1.5, {"a": 2**63}],
    }
    job = TrainJob.model_validate({"spec": {"new": values}, "new": values})
    assert repr(job.dump()) == repr({"spec": {"new": values}, "new": values})
    assert job.spec is not None
    assert job.spec.new == values  # type: ignore[attr-defined]
    assert job.spec.model_extra == {"new": values}


def test_our_models_inside_a_program_s_own() -> None:
    class Mine(BaseModel):
        model_config = ConfigDict(revalidate_instances="always")
        runtime: TrainingRuntime
        spec: models.TrainingRuntimeSpec | TrainJobSpec | None = None

    mine = Mine(runtime=read(), spec=untouched())
    assert mine.runtime == read()
    assert mine.spec == eager().spec
    assert mine.model_dump(by_alias=True, exclude_unset=True) == {"runtime": DATA, "spec": DATA["spec"]}
    assert Mine(runtime=DATA).runtime == read()
    specs = TypeAdapter(list[models.TrainingRuntimeSpec])
    assert specs.dump_python(specs.validate_python([untouched()]), exclude_unset=True, by_alias=True) == [DATA["spec"]]
    assert Model.model_validate(untouched()) == eager().spec


def test_an_untouched_object_is_a_value_for_another_one() -> None:
    other = TrainingRuntime(spec=untouched())
    assert other.dump() == {"spec": DATA["spec"]}
    assert models.TrainingRuntimeSpec.model_validate(untouched()) == eager().spec
    dataclass = dataclasses.make_dataclass("D", [("spec", Any)])
    assert dataclasses.asdict(dataclass(untouched()))["spec"] == eager().spec


def test_subclasses_of_a_program_are_read_by_pydantic() -> None:
    class Checked(TrainJobSpec):
        @field_validator("managed_by")
        @classmethod
        def known(cls, value: str | None) -> str | None:
            if value == "nobody":
                raise ValueError("by whom?")
            return value

    with pytest.raises(ValueError, match="by whom"):
        Checked.model_validate({"managedBy": "nobody"})
    assert type(Checked.model_validate({"trainer": {}}).trainer) is models.Trainer


@pytest.mark.parametrize(
    "options", [{"strict": False}, {"context": {}}, {"by_name": True}, {"extra": "allow"}], ids=repr
)
def test_other_options_are_pydantic_s(options: dict[str, Any]) -> None:
    runtime = TrainingRuntime.model_validate(DATA, **options)
    assert type(runtime.spec) is models.TrainingRuntimeSpec
    assert runtime == read()


def test_threads_that_use_the_same_object_see_the_same_one() -> None:
    count, rounds = 4, 150
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(rounds):
            obj, barrier = read(), threading.Barrier(count)
            seen: list[Any] = []
            threads = [threading.Thread(target=_touch, args=(obj, barrier, seen, n)) for n in range(count)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(seen) == count
            assert len({id(jobs) for jobs, _ in seen}) == 1
            # What each of them added is there: none worked on an object of its own.
            assert sorted(job.name for job in seen[0][0][1:]) == ["0", "1", "2", "3"]
            assert {name for _, name in seen} == {"node"}
            assert obj.spec is not None
            assert is_ordinary(obj.spec)
            assert set(vars(obj.spec)) == set(models.TrainingRuntimeSpec.model_fields)
    finally:
        sys.setswitchinterval(interval)


def _touch(obj: Any, barrier: threading.Barrier, seen: list[Any], number: int) -> None:
    barrier.wait()
    jobs = obj.spec.template.spec.replicated_jobs
    jobs.append(models.ReplicatedJob(name=str(number)))
    seen.append((jobs, jobs[0].name))


def test_no_validator_of_pydantic_is_built_to_read() -> None:
    """It would take most of the time that a program needs until it has its first object."""
    program = (
        "from trainsnap_api.models import TrainJob\n"
        "job = TrainJob.model_validate({'spec': {'runtimeRef': {'name': 'r'}}})\n"
        "print(job.spec.runtime_ref.name, TrainJob.__pydantic_complete__, type(job.spec).__pydantic_complete__)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["r", "False", "False"]
