# SPDX-License-Identifier: Apache-2.0
"""Random objects that a CRD's schema admits, with names that meet each other.

For fuzzing what builds from runtimes and jobs. CEL rules are not looked at: what they refuse must not crash either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

JSON = dict[str, Any]

NAMES = ("node", "launcher", "dataset-initializer", "model-initializer", "side", "initializer", "a", "flux-installer")
ANCESTORS = ("trainer", "trainer", "trainer", "dataset-initializer", "model-initializer", "other")
QUANTITIES = ("1", 2, 0, "500m", "1.5Gi", "1024Mi", "1e3", "0.0000000001", "-1", "1000E", "1e3.5", "1e99999999", "007")
TEXTS = (
    "",
    "x",
    "a/b",
    "a=b",
    "true",
    "output_dir=/x",
    "model.lora_attn_modules=x",
    "model.quantize_base=true",
    "ä\u0085",
)
VARIABLES = ("A", "B", "PET_NNODES", "DMLC_TASK_ID", "FLUX_VIEW_IMAGE", "OMPI_MCA_plm_rsh_args", "JAX_PROCESS_ID")
COMMANDS: tuple[list[str], ...] = (["tune", "run"], ["torchrun", "x"], ["tune"], [])
SPARSE = ("ephemeral", "csi", "projected", "affinity", "lifecycle", "livenessProbe", "startupProbe", "readinessProbe")
"""Fields with large schemas that say little here: rarer than others."""


@dataclass(frozen=True)
class Values:
    """Makes values. ``density`` between 0 and 1: how likely an optional field is."""

    random: Random
    density: float

    def of(self, schema: JSON, field: str = "", depth: int = 0) -> Any:
        """A value of the schema; ``field`` is its name, which decides on the words that are used."""
        if schema.get("x-kubernetes-int-or-string"):
            return self.random.choice(QUANTITIES if "pattern" in schema else (80, "http", "50%"))
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        match schema.get("type"):
            case "object":
                return self._object(schema, field, depth)
            case "array":
                return self._array(schema, field, depth)
            case "integer":
                return self._integer(schema)
            case "boolean":
                return self.random.random() < 0.5
            case "string":
                return self._string(schema, field)
        return {}

    def _object(self, schema: JSON, field: str, depth: int) -> JSON:
        properties: Mapping[str, JSON] = schema.get("properties") or {}
        if not properties:
            return self._map(schema, field, depth)
        required = schema.get("required") or []
        result = {}
        for name, child in properties.items():
            likely = self.density * (0.15 if name in SPARSE else 0.5 if depth > 9 else 1)
            if name in required or self.random.random() < likely:
                result[name] = self.of(child, name, depth + 1)
        return result

    def _map(self, schema: JSON, field: str, depth: int) -> JSON:
        if field == "labels" and self.random.random() < 0.7:
            return {"trainer.kubeflow.org/trainjob-ancestor-step": self.random.choice(ANCESTORS)}
        if field == "annotations" and self.random.random() < 0.3:
            return {"scheduling.volcano.sh/queue-name": self.random.choice(("", "q"))}
        inner = schema.get("additionalProperties")
        if not isinstance(inner, dict):
            return {}
        keys = ("cpu", "memory", "nvidia.com/gpu", "amd.com/gpumem", "$patch")
        return {key: self.of(inner, "", depth + 1) for key in keys if self.random.random() < self.density}

    def _array(self, schema: JSON, field: str, depth: int) -> list[Any]:
        if field == "command":
            return list(self.random.choice(COMMANDS))
        most = min(schema.get("maxItems", 9), 1 if depth > 12 else 4)
        count = self.random.randint(schema.get("minItems", 0), max(most, schema.get("minItems", 0)))
        items = [self.of(schema["items"], field, depth + 1) for _ in range(count)]
        match schema.get("x-kubernetes-list-type"):
            case "map":
                keys = schema["x-kubernetes-list-map-keys"]
                return list({tuple(item.get(key) for key in keys): item for item in items}.values())
            case "set":
                return list(dict.fromkeys(items))
        return items

    def _integer(self, schema: JSON) -> int:
        low = schema.get("minimum", -(2**31))
        high = schema.get("maximum", 2**63 - 1 if schema.get("format") == "int64" else 2**31 - 1)
        allowed = [number for number in (0, 1, 2, 3, 7, 100, -1, high) if low <= number <= high]
        return self.random.choice(allowed[:-1] or allowed) if self.random.random() < 0.97 else allowed[-1]

    def _string(self, schema: JSON, field: str) -> str:
        if schema.get("format") == "date-time":
            return "2026-01-02T03:04:05Z"
        if field in ("name", "jobName", "containerNames", "replicatedJob"):
            return self.random.choice(NAMES)
        if field == "manager":
            return self.random.choice(("a.io/m", "b.io/m", "bad"))
        text = self.random.choice(TEXTS)
        return text or "x" if schema.get("minLength", 0) > 0 else text
