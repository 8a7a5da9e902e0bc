# SPDX-License-Identifier: Apache-2.0
"""``mlPolicy.xgboost``: the tracker on rank 0 and as many workers as there are GPUs, or nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trainsnap_controller import constants as c
from trainsnap_controller.runtime import rendezvous, resources, upsert
from trainsnap_controller.runtime.errors import FieldError, Kind
from trainsnap_controller.runtime.info import RuntimeInfo
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.runtime.observed import Observed

RESERVED: Final = ("DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER")


class XGBoost:
    """Runs for runtimes with ``mlPolicy.xgboost``, behind plainml, which has set the job's own variables by then."""

    name = "xgboost"

    def enforce_ml_policy(self, job: Job, info: RuntimeInfo) -> RuntimeInfo:
        """Counts, variables and the port. A job without ``spec.trainer`` gets none, as in the reference."""
        pod_set = info.by_ancestor(c.TRAINER)
        if info.policy("xgboost") is None or job.trainer is None or pod_set is None:
            return info
        pod_set = pod_set.with_count(job.trainer.num_nodes)
        per_node = max(1, resources.gpus(resources.of_trainer(job, info)))
        variables = [
            rendezvous.literal("DMLC_TRACKER_URI", rendezvous.rank_zero_host(job, info)),
            rendezvous.literal("DMLC_TRACKER_PORT", c.TRAINER_PORT),
            rendezvous.from_pod_index("DMLC_TASK_ID"),
            rendezvous.literal("DMLC_NUM_WORKER", pod_set.count * per_node),
        ]
        change = upsert.on_container(env_vars=variables, port_list=[rendezvous.trainer_port()])
        return info.with_pod_set(pod_set.with_container(c.NODE, change))

    def validate(self, job: Job, info: RuntimeInfo, observed: Observed, old: Job | None) -> Sequence[FieldError]:
        """The job does not set what is set here."""
        del observed, old
        if info.policy("xgboost") is None or job.trainer is None:
            return []
        return [
            FieldError(f"spec.trainer.env[{i}]", item["name"], f"{item['name']} is set by the runtime", Kind.FORBIDDEN)
            for i, item in enumerate(job.trainer.env)
            if item["name"] in RESERVED
        ]
