# SPDX-License-Identifier: Apache-2.0
"""YAML that is too much, or not unambiguous: refused in one line, or tolerated with a note."""

from __future__ import annotations

import pytest

from trainsnap_controller.migration import yaml_go
from trainsnap_controller.migration.yaml_go import Document, Limits, YamlError, read

LAUGHS = "a: &a [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
LONG_TEXT = "a: &a " + "x" * 100_000 + "\nb: [" + ", ".join(["*a"] * 90) + "]\n"
EMPTIES = "a: &a [" + "{}," * 20_000 + "]\n" + "".join(f"b{n}: *a\n" for n in range(3))
MERGES = "a: &a {k: 1}\n" + "".join(f"m{n}: &m{n} {{<<: [*a, *a]}}\n" for n in range(3))


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(LAUGHS, "excessive aliasing", id="aliases of aliases of aliases"),
        pytest.param(LONG_TEXT, "aliases expand it to more than", id="few aliases of a long text"),
        pytest.param("[" * 200, "nested more than 100 deep", id="brackets that never close"),
        pytest.param("\n".join(" " * n + "a:" for n in range(400)), "nested more than 100 deep", id="deep indents"),
        pytest.param("a: " + "x" * (3 << 20), "more than the 1048576 that are read", id="a text that is too long"),
        pytest.param("[" + "a," * 160_000 + "]", "more than 150000 values", id="too many values"),
        pytest.param("[" + "{}," * 160_000 + "]", "more than 150000 values", id="too many objects"),
        pytest.param("? a\n" * 160_000, "more than 150000 values", id="too many keys without a value"),
        pytest.param(EMPTIES, "aliases stand for more than 50000 values", id="aliases of many small values"),
        pytest.param("a: &a [*a]", "contains itself", id="an anchor within itself"),
        pytest.param("a: &a {<<: *a}", "contains itself", id="a merge of itself"),
        pytest.param("a: *b", "unknown anchor 'b'", id="an alias of nothing"),
        pytest.param("a: {", "line ", id="not YAML"),
        pytest.param("a: \x07", "control characters", id="a control character"),
        pytest.param("1: a\n'1': b", "two keys of different types are both '1'", id="keys that JSON cannot tell apart"),
        pytest.param("~: a", "null cannot be a key", id="null as a key"),
        pytest.param("? [a]\n: b", "a collection cannot be a key", id="a list as a key"),
        pytest.param("a: .inf", "inf has no place in JSON", id="infinity"),
        pytest.param("a: !!int x", "is not a !!int", id="a value that does not fit its tag"),
    ],
)
def test_refused(text: str, want: str) -> None:
    with pytest.raises(YamlError) as caught:
        read(text)
    assert want in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value", "note"),
    [
        pytest.param("a: 1\na: 2", {"a": 2}, "the key 'a' is there twice; the last one counts", id="duplicate keys"),
        pytest.param("a: 1\n---\nb: {", {"a": 1}, "what follows the first document is ignored", id="two documents"),
    ],
)
def test_tolerated_with_a_note(text: str, value: object, note: str) -> None:
    found = read(text)
    assert found.value == value
    (got,) = found.notes
    assert note in got


def test_notes_are_bounded() -> None:
    found = read("a: 1\n" * 20_000)
    assert found.value == {"a": 1}
    assert len(found.notes) == 10


def test_what_cannot_be_read_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def counting(text: str, limits: Limits | None = None) -> Document:
        tried.append(text)
        return read(text, limits)

    monkeypatch.setattr(yaml_go, "read", counting)
    cached = yaml_go.CachedReader(texts=2)
    for text in ("a: {", "a: {", "b", "b"):
        try:
            assert cached(text).value == "b"
        except YamlError as error:
            assert str(error).startswith("line ")
    assert tried == ["a: {", "b"]


def test_what_aliases_have_blown_up_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    cached = yaml_go.CachedReader()
    text = "a: &a [1]\nb: *a\n"
    assert cached(text).value is not cached(text).value
    assert cached("a: [1]").value is cached("a: [1]").value


def test_aliases_within_reason_are_read() -> None:
    assert read(MERGES).value["m2"] == {"k": 1}
    assert read("a: &a [1]\nb: *a\n").value == {"a": [1], "b": [1]}
    assert read("", Limits(size=0)).value is None
