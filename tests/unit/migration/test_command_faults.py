# SPDX-License-Identifier: Apache-2.0
"""What one run of the command does about answers that do not come: whose problem they are, and what the report says."""

from __future__ import annotations

import io
import json
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from trainsnap_api.transport import (
    Disconnected,
    Forbidden,
    KindNotServed,
    NotFound,
    RawPage,
    Resource,
    TransportError,
)
from trainsnap_controller.migration.act import remove
from trainsnap_controller.migration.command import Migration, MigrationError, Operation, Options
from trainsnap_controller.migration.decide import Result, Step
from trainsnap_controller.migration.report import Format, Progress, report

pytestmark = pytest.mark.anyio

JSON = dict[str, Any]
NAMES = [f"job-{number:02}" for number in range(40)]


class Api:
    """Jobs without anything else. ``failing`` says which job's ConfigMap gives which error."""

    def __init__(self, failing: dict[str, TransportError], *, lease: TransportError | None = None) -> None:
        self.failing, self.lease = failing, lease
        self.written: list[str] = []

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> JSON:
        if resource.kind == "Namespace":
            return {"metadata": {"uid": "cluster-1"}}
        if resource.kind == "Lease" and self.lease is not None:
            raise self.lease
        if resource.kind == "TrainingRuntime":
            return {}
        error = self.failing.get(name.removesuffix("-runtime-snapshot")) if resource.kind == "ConfigMap" else None
        raise error or NotFound(name, status=404)

    async def create(self, resource: Resource, obj: JSON, **options: Any) -> JSON:
        self.written.append(f"create {resource.kind}")
        return obj

    async def pages(
        self, resource: Resource, namespace: str | None = None, *, page_size: int, on_restart: Any
    ) -> AsyncIterator[RawPage]:
        if resource.kind != "TrainJob":
            raise Forbidden("no", status=403)
        reference = {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": "rt"}
        meta = {"namespace": "ns", "creationTimestamp": "2026-01-01T00:00:00Z"}
        jobs = [{"metadata": {**meta, "name": n, "uid": n}, "spec": {"runtimeRef": reference}} for n in NAMES]
        yield RawPage([msgspec.Raw(msgspec.json.encode(job)) for job in jobs], "1", None)


def migration(
    api: Any, out: io.StringIO, kind: Format = Format.JSON, *, parallel: int = 4, **options: Any
) -> Migration:
    return Migration(
        caller=api,
        operator=None,
        options=Options(parallel=parallel, **options),
        report=report(kind, out, everything=True),
        progress=Progress(io.StringIO(), time.monotonic, quiet=True),
    )


async def test_one_answer_that_does_not_come_is_a_problem_of_one_job() -> None:
    out = io.StringIO()
    api = Api({"job-07": Disconnected("no answer in time"), "job-30": Disconnected("reset")})
    assert await migration(api, out).run(Operation.PLAN) == 1
    rows = {row["name"]: row for row in json.loads(out.getvalue())["jobs"]}
    assert [*rows] == NAMES
    assert {name for name, row in rows.items() if row["result"] == "problem"} == {"job-07", "job-30"}
    assert rows["job-07"]["detail"] == "no answer in time; run it again"


@pytest.mark.parametrize("kind", [Format.JSON, Format.HTML, Format.TABLE])
async def test_a_server_that_is_gone_ends_the_run_and_the_report_says_so(kind: Format) -> None:
    out = io.StringIO()
    api = Api({name: Disconnected("the server is gone") for name in NAMES[5:]})
    with pytest.raises(Disconnected):
        await migration(api, out, kind).run(Operation.PLAN)
    text = out.getvalue()
    assert "broken off: the server is gone" in text
    if kind is Format.JSON:
        assert [row["name"] for row in json.loads(text)["jobs"]][:5] == NAMES[:5]
    if kind is Format.HTML:
        assert text.endswith("</body></html>\n")


async def test_what_is_no_answer_about_a_configmap_is_not_its_absence() -> None:
    """Something in front of the API server answers 404 to everything, say: the live runtime is no substitute."""
    out = io.StringIO()
    await migration(Api({"job-07": KindNotServed("the server does not serve /x", status=404)}), out).run(Operation.PLAN)
    rows = {row["name"]: row["result"] for row in json.loads(out.getvalue())["jobs"]}
    assert (rows["job-06"], rows["job-07"]) == ("todo", "problem")


async def test_who_may_not_look_for_the_reference_plans_and_does_not_finalize() -> None:
    api = Api({}, lease=Forbidden("leases is forbidden", status=403))
    out = io.StringIO()
    assert await migration(api, out).run(Operation.PLAN) == 0
    assert "may still be running: you may not look: leases is forbidden" in " ".join(
        json.loads(out.getvalue())["facts"]
    )
    with pytest.raises(MigrationError, match="may still need the ConfigMaps"):
        await migration(api, io.StringIO()).run(Operation.FINALIZE)


async def test_the_moment_is_moved_once_the_journal_is_open(tmp_path: Path) -> None:
    api, journal, moment = Api({}), tmp_path / "j", datetime(2026, 1, 5, tzinfo=UTC)
    await migration(api, io.StringIO(), journal=journal, legacy_before=moment).run(Operation.APPLY)
    assert api.written == ["create ConfigMap"]
    assert [json.loads(line)["event"] for line in journal.read_text().splitlines()][:2] == ["opened", "begun"]
    journal.write_text('{"event":"opened","cluster":"another"}\n')
    api.written.clear()
    for operation in (Operation.APPLY, Operation.STATUS):
        with pytest.raises(Exception, match="is of another cluster"):
            await migration(api, io.StringIO(), journal=journal, legacy_before=moment).run(operation)
    assert api.written == []


async def test_the_journal_and_the_report_use_the_same_words(tmp_path: Path) -> None:
    out, journal = io.StringIO(), tmp_path / "j"
    await migration(Api({"job-07": Disconnected("reset")}), out, journal=journal).run(Operation.ROLLBACK)
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    words = {line["result"] for line in lines if line["event"] == "job"}
    sums = json.loads(out.getvalue())["sums"]
    (ended,) = (line for line in lines if line["event"] == "ended")
    assert {**ended["sums"], "jobs": 40} == sums
    assert words <= sums.keys()


async def test_a_deletion_that_nobody_answered_is_not_done() -> None:
    """A 404 that is not about the object: the ConfigMap is still there."""

    class Elsewhere:
        async def delete(self, *args: Any, **options: Any) -> None:
            raise KindNotServed("the server does not serve /x", status=404)

    metadata = {"name": "job-runtime-snapshot", "namespace": "ns", "uid": "c1", "resourceVersion": "7"}
    with pytest.raises(KindNotServed):
        await remove(Elsewhere(), Step(Result.DONE, "verified"), {"metadata": metadata}, dry_run=False)


async def test_one_job_at_a_time_is_no_reason_to_give_up_at_the_first_one_without_an_answer() -> None:
    out = io.StringIO()
    api = Api({"job-07": Disconnected("reset")})
    assert await migration(api, out, parallel=1).run(Operation.PLAN) == 1
    assert len(json.loads(out.getvalue())["jobs"]) == len(NAMES)
