# SPDX-License-Identifier: Apache-2.0
"""Reports of ``trainsnap migrate``: a table, JSON, or one HTML file that needs nothing beside it.

Rows are written as they come, so that a report of any length needs no memory; the sums stand at the end.
"""

from __future__ import annotations

import html
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TextIO

from trainsnap_controller.migration.decide import Result, Step
from trainsnap_controller.runtime.job import Job

JSON = dict[str, Any]


class Format(StrEnum):
    """How a report is written."""

    TABLE = "table"
    JSON = "json"
    HTML = "html"


@dataclass(slots=True)
class Sums:
    """How many jobs there were of each result."""

    results: Counter[str] = field(default_factory=Counter)

    @property
    def jobs(self) -> int:
        """All of them."""
        return sum(self.results.values())

    def text(self) -> str:
        """Such as ``12 jobs: 10 done, 2 nothing to do``."""
        parts = [f"{self.results[result]} {result}" for result in Result if self.results[result]]
        return f"{self.jobs} jobs" + (f": {', '.join(parts)}" if parts else "")


class Report(Protocol):
    """A report that is being written."""

    def begin(self, operation: str, facts: Iterable[str]) -> None: ...
    def row(self, job: Job, step: Step) -> None: ...
    def end(self, sums: Sums, remark: str = "") -> None:
        """``remark``: why less was done than was asked for, if so."""


class TableReport:
    """Lines for people. Without ``everything`` jobs about which there is nothing to say are left out."""

    def __init__(self, out: TextIO, *, everything: bool) -> None:
        self._out = out
        self._everything = everything
        self._headed = False

    def begin(self, operation: str, facts: Iterable[str]) -> None:
        del operation
        for fact in facts:
            self._out.write(f"{_shown(fact)}\n")

    def row(self, job: Job, step: Step) -> None:
        if step.result is Result.NOTHING and not self._everything:
            return
        if not self._headed:
            self._out.write(f"{'JOB':<48} {'RESULT':<13} DETAIL\n")
            self._headed = True
        self._out.write(f"{job.namespace + '/' + job.name:<48} {step.result:<13} {_shown(step.detail)}\n")
        for note in step.notes:
            self._out.write(f"{'':<48} {'note':<13} {_shown(note)}\n")

    def end(self, sums: Sums, remark: str = "") -> None:
        self._out.write(f"{sums.text()}\n")
        if remark:
            self._out.write(f"{_shown(remark)}\n")


def _shown(text: str) -> str:
    """On one line, and without what a terminal would obey: it may quote what somebody wrote into a ConfigMap."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


class JsonReport:
    """One JSON object: operation, facts, jobs, sums."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._separator = "\n"

    def begin(self, operation: str, facts: Iterable[str]) -> None:
        self._out.write(f'{{"operation": {json.dumps(operation)}, "facts": {json.dumps([*facts])}, "jobs": [')

    def row(self, job: Job, step: Step) -> None:
        row = {"namespace": job.namespace, "name": job.name, "uid": job.uid, "result": step.result.name.lower(),
               "detail": step.detail, "notes": [*step.notes]}  # fmt: skip
        self._out.write(f"{self._separator}{json.dumps(row)}")
        self._separator = ",\n"

    def end(self, sums: Sums, remark: str = "") -> None:
        counted = {result.name.lower(): sums.results[result] for result in Result}
        told = f', "remark": {json.dumps(remark)}' if remark else ""
        self._out.write(f'\n], "sums": {json.dumps({"jobs": sums.jobs, **counted})}{told}}}\n')


_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>trainsnap migrate {operation}</title><style>
body {{ font: 15px/1.4 system-ui, sans-serif; margin: 2em; color: #1b1b1b; background: #fff }}
table {{ border-collapse: collapse }} td, th {{ padding: .3em .8em; text-align: left; border-bottom: 1px solid #ccc }}
.problem td {{ background: #fde8e8 }} .todo td {{ background: #fdf6dc }} .done td {{ background: #e9f6ea }}
small {{ color: #555 }} @media (prefers-color-scheme: dark) {{ body {{ background: #181818; color: #ddd }}
.problem td {{ background: #4a2020 }} .todo td {{ background: #453c16 }} .done td {{ background: #1d3a20 }} }}
</style></head><body><h1>trainsnap migrate {operation}</h1>
"""


class HtmlReport:
    """One page, everything from the cluster escaped."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def begin(self, operation: str, facts: Iterable[str]) -> None:
        self._out.write(_HEAD.format(operation=html.escape(operation)))
        self._out.write("".join(f"<p>{html.escape(fact)}</p>\n" for fact in facts))
        self._out.write("<table><tr><th>Namespace</th><th>Job</th><th>Result</th><th>Detail</th></tr>\n")

    def row(self, job: Job, step: Step) -> None:
        notes = "".join(f"<br><small>{html.escape(note)}</small>" for note in step.notes)
        cells = "".join(f"<td>{html.escape(text)}</td>" for text in (job.namespace, job.name, step.result))
        kind = step.result.name.lower()
        self._out.write(f'<tr class="{kind}">{cells}<td>{html.escape(step.detail)}{notes}</td></tr>\n')

    def end(self, sums: Sums, remark: str = "") -> None:
        told = f"<p><strong>{html.escape(remark)}</strong></p>" if remark else ""
        self._out.write(f"</table><p>{html.escape(sums.text())}</p>{told}</body></html>\n")


def report(kind: Format, out: TextIO, *, everything: bool) -> Report:
    """A report of that kind."""
    match kind:
        case Format.JSON:
            return JsonReport(out)
        case Format.HTML:
            return HtmlReport(out)
        case _:
            return TableReport(out, everything=everything)


class Progress:
    """How far a run is, how fast, and how long it will take: one line on a terminal, a line now and then elsewhere."""

    def __init__(self, out: TextIO, clock: Any, *, quiet: bool = False) -> None:
        self._out, self._clock, self._quiet = out, clock, quiet
        self._began = self._shown = clock()
        self._terminal = out.isatty()
        self._open = False

    def show(self, done: int, total: int, *, force: bool = False) -> None:
        """Tell, unless it was told a moment ago."""
        now = self._clock()
        if self._quiet or (not force and now - self._shown < (0.2 if self._terminal else 5.0)):
            return
        self._shown = now
        rate = done / (now - self._began) if now > self._began else 0.0
        left = f", {max(0, total - done) / rate:.0f} s left" if rate and total > done else ""
        line = f"{done} of {max(total, done)} jobs, {rate:.0f} a second{left}"
        self._out.write(f"\r\x1b[K{line}" if self._terminal else f"{line}\n")
        self._out.flush()
        self._open = self._terminal

    def close(self) -> None:
        """End an open line."""
        if self._open:
            self._out.write("\n")
            self._open = False
