# SPDX-License-Identifier: Apache-2.0
"""Starts, supervises and stops the parts of the operator process.

Vocabulary: a *runnable* is a part with `run`; *groups* of them are started and stopped in order by the *manager*; a
*controller* runs one reconciler; the *leader elector* lets only one replica run its controllers.
"""

from trainsnap_controller.manager.worker import Controller
from trainsnap_controller.queue import Done, RequeueAfter, Result, RetryableError, TerminalError

__all__ = ["Controller", "Done", "RequeueAfter", "Result", "RetryableError", "TerminalError"]
