# SPDX-License-Identifier: Apache-2.0
"""What a reconciler may answer for a key, and what it may raise.

Returned or raised by reconcilers, looked at in one place: the worker.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing to do until something changes."""


@dataclass(frozen=True, slots=True)
class RequeueAfter:
    """All is well; look again after so many seconds."""

    seconds: float


Result = Done | RequeueAfter


class RetryableError(Exception):
    """The reconcile could not be finished, for a reason that is understood and may pass: tried again with backoff.

    Logged as one line; any exception that is not of a known type is logged with its traceback as well. A key that must
    be looked at by a certain time, however long its backoff has become, is to be added for that time as well.
    """


class TerminalError(Exception):
    """Trying again cannot help: the key is left alone until something changes."""
