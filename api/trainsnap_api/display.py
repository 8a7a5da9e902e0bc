# SPDX-License-Identifier: Apache-2.0
"""How objects show themselves: one line on a terminal, a small table in a notebook. Called by their ``__repr__``.

Works on every object, however little of it is set, and writes every value as text (HTML is escaped). Never raises.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from trainsnap_api.state import reason_of, state_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trainsnap_api.base import Kind

_SHORT = 12
"""Characters of a digest that are shown."""
_LONG = 200
"""Characters of a message that are shown in a line."""
_ROWS = 100
"""Objects of a list that are shown."""


def line(obj: Kind) -> str:
    """``<TrainJob team-a/bert: Running, 2 nodes, ClusterTrainingRuntime torch>``."""
    (_, name), *facts = _shown(obj)
    told = ", ".join(one_line(text) for _, text in facts if text)
    return f"<{type(obj).__name__} {one_line(name)}{': ' if told else ''}{told}>"


def table(obj: Kind) -> str:
    """The same facts as an HTML table with a heading."""
    return html_table(type(obj).__name__, (), [row for row in _shown(obj) if row[1]])


def list_table(objects: Sequence[Kind]) -> str:
    """A row for each of the first hundred objects of one kind, without the columns that are empty in all."""
    kind = type(objects[0]).__name__ if objects else "object"
    caption = _count(len(objects), kind) + (f", the first {_ROWS}" if len(objects) > _ROWS else "")
    rows = [dict(_shown(obj)) for obj in objects[:_ROWS]]
    headings = dict.fromkeys(heading for row in rows for heading in row)
    header = [heading for heading in headings if any(row.get(heading) for row in rows)]
    return html_table(caption, header, [[row.get(heading, "") for heading in header] for row in rows])


def one_line(text: str) -> str:
    """Text of others for a terminal: nothing in it moves the cursor, and there is an end to it."""
    printable = "".join(char if char.isprintable() else " " for char in text)
    return printable if len(printable) <= _LONG else f"{printable[: _LONG - 1]}…"


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


def _shown(obj: Any) -> list[tuple[str, str]]:
    """The name, then the facts, each with its heading. Those of another kind than the four are not known."""
    kinds = {"TrainJob": _job, "TrainingRuntimeSnapshot": _snapshot}
    kinds |= dict.fromkeys(("TrainingRuntime", "ClusterTrainingRuntime"), _runtime)
    facts = next((kinds[cls.__name__] for cls in type(obj).__mro__ if cls.__name__ in kinds), lambda _: [])
    try:
        return [("Name", _name(obj)), *facts(obj)]
    except (AttributeError, TypeError):
        # Assignments are not checked: a field may hold a dictionary, or anything else, in place of an object.
        return [("Name", "(fields of wrong types)")]


def _runtime(obj: Any) -> list[tuple[str, str]]:
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
    runtime = f"{reference.kind or 'ClusterTrainingRuntime'} {reference.name or '(no name)'}" if reference else ""
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
        ("Runtime", f"{source.kind or '(no kind)'} {source.name or '(no name)'}{generation}"),
        ("Origin", source.origin or ""),
        ("Digest", f"{algorithm}:{value[:_SHORT]}" if value else ""),
    ]


def _path(value: Any, *names: str) -> Any:
    for name in names:
        value = getattr(value, name, None)
    return value


def _count(number: int | None, word: str) -> str:
    return "" if number is None else f"{number} {word}{'' if number == 1 else 's'}"
