# SPDX-License-Identifier: Apache-2.0
"""Keys on their way to a reconciler, and what a reconciler answers."""

from trainsnap_controller.cache.entry import Key
from trainsnap_controller.queue.backoff import ItemBackoff
from trainsnap_controller.queue.result import Done, RequeueAfter, Result, RetryableError, TerminalError
from trainsnap_controller.queue.workqueue import QueueMetrics, ShutDown, WorkQueue

__all__ = [
    "Done",
    "ItemBackoff",
    "Key",
    "QueueMetrics",
    "RequeueAfter",
    "Result",
    "RetryableError",
    "ShutDown",
    "TerminalError",
    "WorkQueue",
]
