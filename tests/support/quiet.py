# SPDX-License-Identifier: Apache-2.0
"""When an operator has nothing left to do, and how to make it look at a job again. For claims about what it writes."""

from __future__ import annotations

import itertools

from support.cluster import Cluster, eventually
from support.operator import Operator
from trainsnap_api.transport.resources import TRAIN_JOB

CONTROLLER = "trainjob_controller"
_numbers = itertools.count(1)


def looks(operator: Operator) -> float:
    """How often it has looked at a TrainJob so far and found nothing in its way; failed looks are not counted."""
    results = ("success", "requeue_after")
    return sum(operator.metric("controller_runtime_reconcile_total", controller=CONTROLLER, result=r) for r in results)


async def quiet(operator: Operator, *, after: float = 0) -> None:
    """Await that it has looked at TrainJobs at least ``after`` times, and that no job waits for it or is in work."""

    async def look() -> tuple[float, float, float]:
        waiting = operator.metric("workqueue_depth", controller=CONTROLLER)
        busy = operator.metric("controller_runtime_active_workers", controller=CONTROLLER)
        return looks(operator), waiting, busy

    await eventually(
        look, lambda seen: seen[0] >= after and seen[1:] == (0, 0), what=f"quiet after {after:g} looks at jobs"
    )


async def touched(operator: Operator, cluster: Cluster, *names: str) -> None:
    """Change a label of TrainJobs that are well, and await that the operator has looked at each since.

    Give every name once, since two changes may be answered by one look.
    """
    assert len(set(names)) == len(names)
    await quiet(operator)
    before = looks(operator)
    for name in names:
        label = {"tests.trainsnap.dev/touched": str(next(_numbers))}
        await cluster.patch(TRAIN_JOB, name, {"metadata": {"labels": label}})
    await quiet(operator, after=before + len(names))
