# SPDX-License-Identifier: Apache-2.0
"""Laws of quantities: the canonical text means the same, arithmetic is exact, and order is by value."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from trainsnap_controller.runtime.quantity import Quantity, QuantityError, canonical

UNITS: dict[str, Fraction | int] = {
    "": 1,
    "m": Fraction(1, 1000),
    "u": Fraction(1, 10**6),
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
}
UNITS |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "e3": 10**3, "E-2": Fraction(1, 100), "e+6": 10**6}

numbers = st.builds(
    lambda sign, whole, part: f"{sign}{whole}{part}",
    st.sampled_from(("", "+", "-")),
    st.integers(0, 10**6).map(str) | st.sampled_from(("0", "00", "007", "1000")),
    st.sampled_from(("", ".", ".5", ".25", ".125", ".500", ".001")),
)
texts = st.tuples(numbers, st.sampled_from(sorted(UNITS)))


def value(number: str, unit: str) -> Fraction:
    return Fraction(number.rstrip(".")) * UNITS[unit]


def amount(quantity: Quantity) -> Fraction:
    return Fraction(quantity.digits) * Fraction(10) ** quantity.scale


@given(texts)
def test_reading_is_exact_down_to_a_billionth(text: tuple[str, str]) -> None:
    want, got = value(*text), amount(Quantity.parse("".join(text)))
    if (want * 10**9).denominator == 1:
        assert got == want
    else:
        assert 0 < abs(got) - abs(want) < Fraction(1, 10**9), "rounded away from zero"


@given(texts)
def test_the_canonical_text_means_the_same_and_is_its_own(text: tuple[str, str]) -> None:
    quantity = Quantity.parse("".join(text))
    again = Quantity.parse(str(quantity))
    assert again == quantity
    assert canonical(str(again)) == str(again)


@given(texts, texts)
def test_sums_and_order(a: tuple[str, str], b: tuple[str, str]) -> None:
    left, right = Quantity.parse("".join(a)), Quantity.parse("".join(b))
    assert amount(left.plus(right)) == amount(left) + amount(right)
    assert left.plus(right) == right.plus(left)
    assert (left.compare(right) > 0) == (amount(left) > amount(right))
    assert (left == right) == (amount(left) == amount(right))
    assert Quantity.parse(str(left.plus(right))) == left.plus(right)


@given(texts, st.integers(0, 10**3))
def test_multiples(text: tuple[str, str], factor: int) -> None:
    quantity = Quantity.parse("".join(text))
    assert amount(quantity.times(factor)) == amount(quantity) * factor
    assert Quantity.parse(str(quantity.times(factor))) == quantity.times(factor)


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        Quantity.parse(text)
    except QuantityError as error:
        assert repr(text.strip()) in str(error)
