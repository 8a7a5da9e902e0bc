# SPDX-License-Identifier: Apache-2.0
"""Keeps Python's collector of reference cycles from going through the whole process over and over.

Called once, when everything runs: what is there by then (modules, classes, the first lists) stays for good. Without
this a twelfth of the CPU time of a burst of TrainJobs went into looking at it again (500 jobs, 100 MB resident).
"""

from __future__ import annotations

import gc
from typing import Final

THRESHOLDS: Final = (10_000, 20, 50)
"""New containers before the young generation is looked at, and how often before the older ones are. Python's own are
700, 10 and 10, for programs that make fewer objects a second. Cycles are rare here: failed tasks and their frames."""


def settle() -> None:
    """Collect what the start has left, and never look at the rest again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
