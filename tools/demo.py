# SPDX-License-Identifier: Apache-2.0
"""`make demo`: shows the main job on a plane of its own, checks every claim, and cleans up after itself.

Exit codes: 0 every claim holds, 1 one does not (stderr says which) or something failed, 130 interrupted. Whatever
happens, plane, operator and files are gone afterwards; with --keep the plane and the files stay.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from trainsnap_demo.operator import OperatorFailed, operator
from trainsnap_demo.stage import ClaimFailed, Stage
from trainsnap_demo.story import play, tidy
from trainsnap_plane import Plane
from trainsnap_plane.errors import PlaneError
from trainsnap_plane.process import ENDING, end_as_on_ctrl_c

NAMESPACE = "team-a"


def main(argv: list[str] | None = None) -> int:
    """Run the demo; returns the exit code."""
    arguments = _parser().parse_args(argv)
    end_as_on_ctrl_c()
    began = time.monotonic()
    try:
        with _folder(keep=arguments.keep) as folder:
            claims = _on_given(arguments, folder) if arguments.kubeconfig else _on_own(arguments, folder)
    except (ClaimFailed, OperatorFailed, PlaneError, OSError) as error:
        label = "this claim does not hold: " if isinstance(error, ClaimFailed) else ""
        print(f"demo: {label}{error}", file=sys.stderr)
        for line in getattr(error, "detail", "").splitlines():
            print(f"  | {line}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        with contextlib.suppress(OSError):  # The terminal may be what ended.
            print("demo: interrupted; nothing is left running", file=sys.stderr)
        return 130
    print(f"\nAll {claims} claims hold ({time.monotonic() - began:.0f} s).")
    return 0


def _on_own(arguments: argparse.Namespace, folder: Path) -> int:
    """A plane and an operator for this demo alone. Returns how many claims were checked."""
    # Flushed: what is built tells of itself on stderr.
    print(
        "Starting a local Kubernetes control plane (the first time its parts are built, which takes minutes)",
        flush=True,
    )
    with _plane(folder / "plane", keep=arguments.keep) as plane:
        print("Starting the operator\n   $ trainsnap dev --kubeconfig plane/kubeconfig", flush=True)
        with operator(plane.kubeconfig, folder / "operator.log", lambda line: print(f"     {line}", flush=True)):
            stage = _stage(arguments, folder, plane.kubeconfig, plane.kubectl)
            stage.run(f"kubectl create namespace {NAMESPACE}")
            stage.run(f"kubectl config set-context --current --namespace={NAMESPACE}")
            play(stage)
            return stage.claims


def _on_given(arguments: argparse.Namespace, folder: Path) -> int:
    """A plane that runs already, with the operator. Returns how many claims were checked."""
    stage = _stage(arguments, folder, arguments.kubeconfig, arguments.kubectl)
    stage.run(f"kubectl config set-context --current --namespace={arguments.namespace}")
    try:
        play(stage)
        return stage.claims
    finally:
        with _no_interrupts():
            tidy(stage)


def _stage(arguments: argparse.Namespace, folder: Path, kubeconfig: Path, kubectl: Path) -> Stage:
    """A stage with a kubeconfig of its own, whose namespace can be set without a trace."""
    own = folder / "kubeconfig"
    shutil.copy(kubeconfig, own)
    return Stage(folder, kubectl, own, arguments.patience)


@contextlib.contextmanager
def _folder(*, keep: bool) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="trainsnap-demo-"))
    try:
        yield folder
    finally:
        # With --keep the plane's folder is in here; without, or when it never came up, nothing is worth keeping.
        if not (keep and (folder / "plane").exists()):
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _plane(folder: Path, *, keep: bool) -> Iterator[Plane]:
    """A full plane; with `keep` it lives on, unless the demo is interrupted."""
    plane = Plane.start(folder, "full", say=lambda text: print(f"   {text}", flush=True))
    try:
        yield plane
    except (KeyboardInterrupt, SystemExit):
        keep = False
        raise
    finally:
        with _no_interrupts():
            if keep:
                plane.detach()
                _tell(plane, folder.parent)
            else:
                plane.stop()


def _tell(plane: Plane, folder: Path) -> None:
    own = folder / "kubeconfig"  # It knows the demo's namespace; made only when the operator was ready.
    alias = shlex.quote(f"kubectl={shlex.quote(str(plane.kubectl))}")  # Its value is read as a command once more.
    print("\nThe plane is left running; the operator has ended.")
    print(f"  use it     export KUBECONFIG={_word(own if own.exists() else plane.kubeconfig)}")
    print(f"             alias {alias}")
    print(f"  operator   .venv/bin/trainsnap dev --kubeconfig {_word(plane.kubeconfig)}")
    print(f"  stop it    tools/plane down --dir {_word(plane.directory)} && rm -r {_word(folder)}", flush=True)


def _word(path: Path) -> str:
    """A path as one word of a command that is copied into a shell."""
    return shlex.quote(str(path))


@contextlib.contextmanager
def _no_interrupts() -> Iterator[None]:
    """A second Ctrl-C does not stop the tidying up, which takes seconds."""
    saved = {which: signal.signal(which, signal.SIG_IGN) for which in (signal.SIGINT, *ENDING)}
    try:
        yield
    finally:
        for which, handler in saved.items():
            signal.signal(which, handler)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="demo", description="Shows the main job step by step, and checks every claim."
    )
    parser.add_argument("--keep", action="store_true", help="leave the plane running, and say how to stop it")
    parser.add_argument("--patience", type=float, default=30.0, metavar="S", help="seconds that a wait may take")
    given = parser.add_argument_group("to use a full local plane that runs already, with the operator on it")
    given.add_argument("--kubeconfig", type=Path, metavar="FILE")
    given.add_argument("--kubectl", type=Path, default=Path("kubectl"), metavar="FILE")
    given.add_argument("--namespace", default="default", help="must exist")
    return parser


if __name__ == "__main__":
    sys.exit(main())
