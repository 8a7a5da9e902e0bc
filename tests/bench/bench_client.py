# SPDX-License-Identifier: Apache-2.0
"""Compares our models with the published client package, in the same run: import, memory, parsing a runtime.

Run by `make bench-client`; the budgets are asserted by tests/e2e/test_interop_budget.py. CPU time, the best of several
processes that take turns, compiled modules on disk for both.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support import mutations, published

ROUNDS = 5
_MEASURE = """
import json, re, sys, time
start = time.process_time()
{importing}
imported = time.process_time() - start
# Not getrusage: its peak includes the parent's, from before the exec.
memory = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
data = json.loads(sys.stdin.read())
start = time.process_time()
{parse}
first = time.process_time() - start
best = 1e9
for _ in range(7):
    start = time.process_time()
    for _ in range(200):
        {parse}
    best = min(best, (time.process_time() - start) / 200)
print(json.dumps([imported, memory, first, best]))
"""
OURS = (
    "from trainsnap_api.models import TrainJob",
    "from trainsnap_api.models import TrainingRuntime; TrainingRuntime.model_validate(data)",
)
THEIRS = (
    "from kubeflow_trainer_api.models.trainer_v1alpha1_train_job import TrainerV1alpha1TrainJob",
    "from kubeflow_trainer_api.models.trainer_v1alpha1_training_runtime import TrainerV1alpha1TrainingRuntime as R;"
    " R.from_dict(data)",
)


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds of CPU; memory in MiB, the peak after the import."""

    imported: float
    memory: float
    first_parse: float
    parse: float


def measure(python: str, code: tuple[str, str], pycache: Path) -> Figures:
    """One process."""
    program = _MEASURE.format(importing=code[0], parse=code[1])
    done = subprocess.run(
        [python, "-c", program],
        input=json.dumps(mutations.runtime("rt", "default")),
        capture_output=True,
        text=True,
        check=True,
        env=published.environment(pycache),
    )
    return Figures(*json.loads(done.stdout))


def compare(rounds: int = ROUNDS) -> tuple[Figures, Figures]:
    """Ours and theirs, the best of ``rounds`` processes each. Raises published.NotInstallableError."""
    theirs = str(published.python())
    seen: dict[str, list[Figures]] = {"ours": [], "theirs": []}
    with tempfile.TemporaryDirectory() as name:
        for _ in range(rounds + 1):  # the first round fills the cache of compiled modules
            seen["ours"].append(measure(sys.executable, OURS, Path(name)))
            seen["theirs"].append(measure(theirs, THEIRS, Path(name)))
    best = [
        Figures(*(min(getattr(f, field) for f in figures[1:]) for field in Figures.__slots__))
        for figures in seen.values()
    ]
    return best[0], best[1]


def main() -> int:
    ours, theirs = compare()
    print(f"{'':28}{'trainsnap':>12}{'published':>12}{'ratio':>9}")
    rows: tuple[tuple[str, float, float], ...] = (
        ("import of TrainJob, CPU ms", ours.imported * 1e3, theirs.imported * 1e3),
        ("peak memory after it, MiB", ours.memory, theirs.memory),
        ("first runtime, CPU ms", ours.first_parse * 1e3, theirs.first_parse * 1e3),
        (
            "import and first, CPU ms",
            (ours.imported + ours.first_parse) * 1e3,
            (theirs.imported + theirs.first_parse) * 1e3,
        ),
        ("each further runtime, us", ours.parse * 1e6, theirs.parse * 1e6),
    )
    for name, mine, other in rows:
        print(f"{name:28}{mine:12.1f}{other:12.1f}{mine / other:9.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
