# SPDX-License-Identifier: Apache-2.0
"""Texts cut to the lengths that Kubernetes accepts, never in the middle of a character.

Called wherever a text of unknown length (an error, a list of names) goes into an event or a condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

EVENT_NOTE_BYTES: Final = 1024
"""Longest ``note`` of an events.k8s.io/v1 Event; a longer one is refused by the API server."""

CONDITION_MESSAGE_BYTES: Final = 32768
"""Longest ``message`` of a ``metav1.Condition``."""

FAILURE_CHARACTERS: Final = 950
"""What the reference keeps of an error in its event before it adds `` ...``."""


def truncate(text: str, limit: int, ending: str = " ...") -> str:
    """The text if it is at most ``limit`` bytes of UTF-8, else its beginning and the ending, together within limit."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        # Through bytes and back, so that a lone surrogate cannot break the encoding of a request.
        return data.decode("utf-8")
    tail = ending.encode()
    return data[: limit - len(tail)].decode("utf-8", "ignore") + ending


def listed(lines: Sequence[str], limit: int = 10) -> str:
    """The first of some findings, and how many more there are."""
    more = f" (and {len(lines) - limit} more)" if len(lines) > limit else ""
    return "; ".join(lines[:limit]) + more


def event_note(text: str) -> str:
    """The text as the note of an event."""
    return truncate(text, EVENT_NOTE_BYTES)


def condition_message(text: str) -> str:
    """The text as the message of a condition."""
    return truncate(text, CONDITION_MESSAGE_BYTES)


def failure_note(prefix: str, error: str) -> str:
    """The note of a failure as the reference writes it: the prefix, and the error cut to 950 characters followed by
    `` ...`` if it was longer."""
    if len(error) > FAILURE_CHARACTERS:
        error = error[:FAILURE_CHARACTERS] + " ..."
    return event_note(prefix + error)
