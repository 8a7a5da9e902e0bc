# SPDX-License-Identifier: Apache-2.0
"""Reads the YAML that the reference usually writes in one pass: no anchors, tags, merge keys or keys but strings.

A third of the time of ``yaml_go``, which calls it first and reads everything else itself. Pure. What it returns is
what ``yaml_go`` would return without a note; it never decides that a text is wrong.
"""

from __future__ import annotations

from typing import Any, Final

import yaml
from yaml import events as ev

from trainsnap_controller.migration.goscalar import ScalarError, json_number, resolve

PARSER: Final[Any] = yaml.CSafeLoader
"""libyaml's, used for its events only: the resolving part of it is never reached. PyYAML's own is another one."""


class Unusual(Exception):
    """The text has to be read the thorough way: it holds something unusual, or something wrong."""


def read_usual(data: bytes, depth: int) -> Any:
    """The value of the only document in a text, nested less than ``depth`` deep. Raises ``Unusual``."""
    parser = PARSER(data)
    try:
        value = _document(parser.get_event, depth)
        if type(parser.get_event()) is not ev.StreamEndEvent:
            raise Unusual
    except (yaml.YAMLError, ScalarError, RecursionError) as error:
        raise Unusual from error
    finally:
        parser.dispose()
    return value


def _document(next_event: Any, depth: int) -> Any:
    root: list[Any] = []
    holder: Any = root
    above: list[Any] = []
    key: str | None = None
    known: dict[str, Any] = {}
    # By type and not by pattern: this loop is most of the time that reading takes.
    while True:
        event = next_event()
        kind = type(event)
        if kind is ev.ScalarEvent:
            value = event.value
            if event.anchor is not None or event.tag is not None or not (value.isascii() or is_text(value)):
                raise Unusual
            if event.implicit[0]:
                if value not in known:
                    known[value] = _plain(value)
                value = known[value]
            if type(holder) is list:
                holder.append(value)
            elif key is not None:
                holder[key] = value
                key = None
            elif type(value) is not str or value in holder or value == "<<":
                raise Unusual
            else:
                key = value
        elif kind is ev.MappingEndEvent or kind is ev.SequenceEndEvent:
            holder = above.pop()
        elif kind is ev.MappingStartEvent or kind is ev.SequenceStartEvent:
            above.append(holder)
            inner: Any = {} if kind is ev.MappingStartEvent else []
            if event.anchor is not None or len(above) >= depth:
                raise Unusual
            if type(holder) is list:
                holder.append(inner)
            elif key is not None:
                holder[key] = inner
                key = None
            else:
                raise Unusual
            holder = inner
        elif kind is ev.DocumentEndEvent:
            return root[0]
        elif kind is not ev.StreamStartEvent and kind is not ev.DocumentStartEvent:
            raise Unusual


def _plain(text: str) -> Any:
    value = resolve(text, None, plain=True)
    return json_number(value) if isinstance(value, float) else value


def is_text(value: str) -> bool:
    """Whether a string holds no half of a surrogate pair."""
    return not any("\ud800" <= character <= "\udfff" for character in value)
