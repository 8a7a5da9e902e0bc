# SPDX-License-Identifier: Apache-2.0
"""Reads what a trainer pod reports: the body of a request as the fields of ``status.trainerStatus``.

Pure. It checks types only, as the reference's decoder does; ranges, lengths and what is required are the schema's
business, so that the API server's words reach the pod.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, NoReturn

JSON = dict[str, Any]

INT32: Final = range(-(2**31), 2**31)
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)([.,]\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


class NotDecodable(Exception):
    """The body is not a report; the text says why, for the log."""


def decode(body: bytes) -> JSON | None:
    """The ``trainerStatus`` of a body, or None when it has none.

    Unknown fields are dropped, null is the same as absent, and what follows the first JSON value is not looked at.
    Times come out in UTC with whole seconds. Raises NotDecodable.
    """
    try:
        text = body.decode(errors="replace").lstrip(" \t\r\n")
        value, _ = json.JSONDecoder(parse_constant=_no_constant).raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise NotDecodable("is not JSON") from error
    if value is None:
        return None
    reported = _object(value, "the body").get("trainerStatus")
    if reported is None:
        return None
    return _fields(_object(reported, "trainerStatus"), "trainerStatus", _FIELDS)


def _fields(obj: JSON, path: str, known: dict[str, Callable[[Any, str], Any]]) -> JSON:
    """The known fields that are there, in the order in which they are known."""
    return {
        name: value
        for name, read in known.items()
        if obj.get(name) is not None and (value := read(obj[name], f"{path}.{name}")) != []
    }


def _object(value: Any, path: str) -> JSON:
    if not isinstance(value, dict):
        raise NotDecodable(f"{path} is not an object")
    return value


def _integer(value: Any, path: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value not in INT32:
        raise NotDecodable(f"{path} is not a 32-bit integer")
    return value


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise NotDecodable(f"{path} is not a string")
    # Half a surrogate pair is no character and cannot be sent on.
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _time(value: Any, path: str) -> str:
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise NotDecodable(f"{path} is not a time as RFC 3339 writes it")
    seconds, _, zone = match.groups()
    try:
        moment = datetime.fromisoformat(seconds + zone).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise NotDecodable(f"{path} is no moment that exists") from error
    return moment.replace(tzinfo=None).isoformat() + "Z"


def _metrics(value: Any, path: str) -> list[JSON]:
    if not isinstance(value, list):
        raise NotDecodable(f"{path} is not a list")
    return [_metric(item, f"{path}[{index}]") for index, item in enumerate(value)]


def _metric(value: Any, path: str) -> JSON:
    # Both are required: an absent one is "", and the schema says what is wrong with that.
    found = _fields(_object(value if value is not None else {}, path), path, {"name": _text, "value": _text})
    return {"name": "", "value": "", **found}


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


_FIELDS: Final[dict[str, Callable[[Any, str], Any]]] = {
    "progressPercentage": _integer,
    "estimatedRemainingSeconds": _integer,
    "metrics": _metrics,
    "lastUpdatedTime": _time,
}
