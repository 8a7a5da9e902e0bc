# SPDX-License-Identifier: Apache-2.0
"""Where the demo is played: shows titles, commands as a user types them, their real output, and claims.

Used by `story`. A command is shown exactly as it is run; only where kubectl and the kubeconfig are is filled in unseen.
Works the same in a terminal and in a log: colour is the only difference. It never retries and never guesses: a command
that fails, or a claim that does not hold, ends the demo.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TextIO

COMMAND_SECONDS: Final = 30.0
"""On top of the patience: for a command that hangs although it was told when to give up."""
_BOLD, _DIM, _GREEN, _RED = "1", "2", "32", "31"


class ClaimFailed(Exception):
    """A claim of the demo does not hold. The message is one line: which claim, and what was seen instead."""


@dataclass
class Stage:
    """One performance.

    Args:
        folder: where commands run; the manifests are there.
        kubectl: the program that `kubectl` stands for.
        kubeconfig: the cluster and the namespace, for every command.
        patience: seconds that a wait may take.
        environment: what commands inherit, PATH and KUBECONFIG apart.
        out: where everything is shown.
    """

    folder: Path
    kubectl: Path
    kubeconfig: Path
    patience: float = 30.0
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    out: TextIO = field(default_factory=lambda: sys.stdout)
    claims: int = 0
    _steps: int = 0

    def title(self, text: str) -> None:
        """Begin a step."""
        self._steps += 1
        self._show("")
        self._show(f"{self._steps}. {text}", _BOLD)

    def say(self, text: str) -> None:
        """One line of explanation."""
        self._show(f"   {text}")

    def run(self, command: str, claim: str = "", *, code: int = 0) -> str:
        """Show a command and its output, and return that. When it fails, so does the claim it stands for.

        ``code`` is the exit code that says success.
        """
        self._show(f"   $ {command}", _BOLD)
        done = self._execute(command)
        text = done.stdout + done.stderr
        for line in text.splitlines():
            self._show(f"     {line}")
        if done.returncode != code:
            last = text.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
            self._fail(claim or "every command of the demo succeeds", f"{command}: {last[0]}")
        if claim:
            self._holds(claim)
        return done.stdout

    def wait(self, what: str, condition: str, claim: str = "") -> None:
        """Await a condition with `kubectl wait`."""
        self.run(f"kubectl wait {what} --for={condition} --timeout={self.patience:g}s", claim)

    def claim(self, text: str, got: object, want: object) -> None:
        """Check a claim, and show that it holds. Raises ClaimFailed."""
        if got != want:
            self._fail(text, f"wanted {want!r}, got {got!r}")
        self._holds(text)

    def look(self, command: str) -> Any:
        """The JSON that a command prints, unseen: for checking only."""
        done = self._execute(command)
        if done.returncode:
            self._fail("every command of the demo succeeds", f"{command}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def quietly(self, command: str) -> None:
        """Run a command unseen, whatever comes of it: for tidying up."""
        self._execute(command)

    def _execute(self, command: str) -> subprocess.CompletedProcess[str]:
        program, *arguments = shlex.split(command)
        limit = self.patience + COMMAND_SECONDS
        try:
            return subprocess.run(
                [str(self.kubectl) if program == "kubectl" else program, *arguments],
                cwd=self.folder,
                env={**self.environment, "KUBECONFIG": str(self.kubeconfig)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 1, "", f"no end after {limit:g} s\n")

    def _holds(self, text: str) -> None:
        self.claims += 1
        self._show(f"   ok: {text}", _GREEN)

    def _fail(self, text: str, seen: str) -> None:
        self._show(f"   FAILED: {text}", _RED)
        raise ClaimFailed(f"{text}: {seen}")

    def _show(self, line: str, style: str = "") -> None:
        if style and self.out.isatty() and "NO_COLOR" not in self.environment:
            line = f"\033[{style}m{line}\033[0m"
        print(line, file=self.out, flush=True)
