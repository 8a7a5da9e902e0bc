# SPDX-License-Identifier: Apache-2.0
"""Scalars, keys and documents of every kind, each in many places: read as the Go library reads it, or refused as it.

What the library decides by chance, or mangles, is refused here; see ``STRICTER``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.golib import GoYaml, go_yaml
from trainsnap_controller.migration import yaml_go

CORPUS: dict[str, list[str]] = json.loads((Path(__file__).parents[1] / "support" / "yaml_corpus.json").read_text())
LONG = ["x" * 1100 + ": 1", "? " + "x" * 1100 + "\n: 1", "a: " + "x" * 5000]
PLACES = ["{}", "a: {}", "- {}", "{}: 1", "? {}\n: 1", "[{}]", "{{a: {}}}", "{{{}: 1}}"]

STRICTER = ("!!binary /w==", "1: a\n'1': b", "1.0: a\n1: b", "true: 1\n'true': 2")
"""Refused: bytes that are no text, which the library replaces; keys of two types, of which it keeps one by chance."""
LENIENT = ("%YAML 1.2\n", "\\/", "[a?b]", "{a?: 1}")
"""Read though the library's older parser cannot: it never writes them."""


@pytest.fixture(scope="module")
def go() -> Iterator[GoYaml]:
    with go_yaml() as library:
        yield library


def plain(value: Any) -> Any:
    """A value with its types visible, since in Python 1 == 1.0 == True."""
    match value:
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case list():
            return [plain(item) for item in value]
        case bool() | None | str():
            return value
        case _:
            return ("number", float(value))


def verdicts(go: GoYaml, text: str) -> tuple[Any, Any]:
    """What both make of a text; "refused" is a word that no text of the corpus says."""
    try:
        want = plain(go.read(text))
    except ValueError:
        want = "refused"
    try:
        got = plain(yaml_go.read(text).value)
    except yaml_go.YamlError:
        got = "refused"
    assert got == thorough(text), "the quick way is no other way"
    return want, got


def thorough(text: str) -> Any:
    """What is read without looking for the usual case first."""
    try:
        return plain(yaml_go.read_thoroughly(text.encode(), yaml_go.Limits()).value)
    except yaml_go.YamlError:
        return "refused"


@pytest.mark.parametrize("place", PLACES)
def test_scalars_mean_what_they_mean_to_the_library(go: GoYaml, place: str) -> None:
    for scalar in CORPUS["scalars"] + CORPUS["tagged"]:
        text = place.format(scalar)
        want, got = verdicts(go, text)
        assert got == ("refused" if STRICTER[0] in text else want), text


def test_documents_are_read_as_the_library_reads_them(go: GoYaml) -> None:
    for text in CORPUS["documents"] + LONG:
        want, got = verdicts(go, text)
        if any(part in text for part in STRICTER):
            assert got == "refused", text
        elif any(part in text for part in LENIENT):
            assert (want, got == "refused") == ("refused", False), text
        else:
            assert got == want, text
