# SPDX-License-Identifier: Apache-2.0
"""What every framework with a rendezvous needs: the rank-0 host, the pod's own rank, the port, and its variables.

Helpers of the torch, mpi, jax, xgboost and trainjobstatus plugins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from trainsnap_controller import constants as c
from trainsnap_controller.runtime.errors import FieldError
from trainsnap_controller.runtime.info import RuntimeInfo
from trainsnap_controller.runtime.job import Job

JSON = dict[str, Any]


def rank_zero_host(job: Job, info: RuntimeInfo) -> str:
    """The DNS name of the pod with rank 0, as in ``alpha-node-0-0.alpha``.

    The replicated job is taken to be called ``node``, as in the reference; the subdomain is the JobSet's own where it
    sets one, since no other name resolves then.
    """
    return f"{job.name}-{c.NODE}-0-0.{info.subdomain or job.name}"


def literal(name: str, value: str | int) -> JSON:
    """A variable with a fixed value."""
    return {"name": name, "value": str(value)}


def from_pod_index(name: str) -> JSON:
    """A variable that holds the pod's index in its job."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": c.JOB_COMPLETION_INDEX_FIELD}}}


def reserved_variables(job: Job, names: Iterable[str], policy: str) -> Iterator[FieldError]:
    """A broken rule if the job sets variables that runtimes of a policy set."""
    used = sorted({item["name"] for item in (job.trainer.env if job.trainer else ())} & set(names))
    if used:
        rule = f"must not set variables that {policy} runtimes set: {', '.join(used)}"
        yield FieldError("spec.trainer.env", used, rule)


def trainer_port() -> JSON:
    """The container port of the rendezvous."""
    return {"containerPort": c.TRAINER_PORT}
