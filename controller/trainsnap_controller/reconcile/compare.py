# SPDX-License-Identifier: Apache-2.0
"""Whether a live object already says what is wanted. Pure; decides that nothing is written when nothing changed.

Two things are compared: every wanted field with the live one, and the digest of the document last applied, which
tells a field that is no longer wanted. The live object may hold more: defaults, and what other field managers added.
"""

from __future__ import annotations

from typing import Any, Final

from trainsnap_controller import constants as c
from trainsnap_controller.snapshot.digest import digest

JSON = dict[str, Any]

# Lists that server-side apply merges by key, by field name: entries of other managers may stand in them.
_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "replicatedJobs": ("name",),
    "dependsOn": ("name",),
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "env": ("name",),
    "ports": ("containerPort", "protocol"),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "volumes": ("name",),
    "imagePullSecrets": ("name",),
    "schedulingGates": ("name",),
    "hostAliases": ("ip",),
    "resourceClaims": ("name",),
    "claims": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "ownerReferences": ("uid",),
}
_KEY_DEFAULTS: Final = {"protocol": "TCP"}


def covers(live: Any, wanted: Any, field: str = "") -> bool:
    """Whether ``live`` holds all of ``wanted``: every field, and every list entry in the wanted order."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(
            key in live and covers(live[key], value, key) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        if not isinstance(live, list):
            return False
        if field in _KEYS and len(live) > len(wanted):
            keys = {_key(field, entry) for entry in wanted}
            live = [entry for entry in live if _key(field, entry) in keys]
        return len(live) == len(wanted) and all(covers(one, other) for one, other in zip(live, wanted, strict=True))
    return type(live) is type(wanted) and bool(live == wanted)


def _key(field: str, entry: JSON) -> tuple[Any, ...]:
    return tuple(entry.get(name, _KEY_DEFAULTS.get(name)) for name in _KEYS[field])


FROZEN: Final = "frozen:"
"""Stands before the stamp of a JobSet whose frozen parts were kept, since JobSet refused the wanted document."""


def stamped(document: JSON, *, of: JSON | None = None, mark: str = "") -> JSON:
    """The document with a stamp among its annotations: ``mark``, then the digest of ``of``, by default of itself."""
    metadata = document["metadata"]
    annotations = {**metadata.get("annotations", {}), c.APPLIED_HASH: mark + digest(of or document)}
    return {**document, "metadata": {**metadata, "annotations": annotations}}


def up_to_date(live: JSON, wanted: JSON, *, mark: str = "", document: JSON | None = None) -> bool:
    """Whether applying ``wanted`` (or ``document`` in its stead) would change nothing.

    An object without a stamp was made by the reference: if it says all that is wanted, it is left as it is. That it
    lacks what trainsnap notes on its own objects does not count.
    """
    stamp = (live["metadata"].get("annotations") or {}).get(c.APPLIED_HASH)
    if stamp is None and not mark:
        return covers(live, _without_notes(wanted))
    return stamp == mark + digest(wanted) and covers(live, document or wanted)


def by_reference(live: JSON) -> bool:
    """Whether an object was never applied by trainsnap."""
    return c.APPLIED_HASH not in (live["metadata"].get("annotations") or {})


def _without_notes(document: JSON) -> JSON:
    """The document less the annotations of trainsnap's own."""
    metadata = {key: value for key, value in document["metadata"].items() if key != "annotations"}
    annotations = document["metadata"].get("annotations") or {}
    kept = {key: value for key, value in annotations.items() if not key.startswith(c.PREFIX)}
    return {**document, "metadata": {**metadata, **({"annotations": kept} if kept else {})}}
