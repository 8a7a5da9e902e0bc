# SPDX-License-Identifier: Apache-2.0
"""Reports: complete, safe to show, and the same facts in every form."""

from __future__ import annotations

import io
import json
from html.parser import HTMLParser

import pytest

from trainsnap_controller.migration.decide import Result, Step
from trainsnap_controller.migration.report import Format, Progress, Sums, report
from trainsnap_controller.runtime.job import Job

EVIL = "<script>alert(1)</script>&\"'"


def job(name: str) -> Job:
    return Job.from_json({"metadata": {"name": name, "namespace": "ns", "uid": "u"}})


def written(kind: Format, *, everything: bool = False) -> str:
    out = io.StringIO()
    found = report(kind, out, everything=everything)
    sums = Sums()
    found.begin("plan", ["legacyBefore: x", EVIL])
    for name, step in [
        ("a", Step(Result.TODO, "snapshot from the ConfigMap", notes=("a note",))),
        ("b", Step(Result.NOTHING, "finished")),
        ("c", Step(Result.PROBLEM, EVIL)),
    ]:
        sums.results[step.result] += 1
        found.row(job(name), step)
    found.end(sums)
    return out.getvalue()


def test_table_shows_what_matters_and_everything_on_demand() -> None:
    short, whole = written(Format.TABLE), written(Format.TABLE, everything=True)
    assert "ns/a" in short
    assert "a note" in short
    assert "ns/b" not in short
    assert "ns/b" in whole
    assert short.endswith("3 jobs: 1 to do, 1 nothing to do, 1 problem\n")


def test_a_terminal_obeys_nothing_that_is_quoted() -> None:
    out = io.StringIO()
    found = report(Format.TABLE, out, everything=True)
    found.begin("plan", [])
    found.row(job("a"), Step(Result.PROBLEM, "kind \x1b[2J\r\n\x9b1mé", notes=("key \u202e",)))
    assert "kind \\x1b[2J\\r\\n\\x9b1mé\n" in out.getvalue()
    assert "key \\u202e\n" in out.getvalue()


@pytest.mark.parametrize("kind", Format)
def test_a_remark_stands_at_the_end(kind: Format) -> None:
    out = io.StringIO()
    found = report(kind, out, everything=False)
    found.begin("finalize", [])
    found.end(Sums(), f"nothing was deleted {EVIL}")
    if kind is Format.JSON:
        assert json.loads(out.getvalue())["remark"] == f"nothing was deleted {EVIL}"
    assert "nothing was deleted" in out.getvalue()
    assert (EVIL in out.getvalue()) == (kind is Format.TABLE)


def test_json_is_one_object() -> None:
    found = json.loads(written(Format.JSON))
    assert found["operation"] == "plan"
    assert found["facts"] == ["legacyBefore: x", EVIL]
    assert [(row["name"], row["result"]) for row in found["jobs"]] == [
        ("a", "todo"),
        ("b", "nothing"),
        ("c", "problem"),
    ]
    assert found["sums"] == {"jobs": 3, "todo": 1, "done": 0, "nothing": 1, "problem": 1}
    empty = io.StringIO()
    nothing = report(Format.JSON, empty, everything=False)
    nothing.begin("plan", [])
    nothing.end(Sums())
    assert json.loads(empty.getvalue())["jobs"] == []


class Tags(HTMLParser):
    """Counts tags, open and closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        assert not {"src", "href"} & {name for name, _ in attrs}, "the page needs nothing beside it"
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_html_stands_alone_and_runs_nothing() -> None:
    page = written(Format.HTML)
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert "script" not in tags.seen
    assert "&lt;script&gt;" in page
    assert '<tr class="problem">' in page


@pytest.mark.parametrize(
    ("done", "total", "want"),
    [(50, 100, "50 of 100 jobs, 10 a second, 5 s left\n"), (100, 100, "100 of 100 jobs, 20 a second\n")],
)
def test_progress_tells_rate_and_time_left(done: int, total: int, want: str) -> None:
    times = iter([0.0, 5.0])
    out = io.StringIO()
    Progress(out, lambda: next(times)).show(done, total)
    assert out.getvalue() == want
