# SPDX-License-Identifier: Apache-2.0
"""Texts about pinned types, for the models and their reference. Called by those generators; never by that of the CRDs.

The texts of the pinned schemas themselves are left out when they are pinned, so what is not described here only says
whose type it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainsnap_codegen.layout import JSON, SchemaError, read_yaml

if TYPE_CHECKING:
    from trainsnap_codegen.layout import Layout
    from trainsnap_codegen.sources import Sources

CLASS = "."
"""The key of a class's own text."""


def described(layout: Layout, sources: Sources) -> dict[str, JSON]:
    """The definitions, those of others with texts of ours. Raises SchemaError for a row that does not fit any more."""
    rows: dict[str, dict[str, str]] = read_yaml(layout.sources / "descriptions.yaml")
    unknown = sorted(set(rows) - (set(sources.definitions) - sources.own))
    if unknown:
        raise SchemaError(f"descriptions.yaml: no pinned type: {', '.join(unknown)}")
    jobset = set(sources.names["jobset"].values())
    found = dict(sources.definitions)
    for name in sorted(set(found) - sources.own):
        texts = rows.get(name, {})
        stale = sorted(set(texts) - {CLASS, *found[name].get("properties", {})})
        if stale:
            raise SchemaError(f"descriptions.yaml: {name} has no field {', '.join(stale)}")
        owner = "JobSet" if name in jobset else "the Kubernetes API"
        properties = {
            key: node | {"description": texts[key]} if key in texts else node
            for key, node in found[name].get("properties", {}).items()
        }
        text = texts.get(CLASS, f"The type {name} of {owner}.")
        found[name] = {**found[name], "description": text, "properties": properties}
    return found
