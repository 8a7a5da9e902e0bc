# SPDX-License-Identifier: Apache-2.0
"""Reads JSON data into models without building the objects that nobody looks at. Called by ``Model.model_validate``.

Why. pydantic takes 0.7 us for every object and 0.07 us for every field, given or not: 55 us for a runtime with 32
objects and 400 possible fields, of which most programs look at five. Checking alone takes a quarter of that, and all
of it a third. Building each object at its own time costs more, 3 us: who looks at every one pays twice what it was.

How. The data is checked, and copied, by a validator of the same pydantic rules that makes dictionaries of API names
instead of models (``_validator``). Of the models only the outermost is built. An object inside it is an instance of a
hidden subclass of its class, which holds its part of the data and becomes an ordinary object of its class, one level
of it, at the first use of any kind (``_wake``). Nothing of it is left then.

What is refused here is not an error: the caller has pydantic read it in the usual way, which raises or accepts. So all
errors are pydantic's own. Untouched objects differ from others in one thing: ``type(x)`` is the hidden subclass;
``isinstance`` and ``x.__class__`` see no difference. Never used for classes that are not generated, since a subclass
may have validators.
"""

from __future__ import annotations

import functools
from abc import ABCMeta
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, GetCoreSchemaHandler, ValidationError
from pydantic_core import SchemaValidator, core_schema

from trainsnap_api.base import JSON, Exactly, Lazy, Model

M = TypeVar("M", bound=Model)
Extra = Literal["allow", "ignore"]

_GENERATED = "trainsnap_api._generated."
_ANY = "any JSON"
_CONFIG = core_schema.CoreConfig(strict=True)
_PLAIN: dict[Any, core_schema.CoreSchema] = {
    str: core_schema.str_schema(),
    int: core_schema.int_schema(),
    float: core_schema.float_schema(),
    bool: core_schema.bool_schema(),
    type(None): core_schema.none_schema(),
    Any: core_schema.definition_reference_schema(_ANY),
}


@functools.cache
def reader(cls: type[M]) -> Callable[[Any], M | None] | None:
    """A function that gives the model of JSON data, later changes of which do not show in it, or None when pydantic
    has to look at the data. No function for a class that is not generated."""
    if not cls.__module__.startswith(_GENERATED):
        return None
    check = _checking(cls).validate_python

    def read(data: Any) -> M | None:
        if not isinstance(data, dict):
            return None
        try:
            known = check(data)
            # Half as much time again to keep unknown fields too, so that is done only when there are some.
            return _filled(cls, known if known == data else _keeping(cls).validate_python(data))
        except ValidationError:
            return None

    return read


def read_json(cls: type[M], text: str | bytes | bytearray) -> M | None:
    """The model of JSON text, or None as above."""
    if not cls.__module__.startswith(_GENERATED):
        return None
    try:
        return _filled(cls, _keeping(cls).validate_json(text))
    except ValidationError:
        return None


# Checking


def accepts(cls: type[BaseModel], data: object) -> bool:
    """Whether the class is generated and data is valid for it."""
    if not cls.__module__.startswith(_GENERATED):
        return False
    try:
        _checking(cls).validate_python(data)
    except ValidationError:
        return False
    return True


@functools.cache
def _checking(cls: type[BaseModel]) -> SchemaValidator:
    return _validator(cls, "ignore")


@functools.cache
def _keeping(cls: type[BaseModel]) -> SchemaValidator:
    return _validator(cls, "allow")


def _validator(cls: type[BaseModel], extra: Extra) -> SchemaValidator:
    """Accepts what the class accepts by API names, and makes new dictionaries of it, with unknown fields or without."""
    any_json = core_schema.union_schema(
        [
            core_schema.dict_schema(core_schema.any_schema(), _PLAIN[Any]),
            core_schema.list_schema(_PLAIN[Any]),
            core_schema.any_schema(),
        ],
        mode="left_to_right",
        ref=_ANY,
    )
    schema = core_schema.definitions_schema(_dictionary(cls, extra, now=True), [any_json])
    return SchemaValidator(schema, _CONFIG)


def _dictionary(cls: type[BaseModel], extra: Extra, *, now: bool = False) -> core_schema.CoreSchema:
    fields = {
        info.alias or name: core_schema.typed_dict_field(_schema(info.annotation, extra, now=now), required=False)
        for name, info in cls.__pydantic_fields__.items()
    }
    kept = _PLAIN[Any] if extra == "allow" else None
    # The configuration belongs to each dictionary: none takes that of the one around it.
    return core_schema.typed_dict_schema(fields, extra_behavior=extra, extras_schema=kept, config=_CONFIG)


def _schema(annotation: Any, extra: Extra, *, now: bool) -> core_schema.CoreSchema:
    """The rules for the types that the generator writes. Raises KeyError for another one.

    now: import classes that are elsewhere; otherwise that is done when there is something to check by their rules.
    """
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        if isinstance(args[1], Exactly):
            return args[1].schema
        lazy: Lazy = args[1]
        return _dictionary(lazy.target(), extra) if now or lazy.is_imported() else _elsewhere(lazy, extra)
    if origin in (Union, UnionType):
        choices = [_schema(arg, extra, now=now) for arg in args if arg is not type(None)]
        choice = choices[0] if len(choices) == 1 else core_schema.union_schema(list(choices))
        return core_schema.nullable_schema(choice) if type(None) in args else choice
    if origin is list:
        return core_schema.list_schema(_schema(args[0], extra, now=now))
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return _dictionary(annotation, extra)
    return _PLAIN[annotation]


def _elsewhere(lazy: Lazy, extra: Extra) -> core_schema.CoreSchema:
    check = functools.cache(lambda: _validator(lazy.target(), extra).validate_python)
    return core_schema.no_info_plain_validator_function(lambda value: check()(value))


def _inner(annotation: Any) -> type[Model] | Lazy | None:
    """The class of the objects in a field, alone or in a list."""
    if isinstance(annotation, Lazy) or (isinstance(annotation, type) and issubclass(annotation, Model)):
        return annotation
    parts = (*get_args(annotation), *getattr(annotation, "__metadata__", ()))
    return next((found for part in parts if (found := _inner(part)) is not None), None)


# One level of an object


@dataclass(frozen=True, slots=True)
class Level:
    """What is needed to build one object of a class without looking into the objects that it holds."""

    names: dict[str, str]
    """Python names by API names."""
    inner: dict[str, type[Model] | Lazy]
    """Classes of the objects in a field, alone or in a list, by Python names."""
    keys: dict[str, str]
    """API names by Python names."""
    blank: dict[str, None]
    """What pydantic keeps when nothing is given."""


@functools.cache
def level_of(cls: type[BaseModel]) -> Level:
    """Kept for every class that was used."""
    fields = cls.__pydantic_fields__
    inner = {name: _inner(info.annotation) for name, info in fields.items()}
    return Level(
        names={info.alias or name: name for name, info in fields.items()},
        inner={name: found for name, found in inner.items() if found is not None},
        keys={name: info.alias or name for name, info in fields.items()},
        blank=dict.fromkeys(fields),
    )


def _build(level: Level, data: JSON) -> tuple[JSON, JSON, set[str]]:
    """What pydantic keeps of an object: values of the known fields, of the unknown ones, and names of those given."""
    names, inner = level.names, level.inner
    values: JSON = level.blank.copy()
    extra: JSON = {}
    given: set[str] = set()
    for key, value in data.items():
        if key in names:
            name = names[key]
            given.add(name)
            values[name] = value if value is None or name not in inner else _objects(inner[name], value)
        else:
            extra[key] = value
            # An unknown field with the Python name of a known one does not mark that one as given.
            if key not in values:
                given.add(key)
    return values, extra, given


def _objects(inner: type[Model] | Lazy, value: Any) -> Any:
    hidden = _hidden(inner)
    return [_asleep(hidden, one) for one in value] if type(value) is list else _asleep(hidden, value)


@functools.cache
def class_of(inner: type[Model] | Lazy) -> type[Model]:
    """The class itself, imported when there is an object of it."""
    cls: type[Model] = inner.target() if isinstance(inner, Lazy) else inner
    return cls


_new = object.__new__
_set_values, _set_extra, _set_given, _set_private = (
    vars(BaseModel)[slot].__set__
    for slot in ("__dict__", "__pydantic_extra__", "__pydantic_fields_set__", "__pydantic_private__")
)
_get_private = vars(BaseModel)["__pydantic_private__"].__get__
_set_class = vars(object)["__class__"].__set__


def _filled(cls: type[M], data: JSON) -> M:
    return _fill(_new(cls), *_build(level_of(cls), data))


def _fill(obj: M, values: JSON, extra: JSON, given: set[str]) -> M:
    _set_values(obj, values)
    _set_extra(obj, extra)
    _set_given(obj, given)
    _set_private(obj, None)
    return obj


# Objects that are not built yet


def _asleep(hidden: type[Model], data: JSON) -> Model:
    """An object that keeps its data where pydantic has the private attributes, of which generated classes have none."""
    obj = _new(hidden)
    _set_private(obj, {"data": data})
    return obj


def untouched(obj: object, cls: type[Model]) -> JSON | None:
    """The data of an object of the class that was not used yet, to be copied. None for all others."""
    kept = _get_private(obj) if type(obj) is _hidden(cls) else None
    data: JSON | None = kept and kept["data"]
    return data


def _wake(obj: Model, cls: type[Model], level: Level) -> None:
    """Makes an ordinary object of it.

    Several threads may come here with the same object: all of them store the result of the one that was first to
    publish it, and whoever sees the real class sees everything that was stored before it.
    """
    kept = _get_private(obj)
    if kept is not None:
        _fill(obj, *kept.setdefault("built", _build(level, kept["data"])))
    _set_class(obj, cls)


@functools.cache
def _hidden(inner: type[Model] | Lazy) -> type[Model]:
    """The subclass of a class for its objects that are not built yet. Made past pydantic's metaclass: no new fields."""
    if isinstance(inner, Lazy):
        return _hidden(class_of(inner))
    cls, level = inner, level_of(inner)

    def look_up(obj: Model, name: str) -> Any:
        _wake(obj, cls, level)
        return object.__getattribute__(obj, name)

    def woken(name: str) -> Any:
        def method(obj: Model, *args: Any, **kw: Any) -> Any:
            _wake(obj, cls, level)
            return getattr(obj, name)(*args, **kw)

        return method

    # Who takes ``type(x)`` for the class of x gets the class.
    def construct(_: type[Model], /, *args: Any, **kw: Any) -> Model:
        return cls(*args, **kw)

    def derive(_: type[Model], /, **_kw: Any) -> None:
        raise TypeError(f"derive from {cls.__module__}.{cls.__qualname__} itself, not from the type of an object")

    def schema(_: type[Model], _source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return handler.generate_schema(cls)

    special = {
        name
        for base in cls.__mro__
        for name, value in vars(base).items()
        if isinstance(value, FunctionType) and name.startswith("__") and name.endswith("__")
    }
    # Operators look methods up in the type, past __getattribute__.
    namespace = {name: woken(name) for name in special} | {
        "__slots__": (),
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__getattribute__": look_up,
        "__new__": construct,
        "__init_subclass__": classmethod(derive),
        "__get_pydantic_core_schema__": classmethod(schema),
    }
    hidden: type[Model] = ABCMeta.__new__(type(cls), cls.__name__, (cls,), namespace)
    return hidden
