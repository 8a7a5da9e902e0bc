# SPDX-License-Identifier: Apache-2.0
"""Compares our models with the published client package, in the same run: import, memory, reading and writing runtimes.

Run by `make bench-client`; the budgets are asserted by tests/e2e/test_interop_budget.py. CPU time, compiled modules on
disk for both. Every round starts a process of each, and these take turns of a few milliseconds, so that a busy machine
slows both; of every figure the best turn of all rounds counts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support import mutations, published

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 5
IMPORTS = 2
"""Processes of a round that do little more than import: each gives one figure for it, which is easily disturbed."""
TURNS = 20
SECONDS = 0.01
"""Length of a turn."""

_PROGRAM = """
import json, re, sys, time
start = time.process_time()
{importing}
imported = time.process_time() - start
# Not getrusage: its peak includes the parent's, from before the exec.
memory = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
rich, small = json.loads(sys.stdin.readline())
start = time.process_time()
{reading}
read(rich)
first = time.process_time() - start

def use(value):
    if isinstance(value, list):
        for one in value:
            use(one)
    elif hasattr(type(value), "model_fields"):
        for name in type(value).model_fields:
            use(getattr(value, name))

work = dict(
    rich=lambda: read(rich), small=lambda: read(small), used=lambda: use(read(rich)), written=lambda: write(read(rich))
)
print(json.dumps([imported, memory, first]), flush=True)
for line in sys.stdin:
    name, seconds = json.loads(line)
    call, calls, start = work[name], 0, time.process_time()
    while (elapsed := time.process_time() - start) < seconds:
        for _ in range(20):
            call()
        calls += 20
    print(elapsed / calls, flush=True)
"""
OURS = (
    "from trainsnap_api.models import TrainJob",
    "from trainsnap_api.models import TrainingRuntime\n"
    "read = TrainingRuntime.model_validate\n"
    "write = lambda runtime: runtime.dump()",
)
THEIRS = (
    "from kubeflow_trainer_api.models.trainer_v1alpha1_train_job import TrainerV1alpha1TrainJob",
    "from kubeflow_trainer_api.models.trainer_v1alpha1_training_runtime import TrainerV1alpha1TrainingRuntime as R\n"
    "read = R.from_dict\n"
    "write = lambda runtime: runtime.to_dict()",
)


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds of CPU; memory in MiB, the peak after the import."""

    imported: float
    memory: float
    first: float
    """The first runtime of a process."""
    rich: float
    """Each further runtime with something of every part."""
    small: float
    """The runtime for PyTorch of deploy/runtimes."""
    used: float
    """The rich one, and every field of every object in it looked at."""
    written: float
    """The rich one, and written as data again."""


WORK = ("rich", "small", "used", "written")


def samples() -> tuple[dict[str, Any], dict[str, Any]]:
    """A rich runtime and a small one, as the API server returns them."""
    small = yaml.safe_load((ROOT / "deploy" / "runtimes" / "torch-distributed.yaml").read_text(encoding="utf-8"))
    small["kind"] = "TrainingRuntime"
    return mutations.runtime("rt", "default"), small


class Process:
    """One process, which imports at once and works when told to."""

    def __init__(self, python: str, code: tuple[str, str], pycache: Path) -> None:
        self._process = subprocess.Popen(
            [python, "-c", _PROGRAM.format(importing=code[0], reading=code[1])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=published.environment(pycache),
        )
        # Alone while it does so: the next one starts after it.
        self.begun: list[float] = self._ask(samples())
        self.turns: dict[str, list[float]] = {name: [] for name in WORK}

    def turn(self, name: str) -> None:
        self.turns[name].append(self._ask((name, SECONDS)))

    def end(self) -> Figures:
        self._process.communicate()
        return Figures(*self.begun, *(min(self.turns[name]) for name in WORK))

    def _ask(self, what: Any) -> Any:
        ask, answer = self._process.stdin, self._process.stdout
        assert ask is not None
        assert answer is not None
        print(json.dumps(what), file=ask, flush=True)
        return json.loads(answer.readline())


def compare(rounds: int = ROUNDS) -> tuple[Figures, Figures]:
    """Ours and theirs, the best of ``rounds`` processes each. Raises published.NotInstallableError."""
    theirs = str(published.python())
    seen: list[tuple[Figures, Figures]] = []
    with tempfile.TemporaryDirectory() as name:
        for _ in range(rounds + 1):  # the first round fills the cache of compiled modules
            for number in range(IMPORTS + 1):
                pair = Process(sys.executable, OURS, Path(name)), Process(theirs, THEIRS, Path(name))
                for work in WORK:
                    for _ in range(TURNS if number == IMPORTS else 1):
                        for process in pair:
                            process.turn(work)
                seen.append((pair[0].end(), pair[1].end()))
    best = [
        Figures(*(min(getattr(f, field) for f in figures) for field in Figures.__slots__))
        for figures in zip(*seen[IMPORTS + 1 :], strict=True)
    ]
    return best[0], best[1]


def main() -> int:
    ours, theirs = compare()
    print(f"{'':38}{'trainsnap':>12}{'published':>12}{'ratio':>9}{'times':>8}")
    rows: tuple[tuple[str, float, float], ...] = (
        ("import of TrainJob, CPU ms", ours.imported * 1e3, theirs.imported * 1e3),
        ("peak memory after it, MiB", ours.memory, theirs.memory),
        ("first runtime, CPU ms", ours.first * 1e3, theirs.first * 1e3),
        (
            "import and first runtime, CPU ms",
            (ours.imported + ours.first) * 1e3,
            (theirs.imported + theirs.first) * 1e3,
        ),
        ("each further runtime, us", ours.rich * 1e6, theirs.rich * 1e6),
        ("a small runtime, us", ours.small * 1e6, theirs.small * 1e6),
        ("runtime, every field of it read, us", ours.used * 1e6, theirs.used * 1e6),
        ("runtime, read and written, us", ours.written * 1e6, theirs.written * 1e6),
    )
    for name, mine, other in rows:
        print(f"{name:38}{mine:12.1f}{other:12.1f}{mine / other:9.1%}{other / mine:8.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
