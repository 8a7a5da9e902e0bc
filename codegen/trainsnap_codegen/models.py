# SPDX-License-Identifier: Apache-2.0
"""Writes the pydantic models: one class for each definition, by datamodel-code-generator. Called by the commands.

What a CRD decides (required, defaults, limits, enums, formats) is left out on purpose: models keep what was written,
and must go on reading what a newer API server returns.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import keyword
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainsnap_codegen.descriptions import described
from trainsnap_codegen.layout import JSON, LICENCE, MARK, SchemaError
from trainsnap_codegen.sources import GROUP, VERSION
from trainsnap_codegen.split import split

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trainsnap_codegen.layout import Layout
    from trainsnap_codegen.sources import Sources

GENERATOR = "0.89.0"
"""The release of datamodel-code-generator whose output is checked in; another one writes something else."""

_OPTIONS = (
    "--input-file-type=openapi",
    "--output-model-type=pydantic_v2.BaseModel",
    "--base-class=trainsnap_api.base.Model",
    "--target-python-version=3.11",
    "--formatters=builtin",
    "--disable-timestamp",
    "--snake-case-field",
    "--use-annotated",
    "--use-standard-collections",
    "--use-union-operator",
    "--use-schema-description",
    "--use-single-line-docstring",
    # Annotations as objects, not as text that pydantic compiles again: a quarter less time to import.
    "--disable-future-imports",
    # As docstrings below the attributes: editors show them, and they cost nothing at import.
    "--use-inline-field-description",
)
# The generator allows arbitrary types wherever a field has one of ours; ours are plain JSON types.
_ARBITRARY = "    model_config = ConfigDict(\n        arbitrary_types_allowed=True,\n    )\n"


def model_files(layout: Layout, sources: Sources) -> dict[Path, str]:
    """The generated package. Raises SchemaError, also when the generator is missing or of another release."""
    folder = layout.root / "api" / "trainsnap_api" / "_generated"
    definitions = described(layout, sources)
    document = openapi(sources, definitions)
    attributes = attribute_names(sources)
    digest = hashlib.sha256(json.dumps([document, attributes, _OPTIONS], sort_keys=True).encode()).hexdigest()
    header = f"{LICENCE}# {MARK}\n# datamodel-code-generator {GENERATOR}, input sha256 {digest}\n"
    text = _check(run(document, attributes), document)
    for kind in sources.kinds:
        text = text.replace(f"class {kind.kind}(Model):", f"class {kind.kind}(Kind):")
    parts = split(text, [kind.kind for kind in sources.kinds])
    files = {folder / f"{name}.py": header + part for name, part in parts.items()}
    files[folder / "__init__.py"] = _names(parts)
    files[folder / "schema.json"] = schema_json(sources)
    return files


def _names(parts: dict[str, str]) -> str:
    """The package's own module: the name of every class and its module, so that none is imported to know them."""
    where = {
        name: module for module, text in parts.items() for name in re.findall(r"^class (\w+)\(", text, re.MULTILINE)
    }
    rows = "".join(f"    {name!r}: {where[name]!r},\n" for name in sorted(where))
    doc = '"""Generated models; import them from trainsnap_api.models."""\n'
    return f"{LICENCE}# {MARK}\n{doc}\nMODULES: dict[str, str] = {{\n{rows}}}\n"


def schema_json(sources: Sources) -> str:
    """The CRDs' schemas as data for checks without a server: definitions with `$ref`s, what they reject and default."""
    reached: dict[str, JSON] = {}

    def reach(name: str) -> None:
        if name not in reached:
            reached[name] = {}
            bare = {"type": "object"} if name in sources.models_only else _bare(sources.definitions[name])
            reached[name] = bare
            for target in _all_targets(bare):
                reach(target)

    for kind in sources.kinds:
        reach(kind.kind)
    kinds = {
        kind.kind: {"plural": kind.plural, "namespaced": kind.scope == "Namespaced", "status": kind.status}
        for kind in sources.kinds
    }
    document = {
        "$comment": MARK,
        "apiVersion": f"{GROUP}/{VERSION}",
        "kinds": kinds,
        "definitions": dict(sorted(reached.items())),
    }
    return json.dumps(document, separators=(",", ":"), sort_keys=True) + "\n"


def _bare(node: Any, *, fields: bool = False) -> Any:
    """A schema without the texts that no check needs. ``fields``: the keys are names of fields."""
    if isinstance(node, list):
        return [_bare(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _bare(value, fields=key == "properties" and not fields)
        for key, value in node.items()
        if fields or key not in ("description", "x-patch-type")
    }


def _all_targets(node: Any) -> Iterable[str]:
    if isinstance(node, list):
        for item in node:
            yield from _all_targets(item)
    elif isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from _all_targets(value)


def openapi(sources: Sources, definitions: dict[str, JSON] | None = None) -> JSON:
    """The definitions that the kinds reach, as an OpenAPI document that holds names and types and nothing else."""
    definitions = sources.definitions if definitions is None else definitions
    schemas: dict[str, JSON] = {}

    def reach(name: str) -> None:
        if name in schemas:
            return
        definition = definitions[name]
        schema: JSON = {"type": "object", "properties": {}}
        if "description" in definition:
            schema["description"] = definition["description"]
        schemas[name] = schema
        for key, child in definition.get("properties", {}).items():
            schema["properties"][key] = _type(f"{name}.{key}", child)
            for target in _targets(child):
                reach(target)

    for kind in sources.kinds:
        reach(kind.kind)
    info = {"title": "trainsnap", "version": "1"}
    return {"openapi": "3.1.0", "info": info, "paths": {}, "components": {"schemas": dict(sorted(schemas.items()))}}


def _targets(node: JSON) -> Iterable[str]:
    if "$ref" in node:
        yield node["$ref"]
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from _targets(node[key])


def _type(place: str, node: JSON) -> JSON:
    """The schema that stands for the Python type of a field."""
    described = {"description": node["description"]} if "description" in node else {}
    if "$ref" in node:
        return described | {"$ref": f"#/components/schemas/{node['$ref']}"}
    if node.get("x-kubernetes-int-or-string"):
        return described | _ours("Quantity" if "pattern" in node else "IntOrString")
    if node.get("x-kubernetes-preserve-unknown-fields"):
        return described
    if "additionalProperties" in node:
        inner = node["additionalProperties"]
        if inner.get("x-kubernetes-int-or-string"):
            return described | _ours("QuantityMap")
        if inner.get("type") == "string":
            return described | _ours("StringMap")
        raise SchemaError(f"{place}: no Python type for a map of {inner}")
    if node.get("type") == "array":
        return described | {"type": "array", "items": _type(f"{place}[]", node["items"])}
    if node.get("type") in ("string", "integer", "boolean", "number"):
        return described | {"type": node["type"]}
    raise SchemaError(f"{place}: no Python type for {node}")


def _ours(name: str) -> JSON:
    return {"customTypePath": f"trainsnap_api.base.{name}"}


def attribute_names(sources: Sources) -> dict[str, str]:
    """API name -> Python name for those that the generator's rule would spoil. Raises SchemaError for a stale row."""
    names: dict[str, str] = dict(sources.names["attributes"])
    known = {key for schema in sources.definitions.values() for key in schema.get("properties", {})}
    stale = sorted(set(names) - known)
    if stale:
        raise SchemaError(f"names.yaml: attributes of no schema: {', '.join(stale)}")
    return names


def run(document: JSON, attributes: dict[str, str]) -> str:
    """What datamodel-code-generator makes of the document, less its own header."""
    try:
        installed = importlib.metadata.version("datamodel-code-generator")
    except importlib.metadata.PackageNotFoundError:
        installed = "none"
    if installed != GENERATOR:
        raise SchemaError(f"datamodel-code-generator {GENERATOR} is needed, installed is {installed}")
    # In a folder of its own, so that no pyproject.toml above adds options.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "input.json").write_text(json.dumps(document), encoding="utf-8")
        (folder / "aliases.json").write_text(json.dumps(attributes), encoding="utf-8")
        paths = ("--input=input.json", "--output=models.py", "--aliases=aliases.json")
        command = [sys.executable, "-m", "datamodel_code_generator", *_OPTIONS, *paths]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise SchemaError(f"datamodel-code-generator failed: {done.stderr.strip()}")
        text = (folder / "models.py").read_text(encoding="utf-8")
    return text[text.index("from typing import ") :]


def _check(text: str, document: JSON) -> str:
    """The generator's text with our corrections. Raises SchemaError when it is not what the rest relies on."""
    text = text.replace(_ARBITRARY, "").replace("import ConfigDict, Field", "import Field")
    if "ConfigDict" in text or "RootModel" in text:
        raise SchemaError("the generator wrote a configuration or a root model; look at its output")
    classes = re.findall(r"^class (\w+)\(Model\):$", text, re.MULTILINE)
    odd = sorted(set(classes) ^ set(document["components"]["schemas"]))
    if odd or len(classes) != len(set(classes)):
        raise SchemaError(f"the generator renamed or copied classes: {', '.join(odd) or classes}")
    fields = re.findall(r"^    (\w+): ", text, re.MULTILINE)
    bad = sorted({name for name in fields if keyword.iskeyword(name) or not name.islower()})
    if bad:
        raise SchemaError(f"not usable as attribute names: {', '.join(bad)}")
    return re.sub(r"(?<=:)\n\n(?=    \"\"\")", "\n", text).rstrip() + "\n"
