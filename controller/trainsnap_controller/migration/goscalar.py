# SPDX-License-Identifier: Apache-2.0
"""What a YAML scalar means to go-yaml v2, on which sigs.k8s.io/yaml stands. Pure; called by ``yaml_go`` only.

Neither YAML 1.1 nor 1.2: base 60 numbers, ``=`` and timestamps are strings, ``yes`` and ``on`` are booleans, ``0777``
and ``0o777`` are octal, ``1_000`` is a number. Measured against the library itself (tests/property/test_yaml_go_*).
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from datetime import date
from typing import Final

Scalar = str | int | float | bool | None

_TAG: Final = "tag:yaml.org,2002:"
STR, BOOL, INT, FLOAT, NULL = _TAG + "str", _TAG + "bool", _TAG + "int", _TAG + "float", _TAG + "null"
TIMESTAMP, BINARY, MERGE = _TAG + "timestamp", _TAG + "binary", _TAG + "merge"
_RESOLVED: Final = frozenset({None, STR, BOOL, INT, FLOAT, NULL, TIMESTAMP})

_WORDS: Final[dict[str, Scalar]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_POINT_FLOAT: Final = re.compile(r"\.[0-9]+(_[0-9]+)*([eE][-+]?[0-9]+(_[0-9]+)*)?", re.ASCII)
_PREFIXED: Final = re.compile(r"([-+]?)0(?:[xX]([0-9a-fA-F]+)|[oO]([0-7]+)|[bB]([01]+))", re.ASCII)
_DECIMAL: Final = re.compile(r"[-+]?[0-9]+", re.ASCII)
_BINARY_DIGITS: Final = re.compile(r"[-+]?[01]+", re.ASCII)
_DATE: Final = r"(\d{4})-(\d{1,2})-(\d{1,2})"
_CLOCK: Final = r"(\d{1,2}):(\d{1,2}):(\d{1,2})(?:[.,]\d+)?"
_TIMESTAMPS: Final = (
    re.compile(_DATE + "[Tt]" + _CLOCK + r"(?:Z|[-+]\d\d:\d\d)", re.ASCII),
    re.compile(_DATE + " +" + _CLOCK, re.ASCII),
    re.compile(_DATE, re.ASCII),
)
_INT64: Final = range(-(1 << 63), 1 << 63)
_UINT64: Final = range(1 << 64)
_BASES: Final = (16, 8, 2)
"""Of the groups of ``_PREFIXED``. Python's ``int`` would take a second prefix: ``int("0b11", 2)`` is 3."""


class ScalarError(ValueError):
    """The value does not fit its explicit tag."""


def resolve(text: str, tag: str | None, *, plain: bool) -> Scalar:
    """The value of a scalar. ``plain``: without quotes and without a tag of its own. Raises ``ScalarError``."""
    if tag is None and not plain:
        return text
    if tag == BINARY:
        return _binary(text)
    if tag not in _RESOLVED or tag == STR:
        return text
    value = _untagged(text)
    if tag is None or _fits(value, tag, text):
        return text if tag == TIMESTAMP else float(value) if tag == FLOAT and isinstance(value, int) else value
    raise ScalarError(f"{_short(text)} is not a !!{tag.removeprefix(_TAG)}")


def key_text(value: Scalar) -> str:
    """A mapping key as JSON has it. Raises ``ScalarError`` for those that have no such form."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int() if value in _INT64:
            return str(value)
        case float():
            return _float32_text(value)
    raise ScalarError(f"{value!r} cannot be a key")


def json_number(value: float) -> int | float:
    """A float as Go writes it into JSON: whole numbers lose their point. Raises ``ScalarError`` for what JSON lacks."""
    if not math.isfinite(value):
        raise ScalarError(f"{value} has no place in JSON")
    return int(value) if value.is_integer() and abs(value) < 1e21 else value


def _untagged(text: str) -> Scalar:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] == ".":
        return _float(text) if _POINT_FLOAT.fullmatch(text) else text
    if text[0] not in "+-0123456789":
        return text
    digits = text.replace("_", "")
    number = _integer(digits)
    if number is not None:
        return number
    if _FLOAT.fullmatch(digits):
        found = _float(digits)
        return found if isinstance(found, float) else text
    number = _odd_binary(digits)
    return text if number is None else number


def _integer(digits: str) -> int | None:
    """An integer literal of Go, its base by its prefix, in 64 bits with or without sign."""
    if match := _PREFIXED.fullmatch(digits):
        sign, *literals = match.groups()
        value = next(int(literal, base) for literal, base in zip(literals, _BASES, strict=True) if literal)
    elif _DECIMAL.fullmatch(digits):
        sign, bare = (digits[0], digits[1:]) if digits[0] in "+-" else ("", digits)
        try:
            value = int(bare, 8 if len(bare) > 1 and bare[0] == "0" else 10)
        except ValueError:  # an 8 in an octal number, or more digits than Python reads: both far from 64 bits
            return None
    else:
        return None
    value = -value if sign == "-" else value
    return value if value in _INT64 or (not sign and value in _UINT64) else None


def _odd_binary(digits: str) -> int | None:
    """``0b`` before a signed number, which only this library reads."""
    if digits.startswith("0b") and _BINARY_DIGITS.fullmatch(digits[2:]):
        value = int(digits[2:], 2)
        return value if value in _INT64 else None
    return None


def _float(text: str) -> float | str:
    value = float(text)
    return value if math.isfinite(value) else text


def _fits(value: Scalar, tag: str, text: str) -> bool:
    if tag == NULL:
        return value is None
    if tag == TIMESTAMP:
        return _is_timestamp(text)
    if isinstance(value, bool) or tag == BOOL:
        return isinstance(value, bool) and tag == BOOL
    if tag == FLOAT:
        return isinstance(value, float) or (isinstance(value, int) and value in _INT64)
    return isinstance(value, int)


def _is_timestamp(text: str) -> bool:
    for pattern in _TIMESTAMPS:
        if match := pattern.fullmatch(text):
            year, month, day, *clock = (int(part) for part in match.groups())
            try:
                date(year or 4, month, day)
            except ValueError:
                return False
            return not clock or (clock[0] < 24 and clock[1] < 60 and clock[2] < 60)
    return False


def _binary(text: str) -> str:
    try:
        data = base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ScalarError("the value of !!binary is not base64") from error
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        # The library goes on and replaces every such byte: the string would not be the one that it was.
        raise ScalarError("the value of !!binary is not UTF-8 text") from error


def _float32_text(value: float) -> str:
    """The shortest text that names this 32-bit float, as the library writes a float that is a key."""
    if math.isnan(value):
        return ".nan"
    try:
        narrow = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        narrow = math.copysign(math.inf, value)
    if math.isinf(narrow):
        return ".inf" if narrow > 0 else "-.inf"
    for precision in range(1, 10):
        mantissa, _, exponent = f"{narrow:.{precision - 1}e}".partition("e")
        if struct.unpack("f", struct.pack("f", float(f"{mantissa}e{exponent}")))[0] == narrow:
            break
    power = int(exponent)
    if power < -4 or power >= 6:
        return f"{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"
    digits = mantissa.replace(".", "").lstrip("-")
    return f"{narrow:.{max(0, len(digits) - 1 - power)}f}"


def _short(text: str, limit: int = 40) -> str:
    return repr(text if len(text) <= limit else text[: limit - 3] + "...")
