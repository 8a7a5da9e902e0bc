# SPDX-License-Identifier: Apache-2.0
"""The published packages that we are compared with and must work with, in a virtual environment of their own.

Test-only: their requirements must not meet ours. Made on demand in the user's cache folder, which may be empty, and
kept for every later run; a change of the versions makes a new one.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pydantic

REQUIREMENTS = (
    "kubeflow==0.5.0",
    "kubeflow-trainer-api==2.3.0",
    "kubernetes==35.0.0",
    # The same as here, so that a comparison is one of the packages.
    f"pydantic=={pydantic.VERSION}",
)


class NotInstallableError(Exception):
    """The packages cannot be had, say without a network. The message is pip's last line."""


def python() -> Path:
    """The interpreter of the environment; made first when it is not there. Raises NotInstallableError."""
    digest = hashlib.sha256("\n".join([*REQUIREMENTS, sys.version]).encode()).hexdigest()[:12]
    folder = _cache() / f"published-{digest}"
    interpreter, done = folder / "bin" / "python", folder / ".done"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_suffix(".lock")):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            venv.create(folder, with_pip=True)
            command = [
                str(interpreter),
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                *REQUIREMENTS,
            ]
            finished = subprocess.run(command, capture_output=True, text=True)
            if finished.returncode:
                lines = finished.stderr.strip().splitlines() or ["pip failed"]
                raise NotInstallableError(lines[-1])
            done.touch()
    return interpreter


def environment(pycache: Path | None = None) -> dict[str, str]:
    """Without what would point the packages to another cluster or to our own modules; with compiled modules kept in
    ``pycache``, for comparing how fast imports are."""
    found = {key: value for key, value in os.environ.items() if key not in ("KUBECONFIG", "PYTHONPATH")}
    if pycache is not None:
        found.pop("PYTHONDONTWRITEBYTECODE", None)
        found["PYTHONPYCACHEPREFIX"] = str(pycache)
    return found


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "trainsnap"


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
