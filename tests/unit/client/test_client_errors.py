# SPDX-License-Identifier: Apache-2.0
"""Errors of the client survive what process pools and debuggers do to them, and say what the server means."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

from support.objects import train_job
from trainsnap_api import ValidationFailed, validate
from trainsnap_api.client import (
    ApiError,
    BadRequest,
    Cause,
    InternalError,
    Invalid,
    JobDeleted,
    JobEnded,
    JobFailed,
    Progress,
    TransportError,
    UnknownFields,
    WaitTimedOut,
)
from trainsnap_api.client.errors import refused
from trainsnap_api.models import TrainJob

NOT_TYPED = "failed to create typed patch object (ns/a; trainer.kubeflow.org/v1alpha1, Kind=TrainJob): "
PATCH = 'is invalid: patch: Invalid value: "{\\"spec\\": 1}": '


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
@pytest.mark.parametrize("kind", [JobDeleted, JobEnded, JobFailed, WaitTimedOut])
def test_errors_of_waiting_are_copied_and_pickled(
    kind: Callable[[str, Progress], TransportError], again: Callable[[TransportError], TransportError]
) -> None:
    progress = Progress.of(TrainJob.model_validate(train_job("a", "ns")))
    error = kind("it is over", progress)
    error.add_note("seen by a test")
    found = again(error)
    assert type(found) is type(error)
    assert (str(found), found.progress, found.__notes__) == ("it is over", progress, ["seen by a test"])  # type: ignore[attr-defined]


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_what_a_check_found_is_copied_and_pickled(again: Callable[[ValidationFailed], ValidationFailed]) -> None:
    with pytest.raises(ValidationFailed) as failed:
        validate({**train_job("a", "ns"), "spec": {}}).raise_for_problems()
    found = again(failed.value)
    assert (str(found), found.report) == (str(failed.value), failed.value.report)


@pytest.mark.parametrize(
    ("error", "fields", "message"),
    [
        pytest.param(
            BadRequest('TrainJob cannot be handled: strict decoding error: unknown field "spec.a", unknown field "b"'),
            ("spec.a", "b"),
            'TrainJob cannot be handled: strict decoding error: unknown field "spec.a", unknown field "b"',
            id="create",
        ),
        pytest.param(
            Invalid(PATCH + 'strict decoding error: unknown field "spec.a"', causes=(Cause("patch", "R", PATCH),)),
            ("spec.a",),
            'strict decoding error: unknown field "spec.a"',
            id="patch, without the object that the server repeats",
        ),
        pytest.param(
            InternalError(NOT_TYPED + '.spec.jobs[name="a b"].x: field not declared in schema'),
            ('spec.jobs[name="a b"].x',),
            NOT_TYPED + '.spec.jobs[name="a b"].x: field not declared in schema',
            id="apply",
        ),
    ],
)
def test_unknown_fields_by_every_way_to_write(error: ApiError, fields: tuple[str, ...], message: str) -> None:
    found = refused(error)
    assert isinstance(found, UnknownFields)
    assert (found.fields, found.message, found.causes) == (fields, message, ())
    assert (found.status, found.reason) == (error.status, error.reason)


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        ("expected boolean, got &{yes}", "FieldValueTypeInvalid"),
        ('duplicate entries for key [name="A"]', "FieldValueDuplicate"),
    ],
)
def test_an_apply_of_wrong_types_is_invalid_and_not_an_internal_error(problem: str, reason: str) -> None:
    found = refused(InternalError(f"{NOT_TYPED}.spec.trainer.env: {problem}"))
    assert isinstance(found, Invalid)
    assert found.causes == (Cause("spec.trainer.env", reason, problem),)


def test_other_errors_stay_what_they_are() -> None:
    error = InternalError("etcd is gone")
    assert refused(error) is error
