# SPDX-License-Identifier: Apache-2.0
"""Which plugins there are, in which order. The order is part of the behaviour: it is the order of writes.

Side objects come first, then PodGroups, then the JobSet, so that nothing starts before what it mounts exists.
"""

from __future__ import annotations

from collections.abc import Callable

from trainsnap_controller.runtime.extension import Plugin
from trainsnap_controller.runtime.framework import Framework
from trainsnap_controller.runtime.plugins.coscheduling import Coscheduling
from trainsnap_controller.runtime.plugins.flux import Flux, new_secret_key
from trainsnap_controller.runtime.plugins.jax import Jax
from trainsnap_controller.runtime.plugins.jobset import JobSetPlugin
from trainsnap_controller.runtime.plugins.mpi import MPI, KeyPair, new_key_pair
from trainsnap_controller.runtime.plugins.plainml import PlainML
from trainsnap_controller.runtime.plugins.torch import Torch
from trainsnap_controller.runtime.plugins.trainjobstatus import StatusServer, TrainJobStatus
from trainsnap_controller.runtime.plugins.volcano import Volcano
from trainsnap_controller.runtime.plugins.xgboost import XGBoost


def standard(
    *,
    status_server: StatusServer | None = None,
    ssh_key_pair: Callable[[], KeyPair] = new_key_pair,
    curve_secret_key: Callable[[], bytes] = new_secret_key,
) -> Framework:
    """The framework with every plugin.

    ``status_server`` is given when the feature gate ``TrainJobStatus`` is open. The key sources are asked only when a
    job's Secret is really made.
    """
    policies: tuple[Plugin, ...] = (
        PlainML(),
        Torch(),
        MPI(key_pair=ssh_key_pair),
        Jax(),
        XGBoost(),
        Flux(secret_key=curve_secret_key),
    )
    reporting = () if status_server is None else (TrainJobStatus(status_server),)
    return Framework((*policies, *reporting, Coscheduling(), Volcano(), JobSetPlugin()))
