# SPDX-License-Identifier: Apache-2.0
"""Reads the configuration file. Every fault becomes one line that names the field, the value and the rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from trainsnap_controller.config.model import API_VERSION, FEATURE_GATES, Configuration

MAX_BYTES = 1 << 20
MOST_FAULTS = 10
LONGEST_VALUE = 100


class ConfigError(Exception):
    """The configuration cannot be used; the message is one line for the person who wrote it."""


def load(path: Path | None) -> Configuration:
    """The configuration in a file, or all defaults without one. Raises ConfigError."""
    if path is None:
        return Configuration()
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    if len(text) > MAX_BYTES:
        raise ConfigError(f"{path}: is larger than {MAX_BYTES} bytes")
    return parse(text, str(path))


class _Loader(yaml.SafeLoader):
    """Refuses a key that is there twice, of which PyYAML would take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [(key.tag, key.value) for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for index, (_, name) in enumerate(keys):
            if keys[index] in keys[:index]:
                raise yaml.constructor.ConstructorError(None, None, f"the key {name!r} is there twice", node.start_mark)
        return super().construct_mapping(node, deep)


def parse(text: bytes, where: str) -> Configuration:
    """The configuration in a YAML text; ``where`` names it in messages. Raises ConfigError."""
    try:
        data = yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError) as error:
        # ValueError: what looks like a date or a number to YAML, and is none.
        raise ConfigError(f"{where}: is not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise ConfigError(f"{where}: is nested too deep") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{where}: must be a mapping with apiVersion {API_VERSION} and kind Configuration")
    for key in ("apiVersion", "kind"):
        if key not in data:
            raise ConfigError(f"{where}: {key} is missing; it must be {Configuration().model_dump(by_alias=True)[key]}")
    try:
        return Configuration.model_validate(data)
    except ValidationError as error:
        raise ConfigError(f"{where}: {describe(error)}") from error


def with_gates(config: Configuration, text: str) -> Configuration:
    """The configuration with the gates of ``--feature-gates name=true,name=false`` over its own. Raises ConfigError."""
    gates = dict(config.feature_gates)
    for part in filter(None, (item.strip() for item in text.split(","))):
        name, _, value = part.partition("=")
        if value not in ("true", "false"):
            raise ConfigError(f"--feature-gates {part}: must be NAME=true or NAME=false")
        gates[name] = value == "true"
    unknown = sorted(set(gates) - set(FEATURE_GATES))
    if unknown:
        raise ConfigError(f"--feature-gates {unknown[0]}: unknown gate; known are {', '.join(sorted(FEATURE_GATES))}")
    return config.model_copy(update={"feature_gates": gates})


def describe(error: ValidationError) -> str:
    """All faults of a validation as one line: ``path: rule (value)`` each, separated by semicolons."""
    lines = []
    faults = error.errors(include_url=False)
    for fault in faults[:MOST_FAULTS]:
        path = ".".join(str(part) for part in fault["loc"])
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            lines.append(f"{path}: unknown field")
        elif isinstance(fault["input"], str | int | float | bool):
            shown = repr(fault["input"])
            shown = shown if len(shown) <= LONGEST_VALUE else f"{shown[:LONGEST_VALUE]}..."
            lines.append(f"{path}: {message}, got {shown}")
        else:
            lines.append(f"{path}: {message}" if path else message)
    if len(faults) > MOST_FAULTS:
        lines.append(f"and {len(faults) - MOST_FAULTS} more")
    return "; ".join(lines)
