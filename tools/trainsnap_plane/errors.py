# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with a plane, named after what a caller can do about it.

Raised everywhere in this package; the command line prints the message as one line (a log tail may follow).
"""

from __future__ import annotations


class PlaneError(Exception):
    """The message is for the person who runs the plane. `detail` holds further lines, such as the tail of a log."""

    def __init__(self, message: str, *, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class ComponentDied(PlaneError):
    """A component ended by itself. `component` names it, `detail` is the tail of its log."""

    def __init__(self, component: str, exit_code: int, *, detail: str = "") -> None:
        how = f"killed by signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"
        super().__init__(f"{component} ended by itself ({how})", detail=detail)
        self.component = component

    @property
    def port_was_taken(self) -> bool:
        """True when another process bound the port between the choice and the start: starting anew with other ports
        helps.
        """
        return "address already in use" in self.detail


class NotRunning(PlaneError):
    """There is no living supervisor behind the folder: `up` starts one, `down` clears what is left."""


class BuildFailed(PlaneError):
    """Go could not build a part. `detail` is the tail of what it printed."""
