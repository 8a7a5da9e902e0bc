# SPDX-License-Identifier: Apache-2.0
"""The digest that identifies a blueprint, and the comparison of what was sent with what the server stored.

Both are pure. The digest is taken over what is POSTed, never over what is read: the API server shows defaults that a
newer CRD has gained on old objects too, and a digest of the read form would drift with every CRD upgrade.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec

_CANONICAL = msgspec.json.Encoder(order="sorted")

# Maps whose keys users choose. The API server never defaults a key into one of them, so a key that appears there
# was put there by somebody else (a mutating webhook of a third party, for instance).
FREE_MAPS = frozenset({"labels", "annotations", "nodeSelector", "matchLabels", "limits", "requests", "data"})


def canonical_json(value: Any) -> bytes:
    """Canonical JSON: keys sorted, no spaces, UTF-8 unescaped, list order kept."""
    return _CANONICAL.encode(value)


def digest(value: Any) -> str:
    """``sha256:<hex>`` over the canonical JSON of a value. Absent (None) is digested as JSON ``null``."""
    return "sha256:" + hashlib.sha256(canonical_json(value)).hexdigest()


def beyond_defaults(sent: Any, stored: Any, path: str = "", *, exact: bool = False) -> Iterator[str]:
    """Yield one line per place in which ``stored`` differs from ``sent`` by more than defaults added by the server.

    Defaults only ever add object fields. A changed value, a lost field, another list length, or a new key in a map
    whose keys users choose, or such a map itself, is more than that: the blueprint would not be the admin's any more.
    ``exact``: nothing may have been added at all. For two values of which neither is the server's answer to the other.
    """
    if isinstance(sent, dict) and isinstance(stored, dict):
        for key, value in sent.items():
            where = _below(path, key)
            if key in stored:
                yield from beyond_defaults(value, stored[key], where, exact=exact)
            elif value is not None:
                yield f"{where}: was lost"
        new = {key: value for key, value in stored.items() if key not in sent}
        yield from (f"{_below(path, key)}: was added" for key in new) if exact else _added(new, path)
    elif isinstance(sent, list) and isinstance(stored, list):
        if len(sent) != len(stored):
            yield f"{path}: has {len(stored)} items instead of {len(sent)}"
            return
        for index, (one, other) in enumerate(zip(sent, stored, strict=True)):
            yield from beyond_defaults(one, other, f"{path}[{index}]", exact=exact)
    elif type(sent) is not type(stored) or sent != stored:
        yield f"{path}: was changed from {_short(sent)} to {_short(stored)}"


def deeper_than(value: Any, levels: int) -> bool:
    """Whether objects and lists are nested in each other more than so many times."""
    front = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        if not front:
            return False
        inner = (child for item in front for child in (item.values() if isinstance(item, dict) else item))
        front = [child for child in inner if isinstance(child, dict | list)]
    return bool(front)


def _added(new: dict[str, Any], path: str) -> Iterator[str]:
    """Those new keys of the object at ``path`` that no default can have added."""
    if path.rpartition(".")[2] in FREE_MAPS:
        yield from (f"{path}[{key}]: was added" for key in new)
    else:
        yield from (f"{_below(path, key)}: was added" for key, value in new.items() if key in FREE_MAPS and value)


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _short(value: Any, limit: int = 80) -> str:
    text = canonical_json(value).decode()
    return text if len(text) <= limit else text[: limit - 3] + "..."
