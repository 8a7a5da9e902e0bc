# SPDX-License-Identifier: Apache-2.0
"""Builds what a plane lacks, from the pinned Go modules into the cache. Called by `plane build`, and by `plane up`.

The first build takes minutes; it says which part is at work, how much of the whole is done and how long it has taken.
A file lock makes a second build wait for the first instead of doing the same. A part appears in the cache whole or not
at all.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from .binaries import cached_binary, cached_manifests, missing
from .errors import BuildFailed
from .gotool import find_go
from .parts import CACHE_VARIABLE, GOFLAGS, MANIFESTS, MODULES, Part, cache_folder, required_version
from .process import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_PLAIN_INTERVAL = 30.0


@dataclass(slots=True)
class Progress:
    """Says how far a build is: one line that is redrawn on a terminal, a line now and then elsewhere."""

    stream: TextIO
    clock: Callable[[], float] = time.monotonic
    _began: float = 0.0
    _shown: float = 0.0
    _open_line: bool = False

    def begin(self) -> None:
        self._began = self._shown = self.clock()

    def elapsed(self) -> str:
        seconds = int(self.clock() - self._began)
        return f"{seconds // 60}m{seconds % 60:02d}s"

    def show(self, text: str, *, force: bool = False) -> None:
        if self.stream.isatty():
            width = shutil.get_terminal_size().columns - 1
            self.stream.write(f"\r\x1b[K{text[:width]}")
            self._open_line = True
        elif force or self.clock() - self._shown >= _PLAIN_INTERVAL:
            self._shown = self.clock()
            self.stream.write(f"{text}\n")
        else:
            return
        self.stream.flush()

    def say(self, text: str) -> None:
        self.close_line()
        self.stream.write(f"{text}\n")
        self.stream.flush()

    def close_line(self) -> None:
        if self._open_line:
            self.stream.write("\n")
            self._open_line = False


class Builder:
    """Builds parts one after the other; Go itself uses every core."""

    def __init__(
        self,
        *,
        cache: Path | None = None,
        environment: Mapping[str, str] = os.environ,
        progress: Progress | None = None,
    ) -> None:
        self._environment = environment
        self._cache = cache or cache_folder(environment)
        self._progress = progress or Progress(sys.stderr)

    def ensure(self, names: list[str]) -> None:
        """Make sure that these parts and the manifests are there. Raises BuildFailed; returns at once when nothing
        lacks.
        """
        if not self._lacks(names):
            return
        try:
            self._ensure(names)
        except OSError as error:
            where = f": {error.filename}" if error.filename else ""
            raise BuildFailed(
                f"cannot build into the cache folder {self._cache} ({error.strerror or error}{where}); "
                f"{CACHE_VARIABLE} moves it"
            ) from error

    def _ensure(self, names: list[str]) -> None:
        self._cache.mkdir(parents=True, exist_ok=True)
        with self._lock():
            parts = missing(names, environment=self._environment, cache=self._cache)
            self._progress.begin()
            for abandoned in self._cache.glob(".*"):  # Of a build that was killed: we hold the lock.
                shutil.rmtree(abandoned, ignore_errors=True)
            if not parts and cached_manifests(self._cache).is_dir():
                return  # Another build, which we waited for, did it.
            go = find_go(self._cache, say=self._progress.say, environment=self._environment)
            self._manifests(go)
            total = sum(part.seconds for part in parts)
            done = 0
            for number, part in enumerate(parts, 1):
                self._build(go, part, f"[{number}/{len(parts)}]", done / total, part.seconds / total)
                done += part.seconds
            if parts:
                self._progress.say(f"built {len(parts)} parts in {self._progress.elapsed()}")

    def _lacks(self, names: list[str]) -> bool:
        parts = missing(names, environment=self._environment, cache=self._cache)
        return bool(parts) or not cached_manifests(self._cache).is_dir()

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        with open(self._cache / "build.lock", "a+") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                stream.seek(0)
                self._progress.say(f"waiting for another build (pid {stream.read().strip() or 'unknown'})")
                fcntl.flock(stream, fcntl.LOCK_EX)
            stream.truncate(0)
            stream.write(str(os.getpid()))
            stream.flush()
            yield

    def _manifests(self, go: Path) -> None:
        target = cached_manifests(self._cache)
        if target.is_dir():
            return
        fresh = target.with_name(f".{target.name}.{os.getpid()}")
        shutil.rmtree(fresh, ignore_errors=True)
        for manifests in MANIFESTS:
            source = self._module_folder(go, manifests.module, manifests.requires)
            for taken, place in manifests.files:
                (fresh / place).parent.mkdir(parents=True, exist_ok=True)
                if (source / taken).is_dir():
                    shutil.copytree(source / taken, fresh / place, copy_function=shutil.copyfile)
                else:
                    shutil.copyfile(source / taken, fresh / place)
        for folder in (fresh, *(p for p in fresh.rglob("*") if p.is_dir())):
            folder.chmod(0o755)  # Go's module cache is read-only, and copytree copies that.
        fresh.replace(target)

    def _module_folder(self, go: Path, module: str, requires: str) -> Path:
        self._progress.show(f"fetching {requires} {required_version(module, requires)}", force=True)
        wanted = f"{requires}@{required_version(module, requires)}"
        done = subprocess.run(
            [go, "mod", "download", "-json", wanted],
            cwd=MODULES / module,
            env=self._go_environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        answer: dict[str, Any] = json.loads(done.stdout) if done.stdout.strip().startswith("{") else {}
        if done.returncode or "Dir" not in answer:
            raise BuildFailed(f"cannot fetch {wanted}", detail=answer.get("Error", done.stderr.strip()))
        # `go mod download` of a named version does not compare with go.sum; what is pinned is compared here.
        pinned = f"{requires} {required_version(module, requires)} {answer['Sum']}\n"
        if pinned not in (MODULES / module / "go.sum").read_text():
            raise BuildFailed(f"{wanted} does not have the checksum that tools/modules/{module}/go.sum pins")
        return Path(answer["Dir"])

    def _build(self, go: Path, part: Part, place: str, done: float, share: float) -> None:
        target = cached_binary(part, self._cache)
        fresh = target.parent.with_name(f".{target.parent.name}.{os.getpid()}")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        command = [str(go), "build", "-v", "-ldflags", part.ldflags, "-o", str(fresh / part.name), part.package]
        process = subprocess.Popen(
            command,
            cwd=part.folder,
            env=self._go_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            preexec_fn=die_with_parent(),  # A killed launcher leaves no compiler behind.
        )
        try:
            lines = self._watch(process, f"{place} {part.name} {part.version}", done, share)
        except BaseException:
            process.terminate()
            process.wait()
            shutil.rmtree(fresh, ignore_errors=True)
            self._progress.close_line()
            raise
        if process.returncode:
            shutil.rmtree(fresh, ignore_errors=True)
            self._progress.close_line()
            raise BuildFailed(f"{part.name} {part.version} could not be built", detail="\n".join(lines[-15:]))
        shutil.rmtree(target.parent, ignore_errors=True)
        fresh.replace(target.parent)

    def _watch(self, process: subprocess.Popen[str], title: str, done: float, share: float) -> list[str]:
        """Show the progress until Go has ended; returns what it printed."""
        lines: list[str] = []
        assert process.stderr is not None
        reader = threading.Thread(target=lambda: lines.extend(process.stderr or ()), daemon=True)
        reader.start()
        began, first = time.monotonic(), True
        while True:
            compiled = sum(1 for line in lines if not line.startswith("go: "))
            fetched = sum(1 for line in lines if line.startswith("go: downloading"))
            doing = f"{compiled} packages" if compiled or not fetched else f"{fetched} modules"
            text = f"{title}  {self._progress.elapsed()}  {done:.0%} done, {share:.0%} now; {doing}"  # Fits 80 columns.
            self._progress.show(text, force=first)
            first = False
            try:
                process.wait(0.5 if time.monotonic() - began < 5 else 1.0)
            except subprocess.TimeoutExpired:
                continue
            reader.join()
            process.stderr.close()
            return [line.rstrip("\n") for line in lines]

    def _go_environment(self) -> dict[str, str]:
        # The user's own GOFLAGS could ask for a vendor folder or tags; the toolchain stays the one that was found.
        environment = {**self._environment, "GOFLAGS": GOFLAGS, "GOTOOLCHAIN": "local", "GOWORK": "off"}
        return environment
