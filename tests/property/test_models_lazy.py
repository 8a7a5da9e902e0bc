# SPDX-License-Identifier: Apache-2.0
"""Reading without building objects says and gives what pydantic does by itself: equal objects, or equal errors."""

from __future__ import annotations

import collections
import copy
import enum
import itertools
import json
import pickle
from decimal import Decimal
from random import Random
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from support import mutations
from support.generated import KINDS, objects, schema_of
from trainsnap_api import lazy, models
from trainsnap_api.models import Model

JSON = dict[str, Any]
M = TypeVar("M", bound=Model)


class Text(str):
    """Text of a class of its own."""


class Colour(enum.StrEnum):
    RED = "red"


ODD: tuple[Any, ...] = (
    *mutations.WRONG, Text("a"), Colour.RED, ("a",), {"a"}, b"a", Decimal(1), 10**30, -(10**30), float("inf"), 1e300,
    1.0, "\ud800", {"a": "\ud800"}, {1: 2}, {"x": {None: 1}}, collections.OrderedDict(a="b"),
    collections.UserDict(a="b"), models.Container(name="c"), models.TrainJobSpec(), object, [[[]]], [None], {"a": None},
)  # fmt: skip
"""What JSON has and some of what it has not."""


def by_pydantic(cls: type[M], obj: Any) -> M:
    """As if there were no other way of reading."""
    return BaseModel.model_validate.__func__(cls, obj, by_alias=True, by_name=False)  # type: ignore[attr-defined,no-any-return]


def by_pydantic_from_text(cls: type[M], text: str) -> M:
    return BaseModel.model_validate_json.__func__(cls, text, by_alias=True, by_name=False)  # type: ignore[attr-defined,no-any-return]


def state(value: Any) -> Any:
    """All that pydantic keeps of an object, and of those in it. A dictionary of another class may become one."""
    if isinstance(value, Model):
        values = {name: state(child) for name, child in vars(value).items()}
        extra = [(key, state(child)) for key, child in (value.model_extra or {}).items()]
        return type(value), list(values.items()), extra, value.model_fields_set, value.__pydantic_private__
    if type(value) is list:
        return [state(child) for child in value]
    if isinstance(value, dict):
        return [(repr(key), state(child)) for key, child in value.items()]
    return (type(value), repr(value))


def agree(cls: type[Model], obj: Any) -> bool:
    """Whether the object is valid, by both ways of reading it."""
    try:
        want = by_pydantic(cls, obj)
    except ValidationError as refused:
        with pytest.raises(ValidationError) as got:
            cls.model_validate(obj)
        assert repr(got.value.errors(include_url=False)) == repr(refused.errors(include_url=False))
        return False

    def read() -> Model:
        return cls.model_validate(obj)

    assert state(read()) == state(want)
    assert read() == want
    assert want == read()
    assert state(copy.deepcopy(read())) == state(want)
    assert read().model_dump() == want.model_dump()
    assert read().dump() == want.dump() == want.model_dump(exclude_unset=True, by_alias=True)
    if "OrderedDict" not in repr(want.model_dump()):
        assert repr(read()) == repr(want)
        assert repr(read().dump()) == repr(want.model_dump(exclude_unset=True, by_alias=True))
        assert repr(want.dump()) == repr(read().dump())
    return True


def agree_on_text(cls: type[Model], obj: JSON) -> None:
    text = json.dumps(obj)
    try:
        want = by_pydantic_from_text(cls, text)
    except ValidationError as refused:
        with pytest.raises(ValidationError) as got:
            cls.model_validate_json(text)
        assert got.value.errors(include_url=False) == refused.errors(include_url=False)
    else:
        assert state(cls.model_validate_json(text)) == state(want)
        assert cls.model_validate_json(text).model_dump_json() == want.model_dump_json()
        assert state(pickle.loads(pickle.dumps(cls.model_validate_json(text)))) == state(want)


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_valid_objects(name: str, data: st.DataObject) -> None:
    obj = data.draw(objects(schema_of(name)))
    assert agree(getattr(models, name), obj)
    agree_on_text(getattr(models, name), obj)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_objects_with_something_wrong(seed: int) -> None:
    random = Random(seed)
    make = random.choice((mutations.trainjob, mutations.runtime))
    obj = mutations.mutate(make("a", "b"), random)
    cls = models.TrainJob if make is mutations.trainjob else models.TrainingRuntime
    agree(cls, obj)
    agree_on_text(cls, obj)


@settings(max_examples=150, deadline=None)
@given(make=st.sampled_from([mutations.trainjob, mutations.runtime]), data=st.data())
def test_objects_with_something_odd(make: Any, data: st.DataObject) -> None:
    """Anything in any place, also what is no JSON."""
    obj = make("a", "b")
    holder, key = data.draw(st.sampled_from(list(places(obj))))
    value = data.draw(st.sampled_from(ODD))
    if isinstance(holder, dict) and data.draw(st.booleans()):
        key = "newField"
    holder[key] = value
    agree(models.TrainJob if make is mutations.trainjob else models.TrainingRuntime, obj)


def places(value: Any) -> Any:
    for key, child in list(value.items()) if isinstance(value, dict) else list(enumerate(value)):
        yield value, key
        if isinstance(child, (dict, list)):
            yield from places(child)


def test_every_class_is_read_so() -> None:
    """No annotation that the generator writes is unknown to it, and no field refers to its own class."""
    odd = itertools.cycle(ODD)
    for name in models.__all__:
        cls = getattr(models, name)
        if isinstance(cls, type) and issubclass(cls, Model) and cls not in (models.Model, models.Kind):
            read = lazy.reader(cls)
            assert read is not None
            for field, info in cls.model_fields.items():
                for value in itertools.islice(odd, 5):
                    agree(cls, {info.alias or field: value})
                assert read({info.alias or field: None}) is not None


@given(st.text())
@example("")
@example("{")
@example('{"spec": {"suspend": true, "suspend": false}, "a": 1, "a": 2}')
@example('{"spec": {"activeDeadlineSeconds": 100000000000000000000000000000}, "x": 1e400, "y": NaN}')
def test_text_of_any_kind(text: str) -> None:
    try:
        want = by_pydantic_from_text(models.TrainJob, text)
    except ValidationError as refused:
        with pytest.raises(ValidationError) as got:
            models.TrainJob.model_validate_json(text)
        assert got.value.errors(include_url=False) == refused.errors(include_url=False)
    else:
        assert state(models.TrainJob.model_validate_json(text)) == state(want)
