# SPDX-License-Identifier: Apache-2.0
"""The wire format of admission webhooks: AdmissionReview of ``admission.k8s.io/v1``, in and out.

Called by ``app`` only. What is malformed becomes ``ReviewError``, never anything else; objects inside a review are
left as they are, since the API server has its own schema for them.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from trainsnap_controller.observe.text import truncate

JSON = dict[str, Any]

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"

FORBIDDEN: Final = 403
INTERNAL_ERROR: Final = 500
UNAVAILABLE: Final = 503
_REASONS: Final = {FORBIDDEN: "Forbidden", INTERNAL_ERROR: "InternalError", UNAVAILABLE: "ServiceUnavailable"}

LONGEST_MESSAGE: Final = 8192
"""Bytes. A job can break a rule thousands of times over; nobody reads more than the first page."""
LONGEST_WARNING: Final = 1024
"""Bytes. The API server cuts the warnings of one answer at 4096 altogether."""


class ReviewError(Exception):
    """The request cannot be answered as a review. ``status`` is the HTTP status; the text is one line."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Review:
    """One question. ``obj`` is the object as it would be stored; ``old`` is what is stored now, None on creation."""

    uid: str
    kind: str
    operation: str
    obj: JSON
    old: JSON | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer. Refused when there is a message; ``code`` is the HTTP status that the user's request ends with.

    ``patch`` is a JSON patch (RFC 6902) of an allowed object.
    """

    message: str = ""
    code: int = FORBIDDEN
    warnings: Sequence[str] = ()
    patch: Sequence[JSON] = ()

    @property
    def allowed(self) -> bool:
        """Whether the request may go on."""
        return not self.message


class Problem(Protocol):
    """A broken rule; its text names the path, the value and what would be accepted."""

    def __str__(self) -> str: ...


def refusal(problems: Sequence[Problem], warnings: Sequence[str] = ()) -> Answer:
    """The answer to an object that breaks rules: one is said as it is, several as ``[a, b]``, each once.

    Without any it is an approval.
    """
    texts = list(dict.fromkeys(str(problem) for problem in problems))
    message = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""
    return Answer(message=message, warnings=warnings)


def decode(body: bytes) -> Review:
    """The question in a request's body. Raises ``ReviewError`` with status 400."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        # RecursionError: nested deeper than any Kubernetes type.
        raise ReviewError(400, f"the body is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ReviewError(400, f"the body must be an {KIND} object, not {type(document).__name__}")
    got = (document.get("apiVersion"), document.get("kind"))
    if got != (API_VERSION, KIND):
        raise ReviewError(400, f"the body must be {API_VERSION} {KIND}, not {_shown(got[0])} {_shown(got[1])}")
    request = document.get("request")
    if not isinstance(request, dict):
        raise ReviewError(400, "request: must be an object")
    return _review(request)


def _review(request: JSON) -> Review:
    kind = request.get("kind")
    kind = kind.get("kind") if isinstance(kind, dict) else None
    operation = request.get("operation")
    for path, value in (("uid", request.get("uid")), ("kind.kind", kind), ("operation", operation)):
        if not isinstance(value, str) or not value:
            raise ReviewError(400, f"request.{path}: must be a text that is not empty, not {_shown(value)}")
    obj, old = request.get("object"), request.get("oldObject")
    wanted = {CREATE: [("object", obj)], UPDATE: [("object", obj), ("oldObject", old)]}
    for path, value in wanted.get(str(operation), []):
        if not isinstance(value, dict):
            raise ReviewError(400, f"request.{path}: must be an object for {operation}, not {_shown(value)}")
    return Review(
        uid=request["uid"],
        kind=str(kind),
        operation=str(operation),
        obj=obj if isinstance(obj, dict) else {},
        old=old if operation == UPDATE and isinstance(old, dict) else None,
        dry_run=request.get("dryRun") is True,
    )


def encode(uid: str, answer: Answer) -> bytes:
    """The body of the response to the review of that uid."""
    response: JSON = {"uid": uid, "allowed": answer.allowed}
    if not answer.allowed:
        response["status"] = {
            "status": "Failure",
            "code": answer.code,
            "reason": _REASONS[answer.code],
            "message": truncate(answer.message, LONGEST_MESSAGE),
        }
    if answer.warnings:
        response["warnings"] = [truncate(text, LONGEST_WARNING) for text in answer.warnings]
    if answer.allowed and answer.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(answer.patch)).decode()
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _shown(value: Any) -> str:
    """A value for a message, on one line and short."""
    return truncate(repr(value), 60, "...")
