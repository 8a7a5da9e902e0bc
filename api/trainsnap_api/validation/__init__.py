# SPDX-License-Identifier: Apache-2.0
"""Checks of objects before they are sent: the same schemas and rules as the API server's, offline.

``validate`` is the way in. Needs pydantic; CEL rules need the extra ``validation`` and are named without it.
"""

from __future__ import annotations

from trainsnap_api.validation.check import validate
from trainsnap_api.validation.report import Problem, Report, Unchecked, ValidationFailed

__all__ = ["Problem", "Report", "Unchecked", "ValidationFailed", "validate"]
