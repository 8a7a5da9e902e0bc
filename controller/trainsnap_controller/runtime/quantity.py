# SPDX-License-Identifier: Apache-2.0
"""Kubernetes quantities, exactly: parsing, the canonical text, comparison, addition and multiplication.

A value is ``digits * 10**scale`` in whole numbers, so nothing is ever rounded by a float. The text that comes out is
the one that Kubernetes' own types write, including its habit of keeping a text that already looks canonical
(``1.500``, ``007``): JobSet compares stored documents byte for byte, so a prettier text would count as a change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

_GRAMMAR: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE](?P<exponent>[+-]?[0-9]+))?"
)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_TEXT: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_TEXT: Final = {exponent: suffix for suffix, exponent in _BINARY.items()}
_NANO: Final = -9
"""The smallest unit; anything finer is rounded away from zero to it."""
_MAX_BINARY: Final = 2**63 - 1
_MAX_EXPONENT: Final = 999
"""Larger exponents are refused: no cluster has 10**999 of anything, and the digits would have to be written out."""
_MAX_LENGTH: Final = 1000
"""Characters of a text; the schema sets no limit, and reading digits takes time that grows with their square."""
_FAST_DIGITS: Final = 18
"""Longer numbers never keep their own text."""


class QuantityError(ValueError):
    """The text is not a quantity; the message says which text."""


class Family(Enum):
    """Which suffixes a value is written with; taken over from the text it was read from."""

    DECIMAL = "decimal"
    BINARY = "binary"
    EXPONENT = "exponent"


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An exact amount. ``text`` is what it was read from, where Kubernetes would keep that."""

    digits: int = 0
    scale: int = 0
    family: Family = Family.DECIMAL
    text: str | None = None

    @classmethod
    def parse(cls, value: str | int) -> Quantity:
        """The quantity of a JSON value; numbers and texts are both allowed by the schema.

        Raises ``QuantityError``: the CRD's pattern admits a few texts that are none, such as ``1e3.5``.
        """
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise QuantityError(f"{value!r} is not a quantity")
        return _parsed(str(value).strip())

    def __str__(self) -> str:
        return self.text if self.text is not None else _canonical(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.compare(other) == 0

    def __hash__(self) -> int:
        digits, scale = _trimmed(self.digits, self.scale)
        return hash((digits, scale))

    def compare(self, other: Quantity) -> int:
        """Negative, zero or positive, by value alone."""
        scale = min(self.scale, other.scale)
        return self._at(scale) - other._at(scale)

    @property
    def zero(self) -> bool:
        """Whether the amount is nothing."""
        return self.digits == 0

    def plus(self, other: Quantity) -> Quantity:
        """The sum, written like the first; like the second where the first is zero."""
        scale = min(self.scale, other.scale)
        family = other.family if self.zero else self.family
        return Quantity(self._at(scale) + other._at(scale), scale, family)

    def times(self, factor: int) -> Quantity:
        """The amount, ``factor`` times."""
        return Quantity(self.digits * factor, self.scale, self.family)

    def round_up(self) -> int:
        """The next whole number away from zero."""
        return _rounded(self.digits, self.scale, 0)

    def _at(self, scale: int) -> int:
        digits: int = self.digits * 10 ** (self.scale - scale)
        return digits


def canonical(value: str | int) -> str:
    """The canonical text of a JSON value. Raises ``QuantityError``."""
    return str(Quantity.parse(value))


def largest(a: Quantity, b: Quantity) -> Quantity:
    """The larger of two; the first if they are equal."""
    return b if b.compare(a) > 0 else a


def total(amounts: Iterable[Mapping[str, Quantity]]) -> dict[str, Quantity]:
    """The sum per resource name, in the order in which names first appear."""
    result: dict[str, Quantity] = {}
    for amount in amounts:
        for name, quantity in amount.items():
            result[name] = result[name].plus(quantity) if name in result else quantity
    return result


def _parsed(text: str) -> Quantity:
    if len(text) > _MAX_LENGTH:
        raise QuantityError(f"a quantity of {len(text)} characters is out of range")
    match = _GRAMMAR.fullmatch(text)
    whole, part = (match["whole"], match["part"] or "") if match else ("", "")
    if match is None or not (whole or part):
        raise QuantityError(f"{text!r} is not a quantity")
    suffix = match["suffix"] or ""
    sign = -1 if match["sign"] == "-" else 1
    shifted = (whole.lstrip("0") or "0") + part
    if suffix in _BINARY:
        return _binary(text, sign, shifted, len(part), _BINARY[suffix])
    exponent = int(match["exponent"]) if match["exponent"] else _DECIMAL[suffix]
    if abs(exponent) > _MAX_EXPONENT:
        raise QuantityError(f"{text!r} is out of range")
    family = Family.EXPONENT if match["exponent"] else Family.DECIMAL
    scale = exponent - len(part)
    if len(shifted) <= _FAST_DIGITS and scale >= _NANO:
        kept = scale % 3 == 0 and not shifted.endswith("000") and not shifted.startswith("0")
        return Quantity(sign * int(shifted), scale, family, text if kept else None)
    digits, scale = sign * int(shifted), scale
    if scale < _NANO:
        digits, scale = _rounded(digits, scale, _NANO), _NANO
    return Quantity(digits, scale, family)


def _binary(text: str, sign: int, shifted: str, places: int, power: int) -> Quantity:
    number = int(shifted)
    if places == 0 and 15 - len(shifted) - power * 3 // 10 - 1 >= 0:
        return Quantity(sign * (number << power), 0, Family.BINARY, text if number & 7 else None)
    digits, scale = number << power, -places
    if scale < _NANO:
        digits, scale = _rounded(digits, scale, _NANO), _NANO
    if digits > _MAX_BINARY * 10**-scale:
        digits, scale = _MAX_BINARY, 0
    below_one = 0 < digits < 10**-scale
    return Quantity(sign * digits, scale, Family.DECIMAL if below_one else Family.BINARY)


def _canonical(quantity: Quantity) -> str:
    """The shortest whole number with a suffix, in the quantity's family as far as that loses nothing."""
    if quantity.zero:
        return "0"
    if quantity.family is Family.BINARY:
        whole = quantity.round_up()
        exact = quantity.compare(Quantity(whole)) == 0
        if exact and abs(whole) >= 1024:
            power = 0
            while whole % 1024 == 0 and power < 60:
                whole, power = whole // 1024, power + 10
            return f"{whole}{_BINARY_TEXT.get(power, '')}"
    digits, scale = _trimmed(quantity.digits, quantity.scale)
    digits, scale = digits * 10 ** (scale % 3), scale - scale % 3
    if quantity.family is Family.EXPONENT or scale not in _DECIMAL_TEXT:
        return f"{digits}e{scale}" if scale else str(digits)
    return f"{digits}{_DECIMAL_TEXT[scale]}"


def _trimmed(digits: int, scale: int) -> tuple[int, int]:
    """The same amount without trailing zeros."""
    if digits == 0:
        return 0, 0
    while digits % 10 == 0:
        digits, scale = digits // 10, scale + 1
    return digits, scale


def _rounded(digits: int, scale: int, to: int) -> int:
    """The digits at a coarser scale, rounded away from zero."""
    if scale >= to:
        return int(digits * 10 ** (scale - to))
    sign = -1 if digits < 0 else 1
    return int(sign * -(-abs(digits) // 10 ** (to - scale)))
