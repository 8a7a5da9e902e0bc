# SPDX-License-Identifier: Apache-2.0
"""Log output: structlog over the standard library, one line an event, as JSON or for a terminal.

`configure_logging` is called once, by the command line. Everybody else takes a logger with
``structlog.stdlib.get_logger(__name__)``; what `bound` sets (controller, namespace, name, reconcile id) is on every
line written inside, also by libraries.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from typing import IO, Any, Final, Literal

import structlog

bound = structlog.contextvars.bound_contextvars
"""``with bound(name=...):`` puts fields on every log line of the task, until the end of the block."""

LIBRARY_LEVELS: Final = {
    # One line for each request is noise, and the transport logs what matters itself.
    "httpx": logging.WARNING,
    "httpcore": logging.WARNING,
    "kr8s": logging.WARNING,
    "aiohttp": logging.WARNING,
    "asyncio": logging.WARNING,
    # "Started server process", for servers that are only a part of this process.
    "uvicorn": logging.WARNING,
}


BY_ANYBODY: Final = (
    "uvicorn.error",
    "trainsnap_controller.manager.connections",
    "trainsnap_controller.manager.guarded",
    "trainsnap_controller.statusserver",
    "trainsnap_controller.webhooks.app",
)
"""Loggers, with those below them, whose lines anybody can cause who reaches a port of ours."""


class Sparing(logging.Filter):
    """Lets through so many lines of one text of `BY_ANYBODY` in a while, whatever else is on them. The last of them
    says that the following are left out. Errors of the operator's own work are never held back."""

    def __init__(self, *, lines: int = 10, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._lines = lines
        self._seconds = seconds
        self._clock = clock
        self._began = clock()
        self._counts: dict[tuple[str, str], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if not f"{record.name}.".startswith(_BY_ANYBODY):
            return True
        if self._clock() - self._began >= self._seconds:
            self._began = self._clock()
            self._counts.clear()
        # Ours are dictionaries on their way through the standard library; texts of libraries come before their values.
        text = record.msg.get("event") if isinstance(record.msg, dict) else record.msg
        key = (record.name, str(text))
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if count == self._lines:
            note = f"more of these within {self._seconds:g} s are left out"
            if isinstance(record.msg, dict):
                record.msg = {**record.msg, "note": note}
            else:
                record.note = note
        return count <= self._lines


_BY_ANYBODY: Final = tuple(f"{name}." for name in BY_ANYBODY)


def configure_logging(
    *,
    format: Literal["json", "console"] = "json",
    level: str = "info",
    stream: IO[str] | None = None,
    colors: bool | None = None,
) -> None:
    """Send all logs of the process to a stream (stderr by default). Calling it again replaces the earlier set-up.

    Args:
        format: ``json`` for machines, ``console`` for people.
        level: debug, info, warning or error.
        stream: where to.
        colors: for ``console``; by default only on a terminal.

    Raises:
        ValueError: unknown level.
    """
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ValueError(f"log level {level!r}: must be one of debug, info, warning, error")
    stream = stream if stream is not None else sys.stderr
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        structlog.stdlib.ExtraAdder(),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.processors.StackInfoRenderer(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=_renderers(format, colors if colors is not None else stream.isatty())
        )
    )
    handler.addFilter(Sparing())
    root = logging.getLogger()
    for old in list(root.handlers):
        if getattr(old, "_trainsnap", False):
            root.removeHandler(old)
    handler._trainsnap = True  # type: ignore[attr-defined]
    root.addHandler(handler)
    root.setLevel(number)
    for name, least in LIBRARY_LEVELS.items():
        logging.getLogger(name).setLevel(max(least, number))


def _renderers(format: str, colors: bool) -> list[structlog.typing.Processor]:
    if format == "json":
        return [
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            structlog.processors.EventRenamer("msg"),
            _first("ts", "level", "msg"),
            structlog.processors.JSONRenderer(default=str, ensure_ascii=False),
        ]
    return [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.dev.ConsoleRenderer(
            colors=colors,
            timestamp_key="ts",
            sort_keys=False,
            exception_formatter=structlog.dev.plain_traceback,
        ),
    ]


def _first(*names: str) -> structlog.typing.Processor:
    """Put some fields first, for those who read JSON lines by eye."""

    def order(_: Any, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        return {**{name: event[name] for name in names if name in event}, **event}

    return order
