# SPDX-License-Identifier: Apache-2.0
"""Builds the CustomResourceDefinitions and their kustomization. Called by the commands and by tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from trainsnap_codegen.layout import JSON, LICENCE, MARK, SchemaError, to_yaml
from trainsnap_codegen.sources import GROUP, VERSION, expand, walk

if TYPE_CHECKING:
    from pathlib import Path

    from trainsnap_codegen.layout import Layout
    from trainsnap_codegen.sources import Kind, Sources

CATEGORY = "trainer"

SIZE_LIMIT = 256 * 1024
"""Bytes of compact JSON. Client-side `kubectl apply` keeps the whole object in an annotation, which holds no more."""


def crd_files(layout: Layout, sources: Sources) -> dict[Path, str]:
    """One YAML file for each kind, and a kustomization of them all. Raises SchemaError for one that is too big."""
    folder = layout.root / "crds"
    files = {}
    for kind in sources.kinds:
        crd = definition(sources, kind)
        size = len(json.dumps(crd, separators=(",", ":")).encode())
        if size >= SIZE_LIMIT:
            raise SchemaError(f"the CRD of {kind.kind} is {size} bytes, the limit is {SIZE_LIMIT}")
        files[folder / f"{GROUP}_{kind.plural}.yaml"] = f"{LICENCE}# {MARK}\n{to_yaml(crd)}"
    resources = sorted(path.name for path in files)
    kustomization: JSON = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": resources,
    }
    files[folder / "kustomization.yaml"] = f"{LICENCE}# {MARK}\n{to_yaml(kustomization)}"
    return files


def definition(sources: Sources, kind: Kind) -> JSON:
    """The CustomResourceDefinition object of a kind."""
    schema = expand(sources, kind.kind)
    check_structural(kind.kind, schema)
    version: JSON = {"name": VERSION, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    if kind.status:
        version["subresources"] = {"status": {}}
    if kind.columns:
        version["additionalPrinterColumns"] = list(kind.columns)
    names: JSON = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.singular,
        "categories": [CATEGORY],
    }
    if kind.shortNames:
        names["shortNames"] = list(kind.shortNames)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}"},
        "spec": {"group": GROUP, "names": names, "scope": kind.scope, "versions": [version]},
    }


def check_structural(kind: str, schema: JSON) -> None:
    """Refuses what the API server would, so that a mistake in the sources is found without one. Raises SchemaError."""
    for path, node in walk(schema):
        where = f"{kind}: {path or 'root'}"
        loose = node.get("x-kubernetes-preserve-unknown-fields") or node.get("x-kubernetes-int-or-string")
        if "type" not in node and not loose:
            raise SchemaError(f"{where}: has no type")
        if "properties" in node and "additionalProperties" in node:
            raise SchemaError(f"{where}: has both properties and additionalProperties")
        if node.get("type") == "array" and not isinstance(node.get("items"), dict):
            raise SchemaError(f"{where}: a list without items")
        missing = sorted(set(node.get("required", ())) - set(node.get("properties", {})))
        if missing:
            raise SchemaError(f"{where}: requires fields that it does not have: {', '.join(missing)}")
        if node.get("x-kubernetes-list-type") == "map":
            _check_list_map(where, node)


def _check_list_map(where: str, node: JSON) -> None:
    item = node["items"]
    for key in node.get("x-kubernetes-list-map-keys", ()):
        if key not in item.get("properties", {}):
            raise SchemaError(f"{where}: items have no key {key}")
        if key not in item.get("required", ()) and "default" not in item["properties"][key]:
            raise SchemaError(f"{where}: the key {key} must be required or have a default")
