# SPDX-License-Identifier: Apache-2.0
"""Where the binaries of a plane are: `KUBEBUILDER_ASSETS`, then PATH, then the cache. Called by `Plane` and the build.

What `KUBEBUILDER_ASSETS` holds is taken as it is, since somebody named that folder on purpose; what PATH holds only if
it says that it is the right version; the cache is keyed by all that a binary depends on, so it needs no look. Never
builds.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from .parts import PARTS, Part, cache_folder, manifests_digest, version_tuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Origin = Literal["assets", "PATH", "cache"]


@dataclass(frozen=True, slots=True)
class Found:
    """A binary and where it came from."""

    path: Path
    origin: Origin


def cached_binary(part: Part, cache: Path) -> Path:
    """Where the build puts this part."""
    return cache / f"{part.name}-{part.version}-{part.digest()}" / part.name


def cached_manifests(cache: Path) -> Path:
    return cache / f"manifests-{manifests_digest()}"


def find(
    part: Part,
    *,
    environment: Mapping[str, str] = os.environ,
    cache: Path | None = None,
    run: Callable[[Path, tuple[str, ...]], str] | None = None,
) -> Found | None:
    """The binary to use for a part, or None when it has to be built.

    `run` asks a binary for its version and returns what it printed (an empty string when it cannot be run).
    """
    cache = cache or cache_folder(environment)
    if assets := environment.get("KUBEBUILDER_ASSETS"):
        candidate = Path(assets) / part.name
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return Found(candidate.absolute(), "assets")
    if part.tolerance != "never":
        on_path = shutil.which(part.name, path=environment.get("PATH", ""))
        if on_path and is_right_version(part, (run or _ask_version)(Path(on_path), part.version_args)):
            return Found(Path(on_path).absolute(), "PATH")
    cached = cached_binary(part, cache)
    return Found(cached, "cache") if cached.is_file() else None


def missing(names: list[str], *, environment: Mapping[str, str] = os.environ, cache: Path | None = None) -> list[Part]:
    """The parts of these that would have to be built."""
    return [PARTS[name] for name in names if find(PARTS[name], environment=environment, cache=cache) is None]


def is_right_version(part: Part, printed: str) -> bool:
    """Whether a version text names a version that may stand in for the pinned one (see parts.Tolerance)."""
    found = re.search(r"\bv?(\d+\.\d+\.\d+)", printed)
    if found is None:
        return False
    have, want = version_tuple(found[1]), version_tuple(part.version)
    if have[0] != want[0]:
        return False
    distance = abs(have[1] - want[1])
    return distance <= 1 if part.tolerance == "skew" else distance == 0 and part.tolerance == "minor"


def _ask_version(binary: Path, args: tuple[str, ...]) -> str:
    # Without KUBECONFIG: asking for the client's version must not reach for anybody's cluster.
    environment = {k: v for k, v in os.environ.items() if k != "KUBECONFIG"}
    try:
        done = subprocess.run(
            [binary, *args],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout or done.stderr
