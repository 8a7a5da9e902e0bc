# SPDX-License-Identifier: Apache-2.0
"""Has jobs looked at again when the authority of the server's certificate changes.

Each job has a copy of it in a ConfigMap, which its reconcile writes. Without this a job would get a new authority with
its next change only, and might never be able to report again. A part of the operator; it writes nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from trainsnap_controller.observe.clock import Clock, SystemClock

EVERY_SECONDS: Final = 5.0
"""How often it is compared; a new authority is trusted for days before a certificate of it is used."""

_log = structlog.stdlib.get_logger(__name__)


class AuthorityWatch:
    """Follows the bundle of a certificate manager.

    Args:
        bundle: the authorities as PEM, b"" while they are not known.
        wake: has every TrainJob reconciled.
    """

    def __init__(self, bundle: Callable[[], bytes], wake: Callable[[], None], *, clock: Clock | None = None) -> None:
        self._bundle = bundle
        self._wake = wake
        self._clock = clock or SystemClock()

    async def run(self) -> None:
        """Compare until cancelled."""
        seen = self._bundle()
        while True:
            await self._clock.sleep(EVERY_SECONDS)
            now = self._bundle()
            if now == seen:
                continue
            # At the start jobs are looked at anyway, and those that needed the authority are tried again.
            if seen:
                _log.info("the authority of the certificates has changed, all jobs are looked at")
                self._wake()
            seen = now
