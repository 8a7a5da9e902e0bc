# SPDX-License-Identifier: Apache-2.0
"""Cutting a byte stream into events, however the network cut it before."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainsnap_api.transport import ResponseTooLarge
from trainsnap_api.transport.watch import Lines

EVENTS = st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=40), max_size=3), max_size=6)


@given(EVENTS, st.lists(st.integers(0, 10_000)), st.booleans())
def test_the_cuts_do_not_matter(events: list[dict[str, str]], cuts: list[int], last_line_ended: bool) -> None:
    data = b"\n".join(json.dumps(event, ensure_ascii=False).encode("utf-8", "surrogatepass") for event in events)
    data += b"\n" if last_line_ended and events else b""
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    lines = Lines(1 << 20)
    got = [line for start, end in pairwise(edges) for line in lines.feed(data[start:end])]
    want = [line for line in data.split(b"\n") if line]
    assert got == (want if last_line_ended else want[:-1])
    assert lines.pending == bool(want and not last_line_ended)


def test_the_limit_is_per_line_and_counts_across_pieces() -> None:
    lines = Lines(10)
    assert [*lines.feed(b"0123456789\n0123456789\n01234")] == [b"0123456789", b"0123456789"]
    assert [*lines.feed(b"56789\n")] == [b"0123456789"]
    assert [*lines.feed(b"01234")] == []
    with pytest.raises(ResponseTooLarge):
        [*lines.feed(b"567890")]
