# SPDX-License-Identifier: Apache-2.0
"""Reads what a metrics server answers."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample


def samples(text: str, name: str, **labels: str) -> list[Sample]:
    """The samples of a metric that carry these labels."""
    found = [s for family in text_string_to_metric_families(text) for s in family.samples]
    return [s for s in found if s.name == name and labels.items() <= s.labels.items()]
