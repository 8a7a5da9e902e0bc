# SPDX-License-Identifier: Apache-2.0
"""A local Kubernetes control plane made of the real components, without a container engine.

`tools/plane` is its command line; tests and the demo use `Plane`. It never touches a cluster that it did not start,
and it never signals a process that it did not start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import PlaneError

if TYPE_CHECKING:
    from .plane import Plane

__all__ = ["Plane", "PlaneError"]


def __getattr__(name: str) -> Any:
    # Late, because the supervisor lives in this package too and stays small: no YAML, no TLS.
    if name == "Plane":
        from .plane import Plane

        return Plane
    raise AttributeError(name)
