# SPDX-License-Identifier: Apache-2.0
"""The controllers of the process, and the leader election that lets them work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final

from trainsnap_api.transport import Resource
from trainsnap_api.transport.resources import TRAIN_JOB, TRAINING_RUNTIME_SNAPSHOT
from trainsnap_controller import constants as c
from trainsnap_controller.cache import Key
from trainsnap_controller.manager import Controller, LeaderElector, LeaseTimes, Manager
from trainsnap_controller.manager.manager import Group, Part
from trainsnap_controller.migration.adopt import Legacy, Mode
from trainsnap_controller.migration.state import LegacyBefore
from trainsnap_controller.observe.events import EventRecorder
from trainsnap_controller.operator.process import Process, Running
from trainsnap_controller.queue import Result, WorkQueue
from trainsnap_controller.reconcile import runtimes, sources
from trainsnap_controller.reconcile.act import Writer
from trainsnap_controller.reconcile.gather import LastWords, Reader
from trainsnap_controller.reconcile.report import Reporter
from trainsnap_controller.reconcile.runtimes import RuntimeReconciler
from trainsnap_controller.reconcile.trainjob import TrainJobReconciler
from trainsnap_controller.snapshot.capture import Snapshots
from trainsnap_controller.snapshot.reads import SharedReads

JSON = dict[str, Any]

WORKERS: Final = 5
"""Reconciles of TrainJobs at once, unless the configuration says otherwise; the reference ships this number."""


def add_leader(manager: Manager, process: Process) -> Callable[[], bool]:
    """Leader election when it is on. Returns what says whether this process may write at this moment."""
    election = process.config.leader_election
    if election is None or not election.leader_elect:
        return lambda: True
    elector = LeaderElector(
        process.api,
        namespace=election.resource_namespace or process.namespace,
        name=election.resource_name,
        identity=process.identity,
        times=LeaseTimes(
            lease_duration=election.lease_duration,
            renew_deadline=election.renew_deadline,
            retry_period=election.retry_period,
        ),
        metrics=process.metrics.leader(),
    )
    manager.add_leader(elector)
    return elector.may_write


def add_train_jobs(running: Running, process: Process) -> WorkQueue[Key]:
    """The controller of TrainJobs. Returns its queue, for other reasons to look at a job."""
    name = "trainjob_controller"
    queue = WorkQueue[Key](name, metrics=process.metrics.queue(name))
    last_words = LastWords()
    watches = process.framework.watches()
    wanted = [watch for watch in watches if watch.requires is None or watch.requires in process.installed]
    sources.observe(running.cache, last_words, wanted)
    reader = Reader(running, last_words, process.api.get)
    reporter = Reporter(_add_events(running.manager, process))
    reconciler = TrainJobReconciler(
        reader=reader,
        snapshots=_snapshots(running, process, reader, reporter),
        framework=process.framework,
        writer=Writer(process.api, running.remember, reporter.kept),
        recorder=reporter,
        now=_now,
        wake=queue.add_after,
    )
    _add_controller(
        running,
        process,
        queue,
        reconciler.reconcile,
        TRAIN_JOB,
        workers=WORKERS,
        connect=lambda: sources.connect(running.cache, queue, wanted),
    )
    return queue


def _add_events(manager: Manager, process: Process) -> EventRecorder:
    events = EventRecorder(process.api, instance=process.identity, counted=process.metrics.recorder())
    manager.add(Group.SERVICES, Part("events", events.run, stop=events.stop))
    return events


def _snapshots(running: Running, process: Process, reader: Reader, reporter: Reporter) -> Snapshots:
    """Where jobs get their snapshots from: the live runtime, or what an older operator left."""
    before = LegacyBefore(process.api, process.namespace)
    running.manager.add(Group.SERVICES, Part("legacyBefore", before.run))
    settings = process.config.snapshots
    return Snapshots(
        process.api,
        reader.snapshot,
        lambda snapshot: running.remember(TRAINING_RUNTIME_SNAPSHOT, snapshot),
        _now,
        opaque_kinds=process.opaque_kinds,
        keep_annotations=settings.keep_annotations,
        runtimes=SharedReads(process.api),
        legacy=Legacy(process.api, before.moment, reporter.legacy_ignored, Mode(settings.legacy_snapshots)),
    )


def add_runtimes(running: Running, process: Process, resource: Resource) -> None:
    """The controller of one kind of runtime."""
    name = f"{resource.kind.lower()}_controller"
    queue = WorkQueue[Key](name, metrics=process.metrics.queue(name))
    informer = running.cache.informer(resource)

    def cached(key: Key) -> JSON | None:
        entry = informer.store.get(*key)
        return None if entry is None else entry.object()

    reconciler = RuntimeReconciler(resource, cached, process.api)
    _add_controller(
        running,
        process,
        queue,
        reconciler.reconcile,
        resource,
        workers=1,
        connect=lambda: runtimes.connect(informer, queue),
    )


def _add_controller(
    running: Running,
    process: Process,
    queue: WorkQueue[Key],
    reconcile: Callable[[Key], Awaitable[Result]],
    resource: Resource,
    *,
    workers: int,
    connect: Callable[[], None],
) -> None:
    """A controller of the queue's name. ``workers`` unless the configuration says otherwise."""
    running.manager.add_controller(
        Controller(
            queue.name,
            queue,
            reconcile,
            process.config.workers(f"{resource.kind}.{c.GROUP}", workers),
            connect=connect,
            allowed=running.allowed,
            metrics=process.metrics.controller(queue.name),
            tracing=process.tracing,
        )
    )


def _now() -> datetime:
    return datetime.now(UTC)
