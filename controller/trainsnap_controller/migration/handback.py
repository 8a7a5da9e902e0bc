# SPDX-License-Identifier: Apache-2.0
"""The ConfigMap that the reference reads, made from a snapshot: for going back, and for ``dual-write``. Pure.

The minimal form: apiVersion, kind, name, namespace, labels, annotations and spec, with the reference's owner reference.
The spec is the stored one, defaults included, since the reference applies none on reading.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from trainsnap_controller import constants as c
from trainsnap_controller.migration.goscalar import ScalarError, resolve
from trainsnap_controller.migration.legacy import KEY, name_of
from trainsnap_controller.snapshot.content import KNOWN_RUNTIMES

JSON = dict[str, Any]

_PLAIN: Final = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*", re.ASCII)
_LONGEST_SIMPLE_KEY: Final = 128
_UNSAFE: Final = re.compile("[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


def config_map_of(snapshot: JSON, owner_reference: JSON, live: JSON | None) -> JSON | None:
    """The ConfigMap to apply; None for a kind of runtime that the reference does not know.

    ``live``: the one of its name that is there. The document changes this very one in this very state, or, without
    one, makes one: whatever else is there when it is applied is a Conflict and stays.
    """
    source = snapshot["source"]
    if source.get("apiGroup") != c.GROUP or source.get("kind") not in KNOWN_RUNTIMES:
        return None
    metadata = snapshot["metadata"]
    runtime = {"apiVersion": c.API_VERSION, "kind": source["kind"], "metadata": {"name": source["name"]}}
    if source["kind"] == "TrainingRuntime":
        runtime["metadata"]["namespace"] = metadata["namespace"]
    for key in ("labels", "annotations"):
        if source.get(key):
            runtime["metadata"][key] = source[key]
    if "spec" in snapshot:
        runtime["spec"] = snapshot["spec"]
    keys = ("uid", "resourceVersion")
    condition = {"resourceVersion": c.NO_VERSION} if live is None else {key: live["metadata"][key] for key in keys}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name_of(metadata["name"]),
            "namespace": metadata["namespace"],
            "ownerReferences": [owner_reference],
            **condition,
        },
        "data": {KEY: yaml_text(runtime)},
    }


def yaml_text(value: Any) -> str:
    """YAML that every reader takes for the same JSON value: sorted keys, strings quoted unless they are plain words."""
    return "\n".join(_lines(value, "")) + "\n"


def _lines(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key in sorted(value):
            text = _scalar(key)
            if len(text) > _LONGEST_SIMPLE_KEY:
                yield f"{indent}? {text}"
                text = ""
            yield from _entry(f"{indent}{text}:", value[key], indent)
    elif isinstance(value, list) and value:
        for item in value:
            first, *rest = _lines(item, indent + "  ")
            yield f"{indent}- {first.lstrip(' ')}"
            yield from rest
    else:
        yield indent + _scalar(value)


def _entry(head: str, value: Any, indent: str) -> Iterator[str]:
    if value and isinstance(value, dict | list):
        yield head
        # The dashes of a list stand below its key, as the reference writes them.
        yield from _lines(value, indent if isinstance(value, list) else indent + "  ")
    else:
        yield f"{head} {_scalar(value)}"


def _scalar(value: Any) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    if _PLAIN.fullmatch(value) and _is_word(value):
        return value
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + _UNSAFE.sub(lambda match: _escaped(ord(match[0])), quoted) + '"'


def _is_word(value: str) -> bool:
    try:
        return resolve(value, None, plain=True) == value
    except ScalarError:
        return False


def _escaped(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


__all__ = ["config_map_of", "yaml_text"]
