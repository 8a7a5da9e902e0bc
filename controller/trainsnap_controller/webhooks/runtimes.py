# SPDX-License-Identifier: Apache-2.0
"""The rules of TrainingRuntimes and ClusterTrainingRuntimes that the schema cannot say: the same for both kinds.

Reads nothing: the rules themselves are ``runtime.blueprint``'s.
"""

from __future__ import annotations

from typing import Any, Final

from trainsnap_controller import constants as c
from trainsnap_controller.runtime.blueprint import broken_rules, without_effect
from trainsnap_controller.webhooks.review import CREATE, Answer, Review, refusal

JSON = dict[str, Any]

POLICY_URL: Final = (
    "https://www.kubeflow.org/docs/components/trainer/operator-guides/runtime/#runtime-deprecation-policy"
)
DEPRECATED: Final = "deprecated"


async def review(question: Review) -> Answer:
    """Judge a runtime that is created or changed."""
    spec = question.obj.get("spec") or {}
    warnings = list(without_effect(spec))
    metadata = question.obj.get("metadata") or {}
    if (
        question.operation == CREATE
        and question.kind == "ClusterTrainingRuntime"
        and deprecated(metadata.get("labels"))
    ):
        warnings.append(
            f"ClusterTrainingRuntime {metadata.get('name', '')!r} is labelled as deprecated: "
            f"TrainJobs that use it are accepted with a warning; see {POLICY_URL}"
        )
    return refusal(list(broken_rules(spec)), warnings)


def deprecated(labels: JSON | None) -> bool:
    """Whether a runtime's labels say that it is on its way out."""
    return (labels or {}).get(c.SUPPORT_LABEL) == DEPRECATED
