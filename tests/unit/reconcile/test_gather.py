# SPDX-License-Identifier: Apache-2.0
"""Whose an existing object is, what is remembered of a JobSet that is gone, and what is read from where."""

from __future__ import annotations

from typing import Any

import pytest

from trainsnap_api.transport import NotFound, Resource
from trainsnap_api.transport.resources import CONFIG_MAP, JOB_SET, TRAIN_JOB
from trainsnap_controller.blocked import Blocked
from trainsnap_controller.cache import Key, Store
from trainsnap_controller.reconcile.gather import LastWords, Reader, Workload, foreign
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.runtime.observed import Need
from trainsnap_controller.snapshot.document import controlled_by

pytestmark = pytest.mark.anyio

JSON = dict[str, Any]
JOB = Job.from_json({"metadata": {"name": "j", "namespace": "team", "uid": "u1"}})


def child(owner: JSON | None, name: str = "j") -> JSON:
    """An object of the job's namespace, controlled by somebody."""
    references = [] if owner is None else [owner]
    return {"metadata": {"name": name, "namespace": "team", "resourceVersion": "1", "ownerReferences": references}}


OURS = JOB.owner_reference
EARLIER = {**OURS, "uid": "u0"}


@pytest.mark.parametrize(
    ("owner", "want"),
    [
        pytest.param(OURS, True, id="controlled by this job"),
        pytest.param(EARLIER, False, id="by an earlier job of its name"),
        pytest.param({**OURS, "controller": False}, False, id="owned, but not controlled"),
        pytest.param(None, False, id="by nobody"),
    ],
)
def test_controlled_by(owner: JSON | None, want: bool) -> None:
    assert controlled_by(child(owner), JOB) is want


@pytest.mark.parametrize(
    ("owner", "want"),
    [
        pytest.param(EARLIER, "WaitingForLeftovers", id="a leftover goes away by itself"),
        pytest.param(None, "ChildConflict", id="nobody's object does not"),
        pytest.param({**OURS, "kind": "Deployment", "name": "web"}, "ChildConflict", id="nor does another kind's"),
        pytest.param({**OURS, "name": "other"}, "ChildConflict", id="nor does another job's"),
    ],
)
def test_why_a_foreign_object_is_in_the_way(owner: JSON | None, want: str) -> None:
    problem = foreign(JOB_SET, child(owner), JOB)
    assert problem.reason.name == want
    assert problem.message.startswith("JobSet team/j ")


def test_last_words_count_for_the_job_that_they_are_of() -> None:
    words, key = LastWords(), Key("team", "j")
    words.keep(key, child(OURS))
    assert words.of(JOB) == child(OURS)
    words.keep(key, child(EARLIER))
    assert words.of(JOB) is None
    words.keep(key, child(OURS))
    words.forget(key)
    assert words.of(JOB) is None


class Stores:
    """Only TrainJobs and JobSets are watched."""

    def __init__(self) -> None:
        self.jobs, self.job_sets = Store(TRAIN_JOB), Store(JOB_SET)

    def store(self, resource: Resource) -> Store | None:
        return {TRAIN_JOB: self.jobs, JOB_SET: self.job_sets}.get(resource)


class Server:
    """Answers one read by name."""

    def __init__(self, answer: JSON | None) -> None:
        self.answer, self.asked = answer, 0

    async def get(self, resource: Resource, name: str, namespace: str | None) -> JSON:
        self.asked += 1
        if self.answer is None:
            raise NotFound(f"{resource.plural} {name!r} not found")
        return self.answer


def test_a_jobset_of_the_job_is_its_workload() -> None:
    stores = Stores()
    reader = Reader(stores, LastWords(), Server(None).get)
    assert reader.workload(JOB) == Workload()
    stores.job_sets.observe_write({**child(OURS), "spec": {}})
    own = reader.workload(JOB).own
    assert own is not None
    assert own["metadata"]["name"] == "j"


def test_a_foreign_jobset_is_a_problem_and_its_state_is_not_followed() -> None:
    stores = Stores()
    stores.job_sets.observe_write({**child(None), "spec": {}})
    workload = Reader(stores, LastWords(), Server(None).get).workload(JOB)
    assert workload.last_seen is None
    assert isinstance(workload.problem, Blocked)


NEED = Need(CONFIG_MAP, "team", "j-mpi-hostfile")


async def test_what_is_not_watched_is_read_by_name() -> None:
    server = Server(child(OURS, "j-mpi-hostfile"))
    observed = await Reader(Stores(), LastWords(), server.get).observe(JOB, Workload(), [NEED])
    assert observed.find(*_of(NEED)) == server.answer
    assert server.asked == 1


async def test_what_does_not_exist_is_none() -> None:
    observed = await Reader(Stores(), LastWords(), Server(None).get).observe(JOB, Workload(), [NEED])
    assert observed.find(*_of(NEED)) is None


async def test_a_child_of_somebody_else_blocks_the_job() -> None:
    reader = Reader(Stores(), LastWords(), Server(child(None, "j-mpi-hostfile")).get)
    with pytest.raises(Blocked, match="ConfigMap team/j-mpi-hostfile exists and is controlled by nobody"):
        await reader.observe(JOB, Workload(), [NEED])


async def test_an_object_that_is_only_looked_at_may_be_anybodys() -> None:
    need = Need(CONFIG_MAP, "team", "settings", child=False)
    server = Server(child(None, "settings"))
    observed = await Reader(Stores(), LastWords(), server.get).observe(JOB, Workload(), [need])
    assert observed.find(*_of(need)) == server.answer


def _of(need: Need) -> tuple[Resource, str | None, str]:
    return need.resource, need.namespace, need.name
