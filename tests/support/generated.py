# SPDX-License-Identifier: Apache-2.0
"""Objects of the API for property tests, made from the CRDs' schemas: any subset of fields, unknown fields at every
level (also with names that mean something in Python or to pydantic), null, empty text, empty objects and lists, and
both forms of int-or-string.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

JSON = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("TrainJob", "TrainingRuntime", "ClusterTrainingRuntime", "TrainingRuntimeSnapshot")

ODD_NAMES = (
    "from", "continue", "global", "class", "json", "copy", "schema", "dump", "dict", "items", "keys", "self", "cls",
    "model_config", "model_fields", "model_dump", "model_extra", "__dict__", "__class__", "_private", "$ref",
    "", "a-b", "a.b/c", "\u0085", "managed_by", "run_as_user", "image_pull_policy", "env_from", "newField",
)  # fmt: skip
"""Names of unknown fields. Python names of known fields are among them: they are not those fields."""


@functools.cache
def schema_of(kind: str) -> JSON:
    for path in (ROOT / "crds").glob("trainer*.yaml"):
        crd = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
        if crd["spec"]["names"]["kind"] == kind:
            return dict(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    raise LookupError(kind)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)
unknown = st.dictionaries(st.sampled_from(ODD_NAMES) | st.text(max_size=8), json_values, max_size=2)


@st.composite
def objects(draw: st.DrawFn, node: JSON) -> Any:
    """A value that the schema describes, give or take limits. Deep paths are as likely as shallow ones."""
    leaf = _leaf(node)
    if leaf is not None:
        return draw(leaf)
    if node["type"] == "array":
        return [draw(objects(node["items"])) for _ in range(draw(st.integers(0, 2)))]
    if "additionalProperties" in node:
        keys = draw(st.lists(st.text(max_size=4), max_size=2, unique=True))
        return {key: draw(st.none() | objects(node["additionalProperties"])) for key in keys}
    properties = node.get("properties", {})
    obj: JSON = {key: value for key, value in draw(unknown).items() if key not in properties}
    deep = [key for key, child in properties.items() if "properties" in child or "items" in child]
    names = draw(st.lists(st.sampled_from(sorted(properties)), max_size=2, unique=True)) if properties else []
    deeper: int = draw(st.integers(0, 9))
    if deep and deeper:
        names.append(draw(st.sampled_from(sorted(deep))))
    for name in names:
        absent_but_said = draw(st.integers(0, 7)) == 0
        obj[name] = None if absent_but_said else draw(objects(properties[name]))
        if obj[name] is None:
            # See test_null_beside_its_own_python_name.
            obj.pop(re.sub("(?=[A-Z])", "_", name).lower(), None)
    return obj


def _leaf(node: JSON) -> st.SearchStrategy[Any] | None:
    if node.get("x-kubernetes-preserve-unknown-fields"):
        return json_values
    if node.get("x-kubernetes-int-or-string"):
        both = st.integers(-(2**31), 2**31) | st.sampled_from(["80", "http", "50%", "", "1e3", "0.5"])
        return both | st.sampled_from([0.5, 1e3]) if "pattern" in node else both
    if node["type"] == "string":
        return st.text(max_size=8) | st.sampled_from(["", "true", "1", "2020-01-01T00:00:00Z", "on", "null"])
    if node["type"] == "integer":
        return st.integers(-(2**63), 2**63)
    return st.booleans() if node["type"] == "boolean" else None
