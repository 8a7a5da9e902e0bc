# SPDX-License-Identifier: Apache-2.0
"""Puts the operator together: caches, queues, reconcilers, servers. The only place that knows all of them.

Called by the command line with connected transports; everything that varies comes in as a ``Process``.
"""

from __future__ import annotations

from collections.abc import Callable

from trainsnap_api.transport.resources import CLUSTER_TRAINING_RUNTIME, TRAINING_RUNTIME
from trainsnap_controller.cache import Cache
from trainsnap_controller.manager import Manager
from trainsnap_controller.operator.controllers import add_leader, add_runtimes, add_train_jobs
from trainsnap_controller.operator.memory import settle
from trainsnap_controller.operator.process import Admission, Process, Registration, Reporting, Running, Servers
from trainsnap_controller.operator.servers import add_health, add_metrics, add_status_server, add_webhooks

__all__ = ["Admission", "Process", "Registration", "Reporting", "Servers", "build"]


def build(
    process: Process,
    *,
    admission: Admission | None = None,
    reporting: Reporting | None = None,
    on_ready: Callable[[], None] = lambda: None,
) -> tuple[Manager, Servers]:
    """The operator, ready to run.

    Without ``admission`` there are no webhooks; without ``reporting``, which needs it, no status server.

    Raises ``ListenError`` when a port cannot be had.
    """

    def ready() -> None:
        settle()
        on_ready()

    manager = Manager(on_ready=ready)
    health = add_health(manager, process)
    metrics = add_metrics(manager, process, admission)
    webhooks = None if admission is None else add_webhooks(manager, process, admission)
    cache = Cache(process.api, metrics=process.metrics.cache())
    manager.add_cache(cache)
    running = Running(manager, cache, add_leader(manager, process))
    queue = add_train_jobs(running, process)
    status = None
    if reporting is not None and admission is not None:
        status = add_status_server(running, reporting, admission.certificates, queue)
    for resource in (TRAINING_RUNTIME, CLUSTER_TRAINING_RUNTIME):
        add_runtimes(running, process, resource)
    return manager, Servers(health, metrics, webhooks, status)
