# SPDX-License-Identifier: Apache-2.0
"""The journal: append only, of one cluster, for one run at a time, and readable after any death of its writer."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from trainsnap_controller.migration.journal import Journal, JournalError, last_run, opened


def now() -> datetime:
    return datetime(2026, 1, 5, 10, tzinfo=UTC)


def test_lines_are_appended_run_after_run(tmp_path: Path) -> None:
    path = tmp_path / "j"
    for operation in ("apply", "rollback"):
        with opened(path, "cluster-1", now) as journal:
            journal.write("begun", operation=operation)
            journal.write("ended", operation=operation)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["opened", "begun", "ended", "begun", "ended"]
    assert lines[0] == {"time": "2026-01-05T10:00:00Z", "event": "opened", "cluster": "cluster-1"}
    assert last_run(path, "cluster-1") == {"time": "2026-01-05T10:00:00Z", "event": "ended", "operation": "rollback"}


def test_every_prefix_of_a_journal_can_be_continued(tmp_path: Path) -> None:
    """Whatever part of the last bytes was lost with the process."""
    path = tmp_path / "j"
    with opened(path, "cluster-1", now) as journal:
        journal.write("begun", operation="apply")
        journal.write("job", name="a")
    whole = path.read_bytes()
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        with opened(path, "cluster-1", now) as journal:
            journal.write("ended", operation="apply")
        found = last_run(path, "cluster-1")
        assert found is not None
        assert found["event"] == "ended", whole[:length]


def test_a_journal_of_another_cluster_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with opened(path, "cluster-1", now):
        pass
    with pytest.raises(JournalError, match="is of another cluster"), opened(path, "cluster-2", now):
        pass


def test_one_run_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with (
        opened(path, "cluster-1", now),
        pytest.raises(JournalError, match="in use by another run"),
        opened(path, "cluster-1", now),
    ):
        pass


def test_no_journal_and_one_that_cannot_be_written(tmp_path: Path) -> None:
    assert last_run(tmp_path / "none", "c") is None
    with pytest.raises(JournalError, match="No such file"), opened(tmp_path / "no" / "j", "c", now):
        pass


@pytest.mark.parametrize("path", ["/dev/null", "/dev/full", "/"])
def test_what_is_no_file_is_no_journal(path: str) -> None:
    with pytest.raises(JournalError, match=r"Is a directory|must be a file"), opened(Path(path), "c", now):
        pass


def test_a_full_disk_is_said_in_one_line() -> None:
    with Path("/dev/full").open("wb", buffering=0) as full, pytest.raises(JournalError, match="No space left"):
        Journal(full, now).write("begun")


@pytest.mark.parametrize(
    "damage",
    [b'{"time": "2026', b"\x00\xff\n", b"[1]\n", b"[" * 100_000 + b"\n", b'{"event": "begun"}\n', b"\n\n"],
    ids=["half a line", "no text", "no object", "nested too deeply", "a line without its fields", "empty lines"],
)
def test_a_damaged_journal_still_says_whose_it_is_and_can_be_continued(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "j"
    path.write_bytes(damage)
    with opened(path, "cluster-1", now) as journal:
        journal.write("ended", operation="apply")
    with path.open("ab") as stream:
        stream.write(damage)
    found = last_run(path, "cluster-1")
    assert found is not None
    assert found["operation"] == "apply"
    with opened(path, "cluster-1", now):
        pass
    with pytest.raises(JournalError, match="is of another cluster"), opened(path, "cluster-2", now):
        pass
