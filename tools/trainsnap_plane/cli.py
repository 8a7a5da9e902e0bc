# SPDX-License-Identifier: Apache-2.0
"""The command line, `tools/plane`. Every failure is one clear line on stderr (a log tail may follow) and a non-zero
exit.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
import time
from typing import TYPE_CHECKING

from .binaries import cached_manifests, find
from .build import Builder
from .components import PROFILES
from .errors import NotRunning, PlaneError
from .launch import needed_parts
from .parts import PARTS, cache_folder
from .plane import Plane, clear
from .process import end_as_on_ctrl_c

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    arguments = _parser().parse_args(argv)
    end_as_on_ctrl_c()  # Nothing of an unfinished `up` or build stays.
    try:
        code: int = arguments.run(arguments)
    except PlaneError as error:
        print(f"plane: {error}", file=sys.stderr)
        for line in error.detail.splitlines():
            print(f"  | {line}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        with contextlib.suppress(OSError):  # The terminal may be what ended.
            print("plane: interrupted; nothing is left running", file=sys.stderr)
        return 130
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="plane", description="A local Kubernetes control plane without a container engine."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    build = commands.add_parser("build", help="build what is missing (minutes the first time, then seconds)")
    _profile(build, "full")
    build.set_defaults(run=_build)

    up = commands.add_parser("up", help="start a plane; returns when everything answers")
    _directory(up)
    _profile(up, "api")
    up.add_argument("--keep", action="store_true", help="leave the folder when the plane ends or does not come up")
    up.set_defaults(run=_up)

    down = commands.add_parser("down", help="stop a plane and remove its folder")
    _directory(down)
    down.add_argument("--keep", action="store_true", help="leave the folder; `up` goes on with its data")
    down.set_defaults(run=_down)

    status = commands.add_parser("status", help="show the components; exit code 1 when one is not running")
    _directory(status)
    status.set_defaults(run=_status)

    kubeconfig = commands.add_parser("kubeconfig", help="print the path of a kubeconfig for one more user")
    _directory(kubeconfig)
    kubeconfig.add_argument("--user", required=True)
    kubeconfig.add_argument("--group", action="append", default=[], help="may be given more than once")
    kubeconfig.set_defaults(run=_kubeconfig)
    return parser


def _directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dir", required=True, metavar="D", help="the plane's folder")


def _profile(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument(
        "--profile",
        choices=sorted(PROFILES),
        default=default,
        help=f"api: etcd and API server; full: controllers, scheduler, JobSet and kwok too (default {default})",
    )


def _build(arguments: argparse.Namespace) -> int:
    names = needed_parts(arguments.profile)
    Builder().ensure(names)
    for name in names:
        found = find(PARTS[name])
        print(f"{name:24} {found.origin if found else 'missing':7} {found.path if found else ''}")
    print(f"{'manifests':24} cache   {cached_manifests(cache_folder())}")
    return 0


def _up(arguments: argparse.Namespace) -> int:
    began = time.monotonic()
    plane = Plane.start(
        arguments.dir, arguments.profile, keep=arguments.keep, say=lambda text: print(f"plane: {text}", file=sys.stderr)
    )
    plane.detach()
    print(f"plane: ready in {time.monotonic() - began:.1f} s", file=sys.stderr)
    _tell(plane.kubectl, plane.kubeconfig)
    return 0


def _down(arguments: argparse.Namespace) -> int:
    if not clear(arguments.dir, keep=True if arguments.keep else None):
        print("plane: it was not running any more; what was left of it is removed", file=sys.stderr)
    return 0


def _status(arguments: argparse.Namespace) -> int:
    try:
        plane = Plane.attach(arguments.dir)
        components = plane.status()
    except NotRunning as error:
        raise PlaneError(f"{error} (its supervisor is gone); `down` removes what is left") from error
    for one in components:
        code = "" if one.exit_code is None else f" (exit code {one.exit_code})"
        print(f"{one.name:24} {one.state}{code}  pid {one.pid}")
        for line in one.log_tail.splitlines():
            print(f"  | {line}")
    _tell(plane.kubectl, plane.kubeconfig)
    expected = len(PROFILES[plane.profile])
    return 0 if len(components) == expected and all(one.state == "running" for one in components) else 1


def _tell(kubectl: Path, kubeconfig: Path) -> None:
    """As a shell reads it."""
    print(f"KUBECTL={shlex.quote(str(kubectl))}")
    print(f"KUBECONFIG={shlex.quote(str(kubeconfig))}")


def _kubeconfig(arguments: argparse.Namespace) -> int:
    print(Plane.attach(arguments.dir).user_kubeconfig(arguments.user, arguments.group))
    return 0
