# SPDX-License-Identifier: Apache-2.0
"""What log lines look like, whoever writes them."""

from __future__ import annotations

import io
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from trainsnap_controller.observe.logging import Sparing, bound, configure_logging

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_of_ours_in_json() -> None:
    stream = io.StringIO()
    configure_logging(stream=stream)
    with bound(controller="c", namespace="ns", name="job", reconcile_id="1"):
        structlog.stdlib.get_logger("trainsnap.x").warning("text with %s and {braces}", count=3)
    line = lines(stream)[0]
    assert list(line)[:3] == ["ts", "level", "msg"]
    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "warning",
        "msg": "text with %s and {braces}",
        "count": 3,
        "controller": "c",
        "namespace": "ns",
        "name": "job",
        "reconcile_id": "1",
        "logger": "trainsnap.x",
    }


def test_a_line_of_a_library_looks_the_same_and_knows_the_reconcile() -> None:
    stream = io.StringIO()
    configure_logging(stream=stream)
    with bound(reconcile_id="1"):
        logging.getLogger("uvicorn.error").error("broken: %s", "pipe")
    line = lines(stream)[0]
    assert (line["msg"], line["level"], line["logger"], line["reconcile_id"]) == (
        "broken: pipe",
        "error",
        "uvicorn.error",
        "1",
    )


@pytest.mark.parametrize("library", ["httpx", "httpcore.connection", "kr8s._api", "uvicorn.error"])
def test_chatter_of_libraries_is_left_out(library: str) -> None:
    stream = io.StringIO()
    configure_logging(stream=stream, level="debug")
    logging.getLogger(library).info("HTTP Request: GET ...")
    assert stream.getvalue() == ""


def test_what_anybody_can_cause_is_told_a_few_times_in_a_while() -> None:
    now = 0.0
    sparing = Sparing(lines=2, seconds=60, clock=lambda: now)

    def let_through(logger: str, text: Any) -> list[str]:
        made = [logging.makeLogRecord({"name": logger, "msg": text}) for _ in range(4)]
        return [str(record.msg) + str(getattr(record, "note", "")) for record in made if sparing.filter(record)]

    note = "more of these within 60 s are left out"
    assert let_through("uvicorn.error", "Invalid HTTP request received.") == [
        "Invalid HTTP request received.",
        f"Invalid HTTP request received.{note}",
    ]
    assert len(let_through("uvicorn.error", "another text")) == 2
    assert let_through("trainsnap_controller.statusserver.app", {"event": "report refused", "name": "a"})[1] == str(
        {"event": "report refused", "name": "a", "note": note}
    )
    assert len(let_through("trainsnap_controller.reconcile.trainjob", "our own work")) == 4
    assert len(let_through("trainsnap_controller.webhooks.application", "another module")) == 4
    now = 61.0
    assert len(let_through("uvicorn.error", "Invalid HTTP request received.")) == 2


def test_the_output_is_sparing() -> None:
    stream = io.StringIO()
    configure_logging(stream=stream)
    for number in range(50):
        logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
        structlog.stdlib.get_logger("trainsnap_controller.webhooks.app").error("the webhook failed", uid=number)
    assert len(lines(stream)) == 20
    assert [line["note"] for line in lines(stream)[-2:]] == ["more of these within 60 s are left out"] * 2


def test_an_exception_is_one_line_of_json() -> None:
    stream = io.StringIO()
    configure_logging(stream=stream)
    try:
        raise ValueError("two\nlines")
    except ValueError:
        structlog.stdlib.get_logger().exception("broke")
    line = lines(stream)[0]
    assert "ValueError: two\nlines" in line["exception"]
    assert len(stream.getvalue().splitlines()) == 1


def test_levels_filter_and_unknown_ones_are_refused() -> None:
    stream = io.StringIO()
    configure_logging(stream=stream, level="warning")
    logger = structlog.stdlib.get_logger()
    logger.info("no")
    logger.warning("yes")
    assert [line["msg"] for line in lines(stream)] == ["yes"]
    with pytest.raises(ValueError, match="log level 'loud': must be one of"):
        configure_logging(level="loud")


def test_configuring_again_replaces_the_output() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure_logging(stream=first)
    configure_logging(stream=second, format="console")
    structlog.stdlib.get_logger().info("hello", name="job")
    assert first.getvalue() == ""
    assert second.getvalue().count("hello") == 1
    assert "name=job" in second.getvalue()
    assert "\x1b[" not in second.getvalue()
