# SPDX-License-Identifier: Apache-2.0
"""Starts, supervises and stops the parts of the operator process.

Vocabulary: a *part* is anything with a ``run``; *groups* of parts are started and stopped in order by the *manager*; a
*controller* runs one reconciler; the *leader elector* lets only one replica run its controllers; *health checks* are
what ``/healthz`` and ``/readyz`` answer with.
"""

from trainsnap_controller.manager.health import Health, HealthChecks
from trainsnap_controller.manager.http import HttpServer, ListenError, metrics_app
from trainsnap_controller.manager.leader import LeaderElector, LeaseLostError, LeaseTimes
from trainsnap_controller.manager.manager import ExpectedFailure, Group, Manager, Part
from trainsnap_controller.manager.worker import Controller
from trainsnap_controller.queue import Done, RequeueAfter, Result, RetryableError, TerminalError

__all__ = [
    "Controller",
    "Done",
    "ExpectedFailure",
    "Group",
    "Health",
    "HealthChecks",
    "HttpServer",
    "LeaderElector",
    "LeaseLostError",
    "LeaseTimes",
    "ListenError",
    "Manager",
    "Part",
    "RequeueAfter",
    "Result",
    "RetryableError",
    "TerminalError",
    "metrics_app",
]
