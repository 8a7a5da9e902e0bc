# SPDX-License-Identifier: Apache-2.0
"""URL paths of the Kubernetes API: safe segments going in, low-cardinality templates for metrics coming out.

Names reach us from objects that users write, so a name is data and must not be able to change which path is called.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from trainsnap_api.transport.errors import InvalidName

_PATH = re.compile(r"/[!$&-;=@A-Z_a-z~%]*\Z")
"""Printable ASCII without ``?``, ``#``, quotes, brackets, backslashes or blanks: what an encoded path consists of."""


def segment(value: str, what: str = "name") -> str:
    """``value`` percent-encoded as one path segment. InvalidName for what no object may be called (the rule of the
    API server: not empty, not ``.`` or ``..``, without ``/`` and ``%``)."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a string, not {type(value).__name__}")
    if value in ("", ".", "..") or "/" in value or "%" in value:
        raise InvalidName(f"{what} {value[:253]!r} cannot be the name of an object: "
                          'it must not be empty, "." or "..", nor contain "/" or "%"')  # fmt: skip
    return quote(value, safe=":@!$&'()*,;=~")


def check(path: str) -> str:
    """A path that callers put together themselves, unchanged; ValueError when it is not an absolute, encoded path."""
    if not _PATH.match(path) or any(part in (".", "..") for part in path.split("/")):
        raise ValueError(f"not an absolute, percent-encoded URL path: {path!r}")
    return path


def template(path: str) -> str:
    """The path with ``{namespace}`` and ``{name}`` in place of names, as a label for metrics.

    ``/apis/G/V/namespaces/{namespace}/PLURAL/{name}/SUBRESOURCE``; paths outside ``/api`` and ``/apis`` are kept.
    """
    parts = path.split("/")
    # A leading slash makes parts[0] empty: ["", "api", V, ...] or ["", "apis", G, V, ...]
    start = {"api": 3, "apis": 4}.get(parts[1] if len(parts) > 1 else "")
    if start is None or len(parts) <= start:
        return path
    rest = parts[start:]
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        rest[1] = "{namespace}"
        if len(rest) > 3:
            rest[3] = "{name}"
    elif len(rest) > 1:
        rest[1] = "{name}"
    return "/".join(parts[:start] + rest)
