# SPDX-License-Identifier: Apache-2.0
"""Reads YAML as sigs.k8s.io/yaml does, the Go library that wrote the reference's ConfigMaps. Pure.

Parsing is libyaml's, of which the Go library's parser is a port. What a scalar means, how keys become strings, merge
keys, aliases, duplicate keys and their limits follow the Go library; PyYAML's own resolvers are not used. Called by
``legacy``. Never builds anything but plain JSON values.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml
from yaml import events as ev

from trainsnap_controller.migration.goscalar import MERGE, ScalarError, json_number, key_text, resolve
from trainsnap_controller.migration.yaml_usual import PARSER, Unusual, is_text, read_usual


class YamlError(ValueError):
    """The text cannot be read; one line that says where and why."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What is read at most. ``size``: bytes of the text; ``nodes``: values and keys that are written in it;
    ``aliased``, ``expanded``: values and keys, and bytes of them, that aliases stand for.

    A ConfigMap holds 1 MiB at most, a snapshot 1.5 MiB; a runtime nests about 30 deep and has some hundred to a few
    thousand values of ten bytes and more. So whatever exceeds these is not a runtime. Deeper ones are not taken into a
    snapshot from anywhere.
    """

    size: int = 1 << 20
    expanded: int = 1 << 20
    nodes: int = 150_000
    aliased: int = 50_000
    depth: int = 100


@dataclass(frozen=True, slots=True)
class Document:
    """The first document's value, and what was tolerated on the way: one line each. ``expands``: aliases stand for
    parts of it, so that it may be much larger than its text."""

    value: Any
    notes: tuple[str, ...] = ()
    expands: bool = False


class _Node:
    """One node of the syntax tree. ``items`` of a mapping are keys and values in turn; ``alias`` names its target."""

    __slots__ = ("alias", "items", "kind", "line", "plain", "tag", "value")

    def __init__(self, kind: str, line: int, value: str = "", tag: str | None = None, plain: bool = False) -> None:
        self.kind, self.line, self.value, self.tag, self.plain = kind, line, value, tag, plain
        self.items: list[_Node] = _NO_ITEMS if kind == "scalar" else []
        self.alias: _Node | None = None


_NO_ITEMS: Final[list[_Node]] = []


def read(text: str, limits: Limits | None = None) -> Document:
    """The value of the first document in ``text``. Raises ``YamlError``."""
    limits = limits or Limits()
    data = text.encode("utf-8", "surrogatepass")
    if len(data) > limits.size:
        raise YamlError(f"{len(data)} bytes, more than the {limits.size} that are read")
    if len(data) <= limits.nodes:  # so it cannot have more of them
        try:
            return Document(read_usual(data, limits.depth))
        except Unusual:
            pass
    return read_thoroughly(data, limits)


def read_thoroughly(data: bytes, limits: Limits) -> Document:
    """The value of the first document of any text. Raises ``YamlError``."""
    try:
        events = _events(data)
        root = _compose(events, limits)
        notes = [] if _ends(events) else ["what follows the first document is ignored"]
    except yaml.YAMLError as error:
        raise YamlError(_where(error)) from None
    except RecursionError:
        raise YamlError("nested too deeply") from None
    if root is None:
        return Document(None)
    decoder = _Decoder(limits)
    value = decoder.value(root)
    return Document(value, (*decoder.notes, *notes), decoder.expanded)


class CachedReader:
    """Reads as ``read`` does, and a text that came a moment ago at once: jobs of one runtime often hold the same, and
    one that cannot be read is tried again and again.

    What it returns is shared and must not be changed. For one thread at a time.
    """

    def __init__(self, texts: int = 32, longest: int = 64 << 10) -> None:
        self._texts, self._longest = texts, longest
        self._known: OrderedDict[bytes, Document | str] = OrderedDict()

    def __call__(self, text: str, limits: Limits | None = None) -> Document:
        """The first document of a text. Raises ``YamlError``."""
        key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        found = self._known.pop(key, None)
        if found is None:
            try:
                found = read(text, limits)
            except YamlError as error:
                found = str(error)
        if isinstance(found, str) or (len(text) <= self._longest and not found.expands):
            self._known[key] = found
            if len(self._known) > self._texts:
                self._known.popitem(last=False)
        if isinstance(found, str):
            raise YamlError(found)
        return found


def _events(data: bytes) -> Iterator[Any]:
    parser = PARSER(data)
    try:
        while parser.check_event():
            yield parser.get_event()
    finally:
        parser.dispose()


def _ends(events: Iterator[Any]) -> bool:
    """Whether nothing follows; a fault in what follows does not matter."""
    try:
        return isinstance(next(events, None), ev.StreamEndEvent | None)
    except yaml.YAMLError:
        return False


def _where(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        return f"line {mark.line + 1}: {error.problem or error.context}" if mark else str(error.problem)
    return " ".join(str(error).split())


_NODES: Final = frozenset({ev.ScalarEvent, ev.MappingStartEvent, ev.SequenceStartEvent, ev.AliasEvent})


def _compose(events: Iterator[Any], limits: Limits) -> _Node | None:
    """The tree of the first document; None when there is none. Stops right after its end."""
    anchors: dict[str, _Node] = {}
    root = _Node("document", 0)
    open_nodes = [root]
    items = root.items
    nodes = 0
    for event in events:
        kind = type(event)
        if kind in _NODES:
            nodes += 1
            if nodes > limits.nodes:
                raise YamlError(f"line {event.start_mark.line + 1}: more than {limits.nodes} values")
        if kind is ev.ScalarEvent:
            node = _Node("scalar", event.start_mark.line + 1, event.value, event.tag, event.implicit[0])
            items.append(node)
            if event.anchor is not None:
                anchors[event.anchor] = node
        elif kind is ev.MappingEndEvent or kind is ev.SequenceEndEvent:
            open_nodes.pop()
            items = open_nodes[-1].items
        elif kind is ev.MappingStartEvent or kind is ev.SequenceStartEvent:
            name = "mapping" if kind is ev.MappingStartEvent else "sequence"
            node = _Node(name, event.start_mark.line + 1)
            items.append(node)
            items = node.items
            open_nodes.append(node)
            if event.anchor is not None:
                anchors[event.anchor] = node
            if len(open_nodes) > limits.depth:
                raise YamlError(f"line {node.line}: nested more than {limits.depth} deep")
        elif kind is ev.AliasEvent:
            items.append(_aliased(event, anchors))
        elif kind is ev.DocumentEndEvent:
            return root.items[0]
        elif kind is ev.StreamEndEvent:
            return None
    return None


def _aliased(event: Any, anchors: dict[str, _Node]) -> _Node:
    line = event.start_mark.line + 1
    if event.anchor not in anchors:
        raise YamlError(f"line {line}: unknown anchor {event.anchor!r}")
    node = _Node("alias", line, event.anchor)
    node.alias = anchors[event.anchor]
    return node


# The Go library's own guard against aliases that expand to much more than was written.
_RATIO_LOW: Final = 400_000
_RATIO_HIGH: Final = 4_000_000
_NODE_BYTES: Final = 8
_MOST_NOTES: Final = 10


def _allowed_ratio(decoded: int) -> float:
    if decoded <= _RATIO_LOW:
        return 0.99
    if decoded >= _RATIO_HIGH:
        return 0.10
    return 0.99 - 0.89 * (decoded - _RATIO_LOW) / (_RATIO_HIGH - _RATIO_LOW)


class _Decoder:
    """From a tree to JSON values, counting as the Go library counts."""

    def __init__(self, limits: Limits) -> None:
        self.notes: list[str] = []
        self._limits = limits
        self._decoded = self._aliased = self._bytes = 0
        self._depth = self._alias_depth = 0
        self._expanding: set[int] = set()

    @property
    def expanded(self) -> bool:
        """Whether aliases stand for parts of the value."""
        return self._aliased > 0

    def _note(self, text: str) -> None:
        if len(self.notes) < _MOST_NOTES:
            self.notes.append(text)

    def value(self, node: _Node) -> Any:
        """A node's value as JSON has it."""
        try:
            value = self._decode(node)
            return json_number(value) if isinstance(value, float) else value
        except ScalarError as error:
            raise YamlError(f"line {node.line}: {error}") from None

    def _decode(self, node: _Node) -> Any:
        """A node's value, floats and integers still apart, as keys need them."""
        self._count(node)
        if node.kind == "alias":
            return self._alias(node)
        try:
            self._depth += 1
            if node.kind == "scalar":
                if not (node.value.isascii() or is_text(node.value)):
                    raise YamlError(f"line {node.line}: half of a surrogate pair is not a character")
                return resolve(node.value, node.tag, plain=node.plain)
            if node.kind == "sequence":
                return [self.value(item) for item in node.items]
            return self._mapping(node)
        except ScalarError as error:
            raise YamlError(f"line {node.line}: {error}") from None
        finally:
            self._depth -= 1

    def _count(self, node: _Node) -> None:
        self._decoded += 1
        if self._depth > self._limits.depth:
            raise YamlError(f"line {node.line}: nested more than {self._limits.depth} deep")
        if not self._alias_depth:
            return  # what is written once is bounded by the size of the text
        self._aliased += 1
        self._bytes += len(node.value) + _NODE_BYTES
        if (
            self._aliased > 100
            and self._decoded > 1000
            and self._aliased / self._decoded > _allowed_ratio(self._decoded)
        ):
            raise YamlError(f"line {node.line}: excessive aliasing")
        if self._bytes > self._limits.expanded:
            raise YamlError(f"line {node.line}: aliases expand it to more than {self._limits.expanded} bytes")
        if self._aliased > self._limits.aliased:
            raise YamlError(f"line {node.line}: aliases stand for more than {self._limits.aliased} values")

    def _alias(self, node: _Node) -> Any:
        assert node.alias is not None
        if id(node) in self._expanding:
            raise YamlError(f"line {node.line}: anchor {node.value!r} contains itself")
        self._expanding.add(id(node))
        self._alias_depth += 1
        try:
            return self._decode(node.alias)
        finally:
            self._alias_depth -= 1
            self._expanding.discard(id(node))

    def _mapping(self, node: _Node) -> dict[str, Any]:
        found: dict[tuple[str, Any], Any] = {}
        self._fill(node, found)
        result: dict[str, Any] = {}
        for (_, key), value in found.items():
            text = key_text(key)
            if text in result:
                # The library keeps either of them, by chance.
                raise YamlError(f"line {node.line}: two keys of different types are both {text!r}")
            result[text] = value
        return result

    def _fill(self, node: _Node, found: dict[tuple[str, Any], Any]) -> None:
        """Put a mapping's entries into ``found``; later ones win, those of a merge key too."""
        seen: set[tuple[str, Any]] = set()
        for key_node, value_node in zip(node.items[::2], node.items[1::2], strict=True):
            if _is_merge(key_node):
                self._merge(value_node, found)
                continue
            key = self._decode(key_node)
            if isinstance(key, dict | list) or key is None:
                kind = "null" if key is None else "a collection"
                raise YamlError(f"line {key_node.line}: {kind} cannot be a key")
            identity = (type(key).__name__, key)
            if identity in seen:
                self._note(f"line {key_node.line}: the key {str(key)!r} is there twice; the last one counts")
            seen.add(identity)
            found[identity] = self.value(value_node)

    def _merge(self, node: _Node, found: dict[tuple[str, Any], Any]) -> None:
        # Of several the first takes precedence, so it is written last.
        for part in reversed(node.items) if node.kind == "sequence" else (node,):
            self._count(part)
            target = part.alias if part.alias is not None else part
            if target.kind != "mapping":
                raise YamlError(f"line {part.line}: the value of << must be a mapping or several")
            if part.alias is None:
                self._fill(part, found)
                continue
            if id(part) in self._expanding:
                raise YamlError(f"line {part.line}: anchor {part.value!r} contains itself")
            self._expanding.add(id(part))
            self._alias_depth += 1
            self._count(target)
            self._fill(target, found)
            self._alias_depth -= 1
            self._expanding.discard(id(part))


def _is_merge(node: _Node) -> bool:
    return node.kind == "scalar" and node.value == "<<" and (node.plain or node.tag == MERGE)


__all__ = ["CachedReader", "Document", "Limits", "YamlError", "read", "read_thoroughly"]
