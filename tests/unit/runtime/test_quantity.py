# SPDX-License-Identifier: Apache-2.0
"""Quantities against vectors that Kubernetes' own library computed."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainsnap_controller.runtime.quantity import Quantity, QuantityError, canonical, largest, total

VECTORS = [
    line.split()
    for line in (Path(__file__).parent / "quantity_vectors.txt").read_text().splitlines()
    if not line.startswith("#")
]


@pytest.mark.parametrize(("text", "want", "tripled", "plus_gib", "on_250m"), VECTORS, ids=[row[0] for row in VECTORS])
def test_same_text_as_kubernetes_writes(text: str, want: str, tripled: str, plus_gib: str, on_250m: str) -> None:
    quantity = Quantity.parse(text)

    assert str(quantity) == want
    assert str(quantity.times(3)) == tripled
    assert str(quantity.plus(Quantity.parse("1Gi"))) == plus_gib
    assert str(Quantity.parse("250m").plus(quantity)) == on_250m


@pytest.mark.parametrize(
    "value",
    ["", "Gi", ".", "+", "1e3.5", "1 Gi", "1g", "1_000", "0x10", "1Ki1", "--1", "1e", "1e1000", "9" * 1001, True, None],
    ids=str,
)
def test_what_is_no_quantity_is_refused_by_name(value: str) -> None:
    with pytest.raises(QuantityError):
        Quantity.parse(value)


@pytest.mark.parametrize(("number", "want"), [(0, "0"), (8, "8"), (1000, "1k"), (128974848, "128974848")])
def test_numbers_are_quantities_too(number: int, want: str) -> None:
    assert canonical(number) == want


def test_values_beyond_the_largest_suffix_keep_their_value() -> None:
    """Kubernetes' library writes ``1000E`` as ``1``."""
    assert canonical("1000E") == "1e21"


@pytest.mark.parametrize(
    ("a", "b"), [("1000m", "1"), ("1024Mi", "1Gi"), ("0.5", "500m"), ("1e3", "1k"), ("0", "0Gi"), ("1.0", "1")]
)
def test_equal_by_value(a: str, b: str) -> None:
    assert Quantity.parse(a) == Quantity.parse(b)
    assert hash(Quantity.parse(a)) == hash(Quantity.parse(b))


@pytest.mark.parametrize(("small", "large"), [("1M", "1Mi"), ("999m", "1"), ("-1", "0"), ("1n", "1u"), ("1Ei", "1e19")])
def test_order_by_value(small: str, large: str) -> None:
    a, b = Quantity.parse(small), Quantity.parse(large)
    assert a.compare(b) < 0 < b.compare(a)
    assert largest(a, b) is b and largest(b, a) is b


@pytest.mark.parametrize(("text", "want"), [("2500m", 3), ("500m", 1), ("1n", 1), ("4", 4), ("0", 0), ("1.5Ki", 1536)])
def test_rounding_up(text: str, want: int) -> None:
    assert Quantity.parse(text).round_up() == want


def test_a_total_takes_the_family_of_the_first_amount_that_is_not_zero() -> None:
    amounts = [{"memory": "0"}, {"memory": "1Gi", "cpu": "500m"}, {"memory": "1G", "cpu": "1"}]
    parsed = [{name: Quantity.parse(text) for name, text in amount.items()} for amount in amounts]

    got = {name: str(amount) for name, amount in total(parsed).items()}

    assert got == {"memory": "2073741824", "cpu": "1500m"}
