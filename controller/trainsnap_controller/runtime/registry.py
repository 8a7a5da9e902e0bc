# SPDX-License-Identifier: Apache-2.0
"""Which plugins there are, in which order. The order is part of the behaviour: it is the order of writes.

Side objects come first, then PodGroups, then the JobSet, so that nothing starts before what it mounts exists.
"""

from __future__ import annotations

from trainsnap_controller.runtime.framework import Framework
from trainsnap_controller.runtime.plugins.coscheduling import Coscheduling
from trainsnap_controller.runtime.plugins.jax import Jax
from trainsnap_controller.runtime.plugins.jobset import JobSetPlugin
from trainsnap_controller.runtime.plugins.mpi import MPI
from trainsnap_controller.runtime.plugins.plainml import PlainML
from trainsnap_controller.runtime.plugins.torch import Torch
from trainsnap_controller.runtime.plugins.volcano import Volcano
from trainsnap_controller.runtime.plugins.xgboost import XGBoost


def standard() -> Framework:
    """The framework with every plugin."""
    return Framework(
        (PlainML(), Torch(), MPI(), Jax(), XGBoost(), Coscheduling(), Volcano(), JobSetPlugin()),
    )
