# SPDX-License-Identifier: Apache-2.0
"""How objects show themselves: one line on a terminal, a small table in a notebook. Called by their ``__repr__``.

Works on every object, however little of it is set, and writes every value as text (HTML is escaped). Never raises.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from trainsnap_api.state import reason_of, state_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trainsnap_api.base import Kind

_SHORT = 12
"""Characters of a digest that are shown."""


def line(obj: Kind) -> str:
    """``<TrainJob team-a/bert: Running, 2 nodes, ClusterTrainingRuntime torch>``."""
    facts = ", ".join(text for _, text in _facts(obj) if text)
    return f"<{type(obj).__name__} {_name(obj)}{': ' if facts else ''}{facts}>"


def table(obj: Kind) -> str:
    """The same facts as an HTML table with a heading."""
    rows = [("Name", _name(obj)), *_facts(obj)]
    return html_table(type(obj).__name__, (), [row for row in rows if row[1]])


def html_table(caption: str, header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table of plain text; the first cell of each row is its heading when there is no header."""
    head = "".join(f"<th>{escape(text)}</th>" for text in header)
    first = "td" if head else "th"
    body = ""
    for row in rows:
        cells = [escape(str(cell)) for cell in row]
        body += f"<tr><{first}>{cells[0]}</{first}>" + "".join(f"<td>{cell}</td>" for cell in cells[1:]) + "</tr>"
    return f"<table><caption>{escape(caption)}</caption>{f'<tr>{head}</tr>' if head else ''}{body}</table>"


def _name(obj: Any) -> str:
    metadata = obj.metadata
    name = (metadata and (metadata.name or (metadata.generate_name and f"{metadata.generate_name}*"))) or "(no name)"
    return f"{metadata.namespace}/{name}" if metadata and metadata.namespace else str(name)


def _facts(obj: Any) -> list[tuple[str, str]]:
    match type(obj).__name__:
        case "TrainJob":
            return _job(obj)
        case "TrainingRuntimeSnapshot":
            return _snapshot(obj)
    policy = obj.spec.ml_policy if obj.spec else None
    jobs = _path(obj, "spec", "template", "spec", "replicated_jobs") or ()
    frameworks = [name for name in ("torch", "mpi", "jax", "xgboost", "flux") if policy and getattr(policy, name)]
    return [
        ("Framework", ", ".join(frameworks)),
        ("Nodes", _count(_path(policy, "num_nodes"), "node")),
        ("Replicated jobs", ", ".join(str(job.name) for job in jobs)),
        ("Generation", f"generation {obj.metadata.generation}" if _path(obj, "metadata", "generation") else ""),
    ]


def _job(job: Any) -> list[tuple[str, str]]:
    reference = _path(job, "spec", "runtime_ref")
    runtime = f"{reference.kind or 'ClusterTrainingRuntime'} {reference.name}" if reference else ""
    trainer = _path(job, "status", "trainer_status")
    percent = _path(trainer, "progress_percentage")
    return [
        ("State", state_of(job)),
        ("Reason", reason_of(job)),
        ("Nodes", _count(_path(job, "spec", "trainer", "num_nodes"), "node")),
        ("Progress", f"{percent} %" if percent is not None else ""),
        ("Runtime", runtime),
    ]


def _snapshot(snapshot: Any) -> list[tuple[str, str]]:
    source = snapshot.source
    if source is None:
        return []
    generation = f" generation {source.generation}" if source.generation is not None else ""
    algorithm, _, value = (source.digest or "").partition(":")
    return [
        ("Runtime", f"{source.kind} {source.name}{generation}"),
        ("Origin", source.origin or ""),
        ("Digest", f"{algorithm}:{value[:_SHORT]}" if value else ""),
    ]


def _path(value: Any, *names: str) -> Any:
    for name in names:
        value = getattr(value, name, None)
    return value


def _count(number: int | None, word: str) -> str:
    return "" if number is None else f"{number} {word}{'' if number == 1 else 's'}"
