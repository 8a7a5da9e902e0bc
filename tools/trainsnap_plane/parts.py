# SPDX-License-Identifier: Apache-2.0
"""What a plane is built from: binaries and manifests, each with its pinned Go module. Data, and the digests of it.

The versions stand in `tools/modules/*/go.mod` and nowhere else. Read by binaries.py (search) and build.py.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from .errors import PlaneError

if TYPE_CHECKING:
    from collections.abc import Mapping

MODULES = Path(__file__).resolve().parents[1] / "modules"
GOFLAGS = "-trimpath -buildvcs=false"
# How far a binary found on PATH may be away from the pinned version: `minor` is the same minor release, `skew` one
# minor release up or down (what Kubernetes supports between kubectl and the API server), `never` means that it cannot
# be told.
Tolerance = Literal["minor", "skew", "never"]


@dataclass(frozen=True, slots=True)
class Part:
    """One binary. `seconds` is its build time on two cores from an empty cache, in the order of PARTS, for the
    progress.
    """

    name: str
    module: str
    requires: str
    package: str
    seconds: int
    version_args: tuple[str, ...] = ("--version",)
    tolerance: Tolerance = "minor"
    stamped: bool = False

    @property
    def folder(self) -> Path:
        return MODULES / self.module

    @property
    def version(self) -> str:
        """The pinned version, such as v1.36.3."""
        return required_version(self.module, self.requires)

    @property
    def ldflags(self) -> str:
        flags = ["-s", "-w"]
        if self.stamped:
            # Kubernetes' own build stamps its version; without it the API server takes itself for v0.0.0.
            major, minor, _ = self.version.removeprefix("v").split(".", 2)
            stamps = (("gitVersion", self.version), ("gitMajor", major), ("gitMinor", minor))
            for name, value in stamps:
                flags += ["-X", f"k8s.io/component-base/version.{name}={value}"]
        return " ".join(flags)

    def digest(self) -> str:
        """Changes with everything that the binary depends on: module files, flags and the kind of machine."""
        texts = [self.package, self.ldflags, GOFLAGS, platform.system(), platform.machine()]
        return _digest(texts, [self.folder / "go.mod", self.folder / "go.sum"])


@dataclass(frozen=True, slots=True)
class Manifests:
    """Files out of a module: `files` maps what is taken (a file or folder in the module) to where it lies in the
    cache.
    """

    module: str
    requires: str
    files: tuple[tuple[str, str], ...]


_KUBERNETES = "k8s.io/kubernetes"
_COMMANDS = f"{_KUBERNETES}/cmd"
_PARTS = (
    Part("etcd", "etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", 80),
    Part("kube-apiserver", "kubernetes", _KUBERNETES, f"{_COMMANDS}/kube-apiserver", 330, stamped=True),
    Part(
        "kube-controller-manager", "kubernetes", _KUBERNETES, f"{_COMMANDS}/kube-controller-manager", 130, stamped=True
    ),
    Part("kube-scheduler", "kubernetes", _KUBERNETES, f"{_COMMANDS}/kube-scheduler", 15, stamped=True),
    # It prints no version of its own, so that one on PATH cannot be told from another.
    Part("jobset-controller", "jobset", "sigs.k8s.io/jobset", "sigs.k8s.io/jobset", 140, tolerance="never"),
    Part("kwok", "kwok", "sigs.k8s.io/kwok", "sigs.k8s.io/kwok/cmd/kwok", 120),
    Part(
        "kubectl",
        "kubernetes",
        _KUBERNETES,
        f"{_COMMANDS}/kubectl",
        40,
        version_args=("version", "--client"),
        tolerance="skew",
        stamped=True,
    ),
)
PARTS: dict[str, Part] = {part.name: part for part in _PARTS}

MANIFESTS: tuple[Manifests, ...] = (
    Manifests(
        "jobset",
        "sigs.k8s.io/jobset",
        (
            ("config/components/crd", "jobset/crd"),
            ("config/components/rbac", "jobset/rbac"),
            ("config/components/webhook", "jobset/webhook"),
        ),
    ),
    Manifests(
        "scheduler-plugins",
        "sigs.k8s.io/scheduler-plugins",
        (
            (
                "config/crd/bases/scheduling.x-k8s.io_podgroups.yaml",
                "scheduler-plugins/scheduling.x-k8s.io_podgroups.yaml",
            ),
        ),
    ),
)


def required_version(module: str, requires: str) -> str:
    """The version of `requires` in a module's go.mod. Raises PlaneError when the file does not name it."""
    text = (MODULES / module / "go.mod").read_text()
    found = re.search(rf"^\s*(?:require\s+)?{re.escape(requires)}\s+(v\S+)", text, re.MULTILINE)
    if found is None:
        raise PlaneError(f"tools/modules/{module}/go.mod does not require {requires}")
    return found[1]


def required_go() -> tuple[int, ...]:
    """The oldest Go that all modules accept, such as (1, 26, 0)."""
    lines = (re.search(r"^go (\S+)", path.read_text(), re.MULTILINE) for path in sorted(MODULES.glob("*/go.mod")))
    return max(version_tuple(line[1]) for line in lines if line)


def version_tuple(text: str) -> tuple[int, ...]:
    """`v1.36.3-alpha` and `1.36.3` both give (1, 36, 3)."""
    return tuple(int(number) for number in re.findall(r"\d+", re.split(r"[-+]", text)[0]))


def manifests_digest() -> str:
    texts = [repr(MANIFESTS)]
    return _digest(
        texts, [MODULES / m.module / "go.sum" for m in MANIFESTS] + [MODULES / m.module / "go.mod" for m in MANIFESTS]
    )


CACHE_VARIABLE = "XDG_CACHE_HOME"


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """`$XDG_CACHE_HOME/trainsnap/plane`, by default under ~/.cache."""
    base = environment.get(CACHE_VARIABLE) or ""
    # The specification says that a relative path shall be ignored.
    root = Path(base) if base.startswith("/") else Path(environment.get("HOME") or Path.home()) / ".cache"
    return root / "trainsnap" / "plane"


def _digest(texts: list[str], files: list[Path]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode() + b"\0")
    for file in files:
        digest.update(file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
