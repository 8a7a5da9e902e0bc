# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with a job and its runtime, as values.

``BuildError`` is the only exception that building raises; ``FieldError`` is what validation returns. Both name the
field, the value and the rule, so that a condition or an admission answer can be made from them without more thought.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Kind(Enum):
    """How a field is wrong; the values are the words of Kubernetes' own messages."""

    INVALID = "Invalid value"
    FORBIDDEN = "Forbidden"
    REQUIRED = "Required value"


@dataclass(frozen=True, slots=True)
class FieldError:
    """One broken rule. ``path`` starts at the TrainJob's root, as in ``spec.trainer.env[2]``.

    A ``value`` of None is not shown: the rule says it already, or there is none.
    """

    path: str
    value: Any
    detail: str
    kind: Kind = Kind.INVALID

    def __str__(self) -> str:
        if self.kind is Kind.FORBIDDEN or self.value is None:
            return f"{self.path}: {self.kind.value}: {self.detail}"
        return f"{self.path}: {self.kind.value}: {_shown(self.value)}: {self.detail}"


class BuildError(Exception):
    """The job cannot be built from this runtime.

    ``field`` is a path in the TrainJob (``spec...``) or in the runtime (``runtime.spec...``); ``rule`` is one clear
    line without a trailing full stop. ``retried``: something outside the two is missing and may come by itself;
    otherwise nothing but a change of the job or the runtime helps.
    """

    def __init__(self, field: str, rule: str, *, retried: bool = False) -> None:
        super().__init__(f"{field}: {rule}")
        self.field = field
        self.rule = rule
        self.retried = retried


def _shown(value: Any) -> str:
    """The value as JSON, cut where it would drown the rule."""
    text = json.dumps(value, ensure_ascii=False, default=str, separators=(",", ":"))
    return text if len(text) <= 500 else text[:497] + "..."
