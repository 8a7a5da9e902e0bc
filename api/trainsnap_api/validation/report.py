# SPDX-License-Identifier: Apache-2.0
"""What a check says: problems by path, and what it could not judge. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Reason = Literal[
    "FieldValueRequired",
    "FieldValueInvalid",
    "FieldValueTypeInvalid",
    "FieldValueNotSupported",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueDuplicate",
    "FieldUnknown",
]
"""As the API server has them in ``causes``, and FieldUnknown, which it tells in a message."""

BLOCKING: frozenset[Reason] = frozenset(
    {
        "FieldValueRequired",
        "FieldValueTypeInvalid",
        "FieldValueNotSupported",
        "FieldValueTooLong",
        "FieldValueTooMany",
    }
)
"""After one of these the API server evaluates no CEL rule of the object."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A field that the server would refuse: its path as the server writes it, why, and what would be right."""

    field: str
    reason: Reason
    message: str

    def __str__(self) -> str:
        return f"{self.field or '(object)'}: {self.message}"


@dataclass(frozen=True, slots=True)
class Unchecked:
    """A rule that was not judged here, and why not. ``field`` "" for the object as a whole."""

    field: str
    rule: str
    why: str

    def __str__(self) -> str:
        return f"{self.field or '(object)'}: {self.rule}: {self.why}"


class ValidationFailed(ValueError):
    """The object would be refused; ``report`` says why."""

    def __init__(self, report: Report) -> None:
        super().__init__("; ".join(map(str, report.problems)))
        self.report = report

    def __reduce__(self) -> tuple[type[ValidationFailed], tuple[Report]]:
        # Pickled and copied by what it is made from, which is not its text.
        return type(self), (self.report,)


@dataclass(frozen=True, slots=True)
class Report:
    """The result for one object. Without problems it may still be refused for what is ``unchecked``."""

    problems: tuple[Problem, ...] = ()
    unchecked: tuple[Unchecked, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no problem was found."""
        return not self.problems

    def raise_for_problems(self) -> None:
        """Raises ValidationFailed when there are any."""
        if self.problems:
            raise ValidationFailed(self)
