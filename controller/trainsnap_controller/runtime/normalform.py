# SPDX-License-Identifier: Apache-2.0
"""The normal form of a JobSet spec: what is left of a document once it went through the Kubernetes types.

Runtimes and patches are stored as users wrote them. What is applied must not depend on whether a user wrote ``1000m``
or ``1``, or spelled out an empty list; ``shapes`` says, field by field, what to drop, to add and to write canonically.
"""

from __future__ import annotations

from typing import Any

from trainsnap_controller.runtime.errors import BuildError
from trainsnap_controller.runtime.quantity import QuantityError, canonical
from trainsnap_controller.runtime.shapes import SHAPES, Shape

JSON = dict[str, Any]
_NO_SHAPE = Shape(frozenset(), {})


def job_set_spec(spec: JSON, path: str) -> JSON:
    """The normal form of a whole JobSet spec. ``path`` is where it stands, for messages.

    Raises ``BuildError`` for a quantity that is none.
    """
    return _object(spec, "JobSetSpec", path, whole=True)


def patch(spec: JSON, path: str) -> JSON:
    """The normal form of a partial JobSet spec: nothing that the patch does not name is added.

    Raises ``BuildError`` as ``job_set_spec`` does.
    """
    return _object(spec, "JobSetSpec", path, whole=False)


def env_var(entry: JSON, path: str) -> JSON:
    """One variable of a TrainJob as it is written into a container.

    Its value is always written, also "", and dropped next to a source; references are reduced to what says where the
    value comes from. Raises ``BuildError`` for a divisor that is no quantity.
    """
    source = entry.get("valueFrom")
    if source is None:
        return {"name": entry["name"], "value": entry.get("value", "")}
    converted = dict(source)
    if field := source.get("fieldRef"):
        converted["fieldRef"] = {"fieldPath": field["fieldPath"]}
    if resource := source.get("resourceFieldRef"):
        converted["resourceFieldRef"] = {
            "containerName": resource.get("containerName", ""),
            "resource": resource["resource"],
            "divisor": quantity(resource.get("divisor", "0"), f"{path}.valueFrom.resourceFieldRef.divisor"),
        }
    return {"name": entry["name"], "valueFrom": converted}


def env_list(entries: tuple[JSON, ...], path: str) -> list[JSON]:
    """All variables of a list of a TrainJob. ``path`` is the list's."""
    return [env_var(entry, f"{path}[{index}]") for index, entry in enumerate(entries)]


def quantity(value: Any, path: str) -> str:
    """The canonical text of a quantity. Raises ``BuildError`` naming ``path``."""
    try:
        return canonical(value)
    except QuantityError as error:
        raise BuildError(path, f"{error}") from None


def _object(obj: JSON, kind: str, path: str, *, whole: bool) -> JSON:
    shape = SHAPES.get(kind, _NO_SHAPE)
    result: JSON = {}
    for key, value in obj.items():
        if value is None or value == [] or (key in shape.zero and value in ("", 0, False)):
            continue
        kept = _value(value, shape.fields.get(key, ""), f"{path}.{key}", whole=whole)
        if kept is not None:
            result[key] = kept
    for key, held in shape.fields.items():
        if key not in result and held.startswith("+") and (whole or held == "+quantity"):
            result[key] = _empty(held[1:], f"{path}.{key}")
    return result


def _value(value: Any, held: str, path: str, *, whole: bool) -> Any:
    """The normal form of a field's value, or None where the field vanishes."""
    held = held.removeprefix("+")
    match held:
        case "" | "text":
            return _without_empty(value)
        case "map":
            return value or None
        case "quantity":
            return quantity(value, path)
        case "quantities":
            return {key: quantity(amount, f"{path}[{key}]") for key, amount in value.items()} or None
    if isinstance(value, list):
        return [_object(item, held, f"{path}[{_label(item, i)}]", whole=whole) for i, item in enumerate(value)]
    return _object(value, held, path, whole=whole)


def _without_empty(value: Any) -> Any:
    """A value of a type that ``shapes`` says nothing about: only nulls and empty lists vanish from it."""
    if isinstance(value, dict):
        return {key: _without_empty(item) for key, item in value.items() if item is not None and item != []}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


def _empty(held: str, path: str) -> Any:
    match held:
        case "quantity":
            return "0"
        case "text":
            return ""
    return _object({}, held, path, whole=True)


def _label(item: JSON, index: int) -> str:
    """What a list element is called in a path: its name says more than its place."""
    name = item.get("name")
    return name if isinstance(name, str) and name else str(index)
