# SPDX-License-Identifier: Apache-2.0
"""Every wrong object of the corpus on a real API server with the operator: verdict, path, and what kubectl shows."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from support import corpus
from support.corpus import Case, settled
from support.corpus_run import kubectl, refused
from support.operator import Operator
from support.plane import Target, fresh_namespace
from trainsnap_api.transport import Transport
from trainsnap_api.transport import resources as r

pytestmark = [pytest.mark.anyio, pytest.mark.api]

CASES = corpus.cases()
SHOWS = corpus.shows()
TYPED = [case for case in CASES if case.text is not None]
POSTED = [case for case in CASES if case.text is None]
SAMPLE = [case for case in POSTED if case.change is None][::12]
"""Cases that go through kubectl too, to prove that `as_kubectl` words an answer as kubectl does."""


@pytest.fixture(scope="module")
async def corpus_namespace(plane: Target, admin: Transport, operator_process: Operator) -> AsyncIterator[str]:
    """A namespace with the runtimes that the cases name."""
    assert operator_process.running
    with fresh_namespace(plane) as name:
        for runtime in corpus.runtimes(name):
            await admin.create(r.TRAINING_RUNTIME, runtime)
        yield name


def same(shown: str, want: str) -> bool:
    """Whether the same is said; the API server lists the faults of an object in an order of its own."""
    return sorted(shown.splitlines()) == sorted(want.splitlines())


def test_the_corpus_is_large_and_complete() -> None:
    assert len({case.id for case in CASES}) == len(CASES) >= 200
    assert SHOWS.keys() == {case.id for case in CASES}


@pytest.mark.parametrize("case", POSTED, ids=lambda case: case.id)
async def test_a_wrong_object_is_refused(case: Case, admin: Transport, plane: Target, corpus_namespace: str) -> None:
    status, message, shown = await refused(case, admin, corpus_namespace)
    assert status == case.code, message
    assert case.want_path in message
    if plane.plane is not None:
        assert same(settled(shown, corpus_namespace), SHOWS[case.id])


@pytest.mark.parametrize("case", TYPED, ids=lambda case: case.id)
def test_what_yaml_makes_of_it_is_refused(case: Case, plane: Target, corpus_namespace: str) -> None:
    shown = kubectl(case, plane.kubectl, plane.kubeconfig, corpus_namespace)
    assert case.want_path in shown
    if plane.plane is not None:
        assert same(settled(shown, corpus_namespace), SHOWS[case.id])


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.id)
def test_kubectl_shows_it_like_that(case: Case, plane: Target, corpus_namespace: str) -> None:
    shown = kubectl(case, plane.kubectl, plane.kubeconfig, corpus_namespace)
    assert same(settled(shown, corpus_namespace), SHOWS[case.id])
