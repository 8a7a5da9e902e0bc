# SPDX-License-Identifier: Apache-2.0
"""The metadata of an object: its types, names, labels and annotations, by the rules that Kubernetes has for every kind.

Pure. The CRDs say nothing of metadata, so the types are those of the model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from trainsnap_api.base import Model
from trainsnap_api.models import ObjectMeta
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


def problems(metadata: Any, *, namespaced: bool, update: bool = False) -> Iterator[Problem]:
    """What is wrong with ``metadata``. A namespace that is not given is the caller's to choose; in an ``update`` names
    and labels are as they were accepted, or for the server to compare. What is no object at all is the schema's."""
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        return
    wrong = list(_types(metadata))
    yield from wrong
    if not update and not wrong:
        yield from _values(metadata, namespaced)


def _types(metadata: dict[str, Any]) -> Iterator[Problem]:
    try:
        found = ObjectMeta.model_validate(metadata)
    except ValidationError as error:
        for each in error.errors(include_url=False):
            steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in each["loc"] if step != "[key]"]
            message = each["msg"].replace("Input should be", "must be")
            yield Problem("metadata" + "".join(steps), "FieldValueTypeInvalid", message)
        return
    yield from (Problem(path, "FieldUnknown", "is not known") for path in _unknown(found, "metadata"))


def _unknown(obj: Model, path: str) -> Iterator[str]:
    yield from (f"{path}.{key}" for key in obj.model_extra or () if key != "selfLink")  # known, and not used any more
    for name, info in type(obj).model_fields.items():
        value = getattr(obj, name)
        for index, item in enumerate(value if isinstance(value, list) else ()):
            if isinstance(item, Model):
                yield from _unknown(item, f"{path}.{info.alias or name}[{index}]")


def _values(metadata: dict[str, Any], namespaced: bool) -> Iterator[Problem]:
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
