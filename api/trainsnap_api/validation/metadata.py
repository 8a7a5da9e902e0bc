# SPDX-License-Identifier: Apache-2.0
"""Names, labels and annotations of an object, by the rules that Kubernetes has for every kind. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from trainsnap_api.validation.report import Problem

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_WORD = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_ANNOTATIONS = 256 * 1024
_GENERATED = "x" * 5
"""Stands for what the server appends to generateName."""


def name_of(metadata: dict[str, Any]) -> str | None:
    """The name that the object will have, as far as that is known; None without one."""
    if metadata.get("name"):
        return str(metadata["name"])
    prefix = metadata.get("generateName")
    return f"{prefix}{_GENERATED}" if prefix else None


def problems(metadata: Any, *, namespaced: bool) -> Iterator[Problem]:
    """What is wrong with ``metadata``. A namespace that is not given is the caller's to choose."""
    if not isinstance(metadata, dict):
        yield Problem("metadata", "FieldValueTypeInvalid", "must be an object")
        return
    name = name_of(metadata)
    if name is None:
        yield Problem("metadata.name", "FieldValueRequired", "name or generateName is required")
    elif len(name) > 253 or not _SUBDOMAIN.fullmatch(name):
        where = "metadata.name" if metadata.get("name") else "metadata.generateName"
        yield Problem(where, "FieldValueInvalid", f"{name!r} must be lower case letters, digits, '-' and '.'")
    namespace = metadata.get("namespace")
    if namespace and not namespaced:
        yield Problem("metadata.namespace", "FieldValueInvalid", "the kind has no namespace")
    elif namespace and (len(namespace) > 63 or not _LABEL.fullmatch(str(namespace))):
        yield Problem("metadata.namespace", "FieldValueInvalid", f"{namespace!r} must be lower case letters and digits")
    yield from _labels(metadata.get("labels") or {})
    yield from _annotations(metadata.get("annotations") or {})


def _labels(labels: dict[str, Any]) -> Iterator[Problem]:
    for key, value in labels.items():
        if not _qualified(key):
            yield Problem("metadata.labels", "FieldValueInvalid", f"the key {key!r} is not a qualified name")
        if value and (len(str(value)) > 63 or not _WORD.fullmatch(str(value))):
            rule = "must be at most 63 letters, digits, '-', '_' and '.'"
            yield Problem("metadata.labels", "FieldValueInvalid", f"{key}: {value!r} {rule}")


def _annotations(annotations: dict[str, Any]) -> Iterator[Problem]:
    for key in annotations:
        if not _qualified(key.lower()):
            yield Problem("metadata.annotations", "FieldValueInvalid", f"the key {key!r} is not a qualified name")
    if sum(len(k.encode()) + len(str(v).encode()) for k, v in annotations.items()) > _ANNOTATIONS:
        yield Problem("metadata.annotations", "FieldValueTooLong", f"must have at most {_ANNOTATIONS} bytes in all")


def _qualified(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix)):
        return False
    return len(name) <= 63 and _WORD.fullmatch(name) is not None
