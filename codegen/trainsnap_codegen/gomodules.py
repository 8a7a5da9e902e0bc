# SPDX-License-Identifier: Apache-2.0
"""Finds the sources of pinned Go modules, through the ``go`` command and never by a path of its own.

Called by ``pin``. The versions are those of ``tools/modules/*/go.mod``, the ones that the local plane is built from, so
that schemas and running components never differ.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path


class GoUnavailableError(Exception):
    """There is no Go, or the module can be neither found nor fetched. Pinned files are then taken as they are."""


@dataclass(frozen=True, slots=True)
class GoModule:
    """A module of the module cache."""

    path: str
    version: str
    folder: Path


def locate(root: Path, tool: str, module: str) -> GoModule:
    """The module ``module`` at the version that ``tools/modules/<tool>/go.mod`` selects.

    Raises GoUnavailableError. Downloads the module when the cache does not hold it.
    """
    go = shutil.which("go")
    if go is None:
        raise GoUnavailableError("go is not on PATH")
    where = root / "tools" / "modules" / tool
    if not (where / "go.mod").exists():
        raise GoUnavailableError(f"{where} has no go.mod")

    def ask() -> tuple[str, str]:
        answer = _run([go, "list", "-mod=readonly", "-m", "-f", "{{.Version}}\t{{.Dir}}", module], where)
        version, _, folder = answer.strip().partition("\t")
        return version, folder

    version, folder = ask()
    if not folder:
        _run([go, "mod", "download", module], where)
        version, folder = ask()
    if not folder:
        raise GoUnavailableError(f"{module} {version} is not in the module cache")
    return GoModule(module, version, Path(folder))


def _run(command: list[str], where: Path) -> str:
    # A workspace file of the user's must not change which versions are selected.
    env = {**os.environ, "GOWORK": "off"}
    try:
        done = subprocess.run(command, cwd=where, env=env, capture_output=True, text=True, timeout=300)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GoUnavailableError(f"{' '.join(command)}: {error}") from error
    if done.returncode:
        raise GoUnavailableError(f"{' '.join(command)}: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout
