# SPDX-License-Identifier: Apache-2.0
"""Runtimes whose framework needs no rendezvous of ours: number of nodes and the user's variables, nothing else."""

from __future__ import annotations

from trainsnap_controller import constants as c
from trainsnap_controller.runtime import normalform, upsert
from trainsnap_controller.runtime.info import RuntimeInfo
from trainsnap_controller.runtime.job import Job

_OTHERS = ("torch", "mpi", "jax")
"""Policies that place the user's variables themselves. Runtimes for xgboost and flux get this plugin as well."""


class PlainML:
    """Runs for every runtime without one of the policies above, also without any policy."""

    name = "plainml"

    def enforce_ml_policy(self, job: Job, info: RuntimeInfo) -> RuntimeInfo:
        """Sets the number of trainer pods, and the job's variables on the container ``node``."""
        pod_set = info.by_ancestor(c.TRAINER)
        if job.trainer is None or pod_set is None or any(info.policy(name) is not None for name in _OTHERS):
            return info
        pod_set = pod_set.with_count(job.trainer.num_nodes)
        variables = normalform.env_list(job.trainer.env, "spec.trainer.env")
        return info.with_pod_set(pod_set.with_container(c.NODE, upsert.on_container(env_vars=variables)))
