# SPDX-License-Identifier: Apache-2.0
"""``mlPolicy.jax``: one process per node, found through the coordinator on rank 0."""

from __future__ import annotations

from trainsnap_controller import constants as c
from trainsnap_controller.runtime import rendezvous, upsert
from trainsnap_controller.runtime.info import RuntimeInfo
from trainsnap_controller.runtime.job import Job


class Jax:
    """Runs for runtimes with ``mlPolicy.jax``."""

    name = "jax"

    def enforce_ml_policy(self, job: Job, info: RuntimeInfo) -> RuntimeInfo:
        """Counts, variables and the port. A job without ``spec.trainer`` gets none, as in the reference."""
        pod_set = info.by_ancestor(c.TRAINER)
        if info.policy("jax") is None or job.trainer is None or pod_set is None:
            return info
        pod_set = pod_set.with_count(job.trainer.num_nodes)
        variables = [
            rendezvous.literal("JAX_NUM_PROCESSES", pod_set.count),
            rendezvous.from_pod_index("JAX_PROCESS_ID"),
            rendezvous.literal("JAX_COORDINATOR_ADDRESS", f"{rendezvous.rank_zero_host(job, info)}:{c.TRAINER_PORT}"),
        ]
        change = upsert.on_container(env_vars=variables, port_list=[rendezvous.trainer_port()])
        return info.with_pod_set(pod_set.with_container(c.NODE, change))
