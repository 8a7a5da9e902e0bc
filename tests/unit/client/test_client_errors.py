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
    JobDeleted,
    JobEnded,
    JobFailed,
    Progress,
    TransportError,
    WaitTimedOut,
)
from trainsnap_api.models import TrainJob


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
