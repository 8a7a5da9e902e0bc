# SPDX-License-Identifier: Apache-2.0
"""Base class of the generated models, and the few value types that JSON schema has no word for.

Used by ``trainsnap_api._generated`` only; ``trainsnap_api.models`` re-exports it. The rule that everything here serves:
what was read is what is written. Unknown fields stay, nothing is defaulted, converted or dropped, and ``null``, ``""``,
``{}`` and absent remain four different things. What is valid is the API server's to judge.
"""

from __future__ import annotations

import functools
import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import core_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

JSON: TypeAlias = dict[str, Any]

IntOrString: TypeAlias = int | str
"""A port, or a count or percentage: ``8080`` and ``"8080"`` are different values, and each stays what it is."""

Quantity: TypeAlias = int | float | str
"""An amount of a resource in the form in which it was written: ``1``, ``"1"``, ``0.5``, ``"500m"``."""


class Exactly:
    """Annotation of a type with its own schema in place of pydantic's."""

    __slots__ = ("schema",)

    def __init__(self, schema: core_schema.CoreSchema) -> None:
        self.schema = schema

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """The schema, whatever the annotated type."""
        return self.schema


def _map_of(value: core_schema.CoreSchema) -> Exactly:
    # In a merge patch null removes a key, so it is kept although the static type is simpler than that.
    return Exactly(core_schema.dict_schema(core_schema.str_schema(), core_schema.nullable_schema(value), strict=True))


StringMap: TypeAlias = Annotated[dict[str, str], _map_of(core_schema.str_schema(strict=True))]
"""Text by free keys, such as labels."""

QuantityMap: TypeAlias = Annotated[
    dict[str, int | float | str],
    _map_of(
        core_schema.union_schema(
            [
                core_schema.int_schema(strict=True),
                core_schema.float_schema(strict=True),
                core_schema.str_schema(strict=True),
            ]
        )
    ),
]
"""Amounts by resource name."""


class Lazy:
    """Annotation of a field whose class is imported when the first object is read or built, not before."""

    __slots__ = ("_module", "_name")

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._module}.{self._name})"

    def __get_pydantic_core_schema__(self, _source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """The schema of the class itself: nothing but the moment of the import differs."""
        return handler.generate_schema(self.target())

    def is_imported(self) -> bool:
        """Whether ``target`` costs nothing."""
        return self._module in sys.modules

    def target(self) -> Any:
        """The class, imported now."""
        return getattr(importlib.import_module(self._module), self._name)


# Imported when something is read or written, not before: they are no part of what importing a class costs.
@functools.cache
def _lazy() -> ModuleType:
    return importlib.import_module("trainsnap_api.lazy")


@functools.cache
def _dumping() -> ModuleType:
    return importlib.import_module("trainsnap_api.dumping")


class Model(BaseModel):
    """An object of the API. Attributes have Python names, everything on the wire has the names of the API.

    Constructed by Python or API names; read from the wire with ``model_validate`` or ``model_validate_json`` by API
    names only, so that an unknown field that happens to have a Python name is not taken for the known one.
    """

    model_config = ConfigDict(
        extra="allow",
        strict=True,
        validate_by_name=True,
        validate_by_alias=True,
        # 177 classes: a validator is built at first use, and only for those that are used.
        defer_build=True,
    )

    def dump(self) -> JSON:
        """The object as JSON data: the fields that were set, also to None, and no others."""
        found: JSON | None = _dumping().dumped(self)
        return self.model_dump(exclude_unset=True, by_alias=True) if found is None else found

    @classmethod
    def model_validate(cls, obj: Any, *, by_alias: bool | None = True, by_name: bool | None = False, **kw: Any) -> Self:
        """The model of JSON data. Raises pydantic.ValidationError for a known field of the wrong type."""
        if by_alias and by_name is False and not kw:
            read: Callable[[Any], Self | None] | None = _lazy().reader(cls)
            if read is not None and (found := read(obj)) is not None:
                return found
        return super().model_validate(obj, by_alias=by_alias, by_name=by_name, **kw)

    @classmethod
    def model_validate_json(
        cls,
        json_data: str | bytes | bytearray,
        *,
        by_alias: bool | None = True,
        by_name: bool | None = False,
        **kw: Any,
    ) -> Self:
        """The model of JSON text. Raises as ``model_validate`` does, also for text that is not JSON."""
        if by_alias and by_name is False and not kw:
            found: Self | None = _lazy().read_json(cls, json_data)
            if found is not None:
                return found
        return super().model_validate_json(json_data, by_alias=by_alias, by_name=by_name, **kw)

    @classmethod
    def from_yaml(cls, text: str | bytes) -> Self:
        """The model of one YAML document; quoted text stays text, whatever it looks like.

        Raises ValueError with one line for what is not YAML or not one document, pydantic.ValidationError as
        ``model_validate`` does. Needs PyYAML (the extra ``client`` brings it).
        """
        from trainsnap_api.yamltext import load_one

        return cls.model_validate(load_one(text))

    def to_yaml(self) -> str:
        """``dump`` as YAML that every YAML 1.1 and 1.2 reader, kubectl among them, reads back as the same object."""
        from trainsnap_api.yamltext import dump

        return dump(self.dump())

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """What was set, and not the dozens of fields that were not."""
        for name in type(self).__pydantic_fields__:
            if name in self.__pydantic_fields_set__:
                yield name, getattr(self, name)
        yield from (self.__pydantic_extra__ or {}).items()

    def model_post_init(self, context: Any, /) -> None:
        """Keeps an unknown field with the Python name of a known one from marking that one as set.

        When the known one was given too, as null, that null is lost: pydantic cannot tell the two cases apart.
        """
        extra = self.__pydantic_extra__
        if extra:
            for name in extra.keys() & type(self).__pydantic_fields__.keys():
                if self.__dict__[name] is None:
                    self.__pydantic_fields_set__.discard(name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuses the API name of a field, which would become an unknown field beside the known one."""
        if name not in type(self).model_fields:
            for field, info in type(self).model_fields.items():
                if info.alias == name:
                    raise AttributeError(f"{type(self).__name__}.{name} is called {field} in Python")
        super().__setattr__(name, value)


class Kind(Model):
    """An object that the API server keeps under a name. Shows itself in one line, in notebooks as a table."""

    def __repr__(self) -> str:
        from trainsnap_api.display import line

        return line(self)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        from trainsnap_api.display import table

        return table(self)
