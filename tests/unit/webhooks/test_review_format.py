# SPDX-License-Identifier: Apache-2.0
"""AdmissionReviews, decoded and encoded: whatever arrives, there is an answer or one line."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from trainsnap_controller.runtime.errors import FieldError, Kind
from trainsnap_controller.webhooks.review import Answer, Review, ReviewError, decode, encode, refusal

JSON = dict[str, Any]
ENVELOPE: JSON = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
REQUEST: JSON = {
    "uid": "u-1",
    "kind": {"group": "trainer.kubeflow.org", "version": "v1alpha1", "kind": "TrainJob"},
    "operation": "CREATE",
    "object": {"metadata": {"name": "a"}},
}


def body(**request: Any) -> bytes:
    return json.dumps({**ENVELOPE, "request": {**REQUEST, **request}}).encode()


def test_a_question_is_read() -> None:
    old = {"metadata": {"name": "b"}}
    got = decode(body(operation="UPDATE", oldObject=old, dryRun=True))
    assert got == Review("u-1", "TrainJob", "UPDATE", {"metadata": {"name": "a"}}, old, dry_run=True)


def test_an_old_object_counts_on_update_only() -> None:
    assert decode(body(oldObject={"metadata": {}})).old is None
    assert decode(body(oldObject=None)).old is None


def test_a_deletion_needs_no_object() -> None:
    assert decode(body(operation="DELETE", object=None)).obj == {}


MALFORMED = [
    pytest.param(b"", "is not JSON", id="nothing"),
    pytest.param(b"{", "is not JSON", id="cut off"),
    pytest.param(b"\xff\xfe{}", "is not JSON", id="not UTF-8"),
    pytest.param(b"apiVersion: admission.k8s.io/v1", "is not JSON", id="YAML"),
    pytest.param(b'{"a": NaN}', "is not JSON", id="NaN"),
    pytest.param(b'{"a": 1e999}', "is not JSON", id="a number beyond a float"),
    pytest.param(b"[" * 100_000, "is not JSON", id="nested without end"),
    pytest.param(b'{"a":' * 100_000, "is not JSON", id="objects nested without end"),
    pytest.param(b"null", "must be an AdmissionReview object, not NoneType", id="null"),
    pytest.param(b"[]", "must be an AdmissionReview object, not list", id="a list"),
    pytest.param(b"{}", "must be admission.k8s.io/v1 AdmissionReview, not None None", id="nothing in it"),
    pytest.param(
        json.dumps({**ENVELOPE, "apiVersion": "admission.k8s.io/v1beta1"}).encode(), "v1beta1", id="an old version"
    ),
    pytest.param(json.dumps({**ENVELOPE, "kind": "Pod"}).encode(), "'Pod'", id="another kind"),
    pytest.param(json.dumps({**ENVELOPE, "kind": ["x"] * 1000}).encode(), "...", id="a kind that is a long list"),
    pytest.param(json.dumps(ENVELOPE).encode(), "request: must be an object", id="no request"),
    pytest.param(json.dumps({**ENVELOPE, "request": "x"}).encode(), "request: must be an object", id="a text"),
    pytest.param(body(uid=None), "request.uid: must be a text that is not empty", id="no uid"),
    pytest.param(body(uid=""), "request.uid: must be a text that is not empty, not ''", id="an empty uid"),
    pytest.param(body(uid=7), "request.uid", id="a number for a uid"),
    pytest.param(body(kind="TrainJob"), "request.kind.kind", id="a kind without a group"),
    pytest.param(body(operation=None), "request.operation", id="no operation"),
    pytest.param(body(object=None), "request.object: must be an object for CREATE, not None", id="no object"),
    pytest.param(body(object=[1]), "request.object: must be an object for CREATE", id="a list for an object"),
    pytest.param(body(operation="UPDATE"), "request.oldObject: must be an object for UPDATE", id="no old object"),
]


@pytest.mark.parametrize(("data", "want"), MALFORMED)
def test_what_is_malformed_is_one_line(data: bytes, want: str) -> None:
    with pytest.raises(ReviewError) as refused:
        decode(data)
    assert refused.value.status == 400
    assert want in str(refused.value)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 300


def answered(answer: Answer) -> JSON:
    document: JSON = json.loads(encode("u-1", answer))
    assert document["apiVersion"] == "admission.k8s.io/v1" and document["kind"] == "AdmissionReview"
    response: JSON = document["response"]
    return response


def test_an_approval_says_nothing_more() -> None:
    assert answered(Answer()) == {"uid": "u-1", "allowed": True}


def test_a_refusal_is_a_403_with_its_words() -> None:
    want = {"status": "Failure", "code": 403, "reason": "Forbidden", "message": "spec.x: no"}
    assert answered(Answer("spec.x: no")) == {"uid": "u-1", "allowed": False, "status": want}


def test_a_patch_is_encoded_and_only_sent_with_an_approval() -> None:
    patch = [{"op": "add", "path": "/a", "value": 1}]
    got = answered(Answer(patch=patch))
    assert got["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(got["patch"])) == patch
    assert "patch" not in answered(Answer("no", patch=patch))


def test_long_words_are_cut_within_a_character() -> None:
    got = answered(Answer("ü" * 10_000, warnings=["ß" * 5_000]))
    assert len(got["status"]["message"].encode()) <= 8192
    assert len(got["warnings"][0].encode()) <= 1024
    assert got["status"]["message"].startswith("üü")


def test_lone_surrogates_do_not_break_an_answer() -> None:
    assert answered(Answer("bad \ud800 name"))["status"]["message"] == "bad ? name"


A = FieldError("spec.a", 1, "must be 2")
B = FieldError("spec.b", None, "must not be", Kind.FORBIDDEN)


@pytest.mark.parametrize(
    ("problems", "want"),
    [
        pytest.param([], "", id="none"),
        pytest.param([A], "spec.a: Invalid value: 1: must be 2", id="one"),
        pytest.param([A, A], "spec.a: Invalid value: 1: must be 2", id="one, twice"),
        pytest.param([A, B], "[spec.a: Invalid value: 1: must be 2, spec.b: Forbidden: must not be]", id="two"),
        pytest.param(
            [FieldError("spec.c", None, "name it", Kind.REQUIRED)], "spec.c: Required value: name it", id="gap"
        ),
    ],
)
def test_how_rules_are_put_together(problems: list[FieldError], want: str) -> None:
    got = refusal(problems, ["careful"])
    assert (got.message, got.allowed, got.warnings) == (want, not want, ["careful"])
