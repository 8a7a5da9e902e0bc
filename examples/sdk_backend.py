#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small backend of an SDK on trainsnap_api: train, list, get, wait, suspend, resume, delete.

Shows what an SDK author writes on top of the client, which is little. Used as a library, or from a terminal::

    examples/sdk_backend.py train --name bert --image acme/bert:1 --nodes 2 torch-distributed python train.py --lr 0.1
    examples/sdk_backend.py list

Needs ``pip install 'trainsnap[client,validation]'`` and a kubeconfig (``--kubeconfig``, $KUBECONFIG, ~/.kube/config).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self, get_args

from trainsnap_api import Client, NotFound, TrainJob, TransportError, ValidationFailed, validate
from trainsnap_api.client import EffectiveRuntime, Progress, State, state_of
from trainsnap_api.models import EnvVar, ObjectMeta, ResourceRequirements, RuntimeRef, Trainer, TrainJobSpec


@dataclass(frozen=True, slots=True)
class Job:
    """What users of the SDK see of a job."""

    name: str
    state: State
    runtime: str
    runtime_origin: str
    image: str | None


class Backend:
    """Jobs in one namespace. Every method raises TransportError with the server's words."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def train(
        self,
        name: str,
        runtime: str,
        *,
        runtime_kind: str | None = None,
        image: str | None = None,
        command: Sequence[str] = (),
        nodes: int | None = None,
        env: Mapping[str, str] | None = None,
        resources: Mapping[str, str | int] | None = None,
    ) -> TrainJob:
        """Starts a job. Raises ValidationFailed, before anything is sent, for what the server would refuse.

        ``runtime_kind`` None: a TrainingRuntime of the namespace when there is one of that name, else a cluster's.
        """
        # What is not given is not set either, so that the runtime decides.
        trainer = Trainer()
        if image is not None:
            trainer.image = image
        if command:
            trainer.command = list(command)
        if nodes is not None:
            trainer.num_nodes = nodes
        if env:
            trainer.env = [EnvVar(name=key, value=value) for key, value in env.items()]
        if resources:
            trainer.resources_per_node = ResourceRequirements(limits=dict(resources))
        job = TrainJob(
            api_version="trainer.kubeflow.org/v1alpha1",
            kind="TrainJob",
            metadata=ObjectMeta(name=name),
            spec=TrainJobSpec(
                runtime_ref=RuntimeRef(name=runtime, kind=runtime_kind or self._kind_of(runtime)), trainer=trainer
            ),
        )
        validate(job).raise_for_problems()
        return self._client.jobs.create(job)

    def list(self) -> Sequence[Job]:
        """All jobs, with what each runs with; a runtime that is gone spoils nothing."""
        return [_job(job, runtime) for job, runtime in self._client.jobs.list_with_runtimes()]

    def get(self, name: str) -> Job:
        """One job."""
        job = self._client.jobs.get(name)
        return _job(job, self._client.jobs.effective_runtime(job))

    def wait(
        self,
        name: str,
        state: State = "Complete",
        *,
        timeout: float | None = None,
        on_progress: Callable[[Progress], object] | None = None,
    ) -> TrainJob:
        """Awaits a state. Raises JobFailed, JobEnded, JobDeleted, WaitTimedOut."""
        return self._client.jobs.wait_for(name, state, timeout=timeout, on_progress=on_progress)

    def suspend(self, name: str) -> None:
        """Pauses a job; it keeps what it was started from."""
        self._client.jobs.suspend(name)

    def resume(self, name: str) -> None:
        """Lets a paused job go on."""
        self._client.jobs.resume(name)

    def delete(self, name: str) -> None:
        """Deletes a job and what was made for it."""
        self._client.jobs.delete(name)

    def close(self) -> None:
        """Closes the connection."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _kind_of(self, runtime: str) -> str:
        try:
            self._client.runtimes.get(runtime)
        except NotFound:
            return "ClusterTrainingRuntime"
        return "TrainingRuntime"


def _job(job: TrainJob, runtime: EffectiveRuntime) -> Job:
    name = (job.metadata.name if job.metadata else None) or ""
    own = job.spec.trainer.image if job.spec and job.spec.trainer else None
    return Job(name, state_of(job), f"{runtime.kind}/{runtime.name}", runtime.origin, own or _image(runtime))


def _image(runtime: EffectiveRuntime) -> str | None:
    """The image of the runtime's container ``node``."""
    template = runtime.spec.template.spec if runtime.spec and runtime.spec.template else None
    for replicated in (template.replicated_jobs if template else None) or ():
        job = replicated.template.spec if replicated.template else None
        pod = job.template.spec if job and job.template else None
        for container in (pod.containers if pod else None) or ():
            if container.name == "node":
                return container.image
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. Exit code 0: done; 1: refused, with one line on standard error."""
    options = _parser().parse_args(arguments)
    try:
        with Backend(Client.connect(kubeconfig=options.kubeconfig, namespace=options.namespace)) as backend:
            _run(backend, options)
    except (TransportError, ValidationFailed) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def _run(backend: Backend, options: argparse.Namespace) -> None:
    match options.action:
        case "train":
            job = backend.train(
                options.name, options.runtime, image=options.image, nodes=options.nodes, command=options.command
            )
            print(job)
        case "list":
            for item in backend.list():
                print(item.name, item.state, item.runtime, item.runtime_origin, item.image or "-", sep="\t")
        case "get":
            print(backend.get(options.name))
        case "wait":
            print(backend.wait(options.name, options.state, timeout=options.timeout, on_progress=print))
        case "suspend" | "resume" | "delete":
            getattr(backend, options.action)(options.name)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Runs and watches TrainJobs.")
    parser.add_argument("--kubeconfig")
    parser.add_argument("--namespace")
    actions = parser.add_subparsers(dest="action", required=True)
    train = actions.add_parser("train")
    train.add_argument("runtime")
    train.add_argument("--name", required=True)
    train.add_argument("--image")
    train.add_argument("--nodes", type=int)
    # Whatever follows the runtime is the job's, dashes included.
    train.add_argument("command", nargs=argparse.REMAINDER)
    actions.add_parser("list")
    for name in ("get", "suspend", "resume", "delete"):
        actions.add_parser(name).add_argument("name")
    wait = actions.add_parser("wait")
    wait.add_argument("name")
    wait.add_argument("--state", default="Complete", choices=get_args(State))
    wait.add_argument("--timeout", type=float)
    return parser


if __name__ == "__main__":
    sys.exit(main())
