# SPDX-License-Identifier: Apache-2.0
"""YAML keeps what it is given: for every reader, every text, and every object."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from trainsnap_api import TrainJob, read_yaml
from trainsnap_api.models import Model
from trainsnap_api.yamltext import dump, load_one

JSON = dict[str, Any]

LOOKALIKES = (
    "1", "1.0", "1e3", "0x1f", "0o17", "017", "1_000", "12:30:00", "2030-01-01", "2030-01-01T00:00:00Z", "true", "yes",
    "no", "on", "off", "y", "N", "null", "~", "", "=", "<<", "-", "?", ":", "#", "a: b", " a", "a ", "- a", "{a}", "[a",
    "*a", "&a", "!a", "%a", "@a", "`a", "|", ">", "'", '"', ".inf", ".NaN", "+1", "-0", ".5", "1.", "Infinity",
    "\u2028", "\ufeff", "\x7f", "a\nb", "a\r\nb", "\ta", "ä", "\U0001f600", "0b1", "1__0", "+.inf", "\u0085",
)  # fmt: skip
texts = st.sampled_from(LOOKALIKES) | st.text()
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, values, max_size=4)


def same(left: Any, right: Any) -> bool:
    """Equal in value and in type, all the way down."""
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


@given(objects)
def test_what_is_written_is_read_back(obj: JSON) -> None:
    assert same(load_one(dump(obj)), obj)


@given(objects)
def test_readers_of_yaml_1_1_read_the_same(obj: JSON) -> None:
    """PyYAML's own loader stands for them: it has all of their implicit types."""
    assert same(yaml.load(dump(obj), yaml.CSafeLoader), obj)


@pytest.mark.parametrize("text", LOOKALIKES)
def test_text_that_looks_like_something_else_stays_text(text: str) -> None:
    job = TrainJob.model_validate({"metadata": {"labels": {text: text}}, "spec": {"trainer": {"args": [text]}}})
    assert TrainJob.from_yaml(job.to_yaml()).dump() == job.dump()


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("a: 0644", {"a": 420}),
        ("a: 0o17", {"a": 15}),
        ("a: 0x1F", {"a": 31}),
        ("a: 1e3", {"a": 1000.0}),
        ("a: .5", {"a": 0.5}),
        ("a: -7", {"a": -7}),
        ("a: on\nb: yes\nc: true\nd: False", {"a": "on", "b": "yes", "c": True, "d": False}),
        ("a: 2030-01-01\nb: 12:30:00\nc: 1_000", {"a": "2030-01-01", "b": "12:30:00", "c": "1_000"}),
        ("a: ~\nb:\nc: null", {"a": None, "b": None, "c": None}),
        ("1: a\ntrue: b\n2030-01-01: c", {"1": "a", "true": "b", "2030-01-01": "c"}),
        ("a: =\nb: <<", {"a": "=", "b": "<<"}),
        ("x: &x {a: 1, b: 2}\ny: {<<: *x, b: 3}", {"x": {"a": 1, "b": 2}, "y": {"a": 1, "b": 3}}),
        ("x: &x {a: 1}\ny: &y {<<: *x, b: 2}\nz: {<<: [*y, {c: 3}]}",
         {"x": {"a": 1}, "y": {"a": 1, "b": 2}, "z": {"a": 1, "b": 2, "c": 3}}),
        ("---\na: 1\n---\n", {"a": 1}),
    ],
)  # fmt: skip
def test_what_users_write(text: str, want: JSON) -> None:
    assert same(load_one(text), want) or load_one(text) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("a: {b: 1, b: 2}", "line 1: the key 'b' is given twice"),
        ("- 1", "a YAML document is not an object but list"),
        ("a: [", "did not find expected node content"),
        ("a: 1\n---\nb: 2", "one YAML document is needed, there are 2"),
        ("", "one YAML document is needed, there are 0"),
        ("? [a]\n: 1", "a key is not text"),
        ("a: !!python/object:os.system 1", "could not determine a constructor"),
        (b"a: \xff", "not readable as YAML"),
        (
            "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40)),
            "its aliases stand for",
        ),
        ("a: *b", "found undefined alias"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text: str | bytes, want: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as error:
        Model.from_yaml(text)
    assert want in str(error.value)
    assert "\n" not in str(error.value)


def test_manifests_of_several_objects_become_models() -> None:
    head = "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: "
    text = f"{head}TrainJob\nmetadata: {{name: a}}\n---\n{head}TrainingRuntime\nmetadata: {{name: b}}\n"
    assert list(map(repr, read_yaml(text))) == ["<TrainJob a: Created>", "<TrainingRuntime b>"]
    listed = "kind: List\nitems:\n- {apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob}\n"
    assert [type(item) for item in read_yaml(listed)] == [TrainJob]
    with pytest.raises(ValueError, match="document 2: v1 ConfigMap is not known here"):
        read_yaml(text.split("---")[0] + "---\napiVersion: v1\nkind: ConfigMap\n")
