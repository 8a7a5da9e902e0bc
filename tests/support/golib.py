# SPDX-License-Identifier: Apache-2.0
"""The Go library that wrote the reference's ConfigMaps, as a process that answers questions about YAML.

Built on demand from ``goyaml/`` into the plane's cache, once per state of its sources.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trainsnap_plane.gotool import find_go
from trainsnap_plane.parts import cache_folder

SOURCES = Path(__file__).parent / "goyaml"


class GoYaml:
    """Asks one question at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def write(self, value: Any) -> str:
        """The YAML that the library makes of a JSON value. Raises ValueError with its words."""
        return self._answered("write", json.dumps(value))

    def read(self, text: str) -> Any:
        """The JSON value that the library reads from YAML. Raises ValueError with its words."""
        return json.loads(self._answered("read", text))

    def _answered(self, verb: str, text: str) -> str:
        answer = self._ask(verb, text)
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer["text"]

    def _ask(self, verb: str, text: str) -> dict[str, str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({verb: text}) + "\n")
        self._process.stdin.flush()
        answer: dict[str, str] = json.loads(self._process.stdout.readline())
        return answer


@contextmanager
def go_yaml() -> Iterator[GoYaml]:
    """The library's process."""
    program = _built()
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield GoYaml(process)
        assert process.stdin is not None
        process.stdin.close()


def _built() -> Path:
    state = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(SOURCES.iterdir()))).hexdigest()[:16]
    program = cache_folder() / f"goyaml-{state}"
    if program.exists():
        return program
    go = find_go(cache_folder(), say=print)
    program.parent.mkdir(parents=True, exist_ok=True)
    fresh = program.with_name(f".{program.name}.{os.getpid()}")
    environment = {**os.environ, "GOFLAGS": "-mod=readonly -trimpath", "GOWORK": "off", "CGO_ENABLED": "0"}
    subprocess.run([go, "build", "-o", fresh, "."], cwd=SOURCES, env=environment, check=True)
    fresh.replace(program)
    return program
