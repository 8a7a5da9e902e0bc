# SPDX-License-Identifier: Apache-2.0
"""The plain values that calls return: a JSON object, an answer, a list, a page, a watch event.

Used by everything that talks to the cluster; nothing here reads or writes anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from trainsnap_api.transport.errors import MalformedResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

JSON = dict[str, Any]
"""A JSON object as it came from the server: numbers, strings and order untouched."""


def decode_object(content: bytes | msgspec.Raw, what: str) -> JSON:
    """The JSON object in ``content``; MalformedResponse naming ``what`` when it is none."""
    try:
        value = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedResponse(f"{what}: the answer is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise MalformedResponse(f"{what}: the answer is a JSON {type(value).__name__}, not an object")
    return value


@dataclass(frozen=True, slots=True)
class Response:
    """A successful answer. ``headers`` has lower-case names; ``warnings`` the texts of its Warning headers."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    warnings: tuple[str, ...] = ()
    what: str = field(default="", repr=False)
    """Method and path, for error messages."""

    def json(self) -> JSON:
        """The body as a JSON object; MalformedResponse when it is none."""
        return decode_object(self.content, self.what)


@dataclass(frozen=True, slots=True)
class ObjectList:
    """A whole list: every item with its apiVersion and kind, and the resourceVersion that a watch can start from."""

    items: list[JSON]
    resource_version: str


@dataclass(frozen=True, slots=True)
class RawPage:
    """One page of a list. ``items`` are views into the page's bytes: decode them, or copy what is kept.

    ``resource_version`` is that of the whole list, the same on every page; ``remaining`` the server's estimate of how
    many items follow, None when it gives none.
    """

    items: list[msgspec.Raw]
    resource_version: str
    remaining: int | None


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """``type`` is ADDED, MODIFIED, DELETED or BOOKMARK; ``raw`` the object's own bytes (of a bookmark: a stub that
    carries nothing but the resourceVersion)."""

    type: str
    raw: bytes

    def json(self) -> JSON:
        """The object, decoded."""
        return decode_object(self.raw, f"watch event {self.type}")


@dataclass(frozen=True, slots=True)
class ServiceAccountToken:
    """An issued token; ``expires`` as the server wrote it (RFC 3339)."""

    token: str = field(repr=False)
    expires: str
