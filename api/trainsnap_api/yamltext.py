# SPDX-License-Identifier: Apache-2.0
"""YAML in and out, such that nothing changes its type on the way. Called by the models' ``from_yaml`` and ``to_yaml``.

Read as YAML 1.2 (``on`` and ``yes`` are text, timestamps too), with the octal ``0644`` of Kubernetes manifests, merge
keys and anchors, and keys that are always text. Written so that readers of YAML 1.1 agree. Never reads a file.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

JSON = dict[str, Any]

try:
    from yaml import CSafeDumper as _SafeDumper
    from yaml import CSafeLoader as _SafeLoader
except ImportError:  # PyYAML without its C part: ten times slower, otherwise the same
    from yaml import SafeDumper as _SafeDumper  # type: ignore[assignment]
    from yaml import SafeLoader as _SafeLoader  # type: ignore[assignment]

_TAG = "tag:yaml.org,2002:"
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")

# What some reader takes for something else than text: numbers in any base or with underscores, times, dates, one-letter
# booleans. More than those is quoted, which does no harm.
_DOUBTFUL = re.compile(r"[-+.]?[0-9].*|[yYnN]|[-+]?\.(inf|nan)|[=~]|<<|null", re.IGNORECASE | re.DOTALL)


_MOST_VALUES = 1_000_000
"""In one text. etcd keeps no object of more than 1.5 MiB; a few lines of nested aliases can stand for any number."""


class _Loader(_SafeLoader):
    # None of YAML 1.1; ours are added below.
    yaml_implicit_resolvers = {}  # noqa: RUF012 - PyYAML keeps them on the class

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._flattened: dict[int, yaml.MappingNode] = {}

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Replaces merge keys by what they stand for. Raises ConstructorError for a key that is given twice."""
        if id(node) in self._flattened:
            return
        self._flattened[id(node)] = node  # kept, so that its id is not given to another one
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key is not text", key.start_mark)
            if key.value in seen:
                problem = f"the key {key.value!r} is given twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(key.value)
        super().flatten_mapping(node)

    def flat(self, node: yaml.MappingNode) -> JSON:
        """A mapping with text for keys; its own win over merged ones."""
        self.flatten_mapping(node)
        return {key.value: self.construct_object(value, deep=True) for key, value in node.value}

    def number(self, node: yaml.ScalarNode) -> int:
        """A whole number; a leading zero means octal, as in file modes."""
        text = node.value
        if re.fullmatch(r"0[0-7]+", text):
            return int(text, 8)
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)


def _resolve(tag: str, pattern: re.Pattern[str], first: str) -> None:
    anchored = re.compile(f"(?:{pattern.pattern})$", pattern.flags)
    _Loader.add_implicit_resolver(_TAG + tag, anchored, list(first))


_resolve("bool", re.compile("true|True|TRUE|false|False|FALSE"), "tTfF")
_resolve("null", re.compile("|~|null|Null|NULL"), "~nN")
_Loader.yaml_implicit_resolvers.setdefault("", []).extend(_Loader.yaml_implicit_resolvers["~"])
_resolve("int", _INT, "-+0123456789")
_resolve("float", _FLOAT, "-+.0123456789")
_resolve("merge", re.compile("<<"), "<")
_Loader.add_constructor(_TAG + "map", _Loader.flat)
_Loader.add_constructor(_TAG + "int", _Loader.number)
_Loader.add_constructor(_TAG + "float", lambda _loader, node: float(node.value))
_Loader.add_constructor(_TAG + "merge", lambda _loader, node: node.value)
_Loader.add_constructor(_TAG + "timestamp", lambda _loader, node: node.value)


class _Dumper(_SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        """Repeated values are written out: an anchor in a manifest puzzles its readers."""
        return True

    def text(self, value: str) -> yaml.ScalarNode:
        """Text, in quotes when a reader might take it for something else."""
        style = "'" if _DOUBTFUL.fullmatch(value) and value.isprintable() else None
        return self.represent_scalar(_TAG + "str", value, style=style)


_Dumper.add_representer(str, _Dumper.text)


def load_all(text: str | bytes) -> list[JSON]:
    """The objects of all documents; empty documents are left out. ValueError with one line for anything else."""
    try:
        documents = [document for document in yaml.load_all(text, _Loader) if document is not None]
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not readable as YAML: {_reason(error)}") from error
    for document in documents:
        if not isinstance(document, dict):
            raise ValueError(f"a YAML document is not an object but {type(document).__name__}")
    if _size(documents, {}) > _MOST_VALUES:
        raise ValueError(f"not readable as YAML: its aliases stand for more than {_MOST_VALUES} values")
    return documents


def _size(value: Any, known: dict[int, int]) -> int:
    """How many values there are when every alias is written out, without doing so. The loader refuses cycles."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        known[id(value)] = 1 + sum(_size(one, known) for one in (value.values() if isinstance(value, dict) else value))
    return known[id(value)]


def load_one(text: str | bytes) -> JSON:
    """The object of the only document. Raises ValueError."""
    documents = load_all(text)
    if len(documents) != 1:
        raise ValueError(f"one YAML document is needed, there are {len(documents)}")
    return documents[0]


def dump(obj: JSON) -> str:
    """The object as one YAML document, keys in their order."""
    written: str = yaml.dump(
        obj, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=120
    )
    return written


def _reason(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or " ".join(str(error).split())
    return f"line {mark.line + 1}: {problem}" if mark else str(problem)
