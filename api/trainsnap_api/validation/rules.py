# SPDX-License-Identifier: Apache-2.0
"""CEL rules of the schemas, evaluated here by the library behind the extra ``validation``. Without it, they are named.

Rules that compare with the object as it was (``oldSelf``) are evaluated when that is given, with the order of sets and
keyed lists not counting, and skipped where the old object has no such place: both as on the API server. A rule that
cannot be evaluated here, say because it uses a function that only Kubernetes has, is left to the server.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from trainsnap_api.validation.report import Problem, Unchecked
from trainsnap_api.validation.schema import JSON, Node
from trainsnap_api.validation.values import correlated, in_order

_TRANSITION = re.compile(r"\boldSelf\b")
NOT_INSTALLED = "needs the extra `validation` (pip install 'trainsnap[validation]'), or the server"

Evaluate = Callable[[str, JSON], bool]


class CannotEvaluateError(Exception):
    """The rule is not for us. The message says why, in a few words."""


@dataclass(slots=True)
class Rules:
    """Goes through one object; collects ``problems`` and ``unchecked``."""

    evaluate: Evaluate | None
    problems: list[Problem] = field(default_factory=list)
    unchecked: list[Unchecked] = field(default_factory=list)

    def walk(self, node: Node, value: Any, path: str = "", old: Any = None) -> None:
        """Every rule of the node and below it, parents first."""
        for rule in node.rules:
            self._judge(rule, node, value, path, old)
        for key, child, entry in _children(node, value):
            step = f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}" if path else key
            self.walk(child, entry, step, correlated(node, old, key, entry))

    def _judge(self, rule: JSON, node: Node, value: Any, path: str, old: Any) -> None:
        text: str = rule["rule"]
        transition = _TRANSITION.search(text) is not None
        if (old is None) if transition else (old is not None and old == value):
            return
        if self.evaluate is None:
            self.unchecked.append(Unchecked(path, text, NOT_INSTALLED))
            return
        data = {"self": value}
        if transition:
            data = {"self": in_order(node, value), "oldSelf": in_order(node, old)}
        try:
            holds = self.evaluate(text, data)
        except CannotEvaluateError as reason:
            self.unchecked.append(Unchecked(path, text, f"left to the server: {reason}"))
            return
        if not holds:
            where = (path + rule.get("fieldPath", "")).removeprefix(".")
            message = rule.get("message") or f"failed rule: {text}"
            self.problems.append(Problem(where, "FieldValueInvalid", message))


def _children(node: Node, value: Any) -> Iterator[tuple[str | int, Node, Any]]:
    if isinstance(value, dict):
        for key, entry in value.items():
            child = node.child(key)
            if child is not None:
                yield key, child, entry
    elif isinstance(value, list) and node.items is not None:
        for index, entry in enumerate(value):
            yield index, node.items, entry


@functools.cache
def evaluator() -> Evaluate | None:
    """The function that evaluates rules; None when the library is not installed."""
    try:
        from cel_expr_python import cel  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        return None
    environment = cel.NewEnv(variables={"self": cel.Type.DYN, "oldSelf": cel.Type.DYN})

    @functools.cache
    def compiled(text: str) -> Any:
        return environment.compile(text)

    def evaluate(text: str, data: JSON) -> bool:
        try:
            result = compiled(text).eval(data=data).plain_value()
        except Exception as error:  # the library raises plain exceptions of several types
            raise CannotEvaluateError(" ".join(str(error).split())[:200]) from error
        if not isinstance(result, bool):
            raise CannotEvaluateError(f"gives {result!r}")
        return result

    return evaluate
