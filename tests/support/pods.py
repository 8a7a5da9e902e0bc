# SPDX-License-Identifier: Apache-2.0
"""Pods of TrainJobs on nodes that kwok plays: awaited, and finished by the annotation that the plane's stages follow.

Used by the e2e tests. On a cluster without such nodes those tests are skipped: nothing there runs the images they name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest

from support.cluster import Cluster, eventually
from trainsnap_api.transport.resources import NODE, POD

JSON = dict[str, Any]
FINISH = "plane.trainsnap.dev/finish"
"""Annotation on a pod: ``succeeded`` or ``failed`` ends it as soon as it runs."""
_FAKE_NODE = "kwok.x-k8s.io/node"
_JOB_SET_LABEL = "jobset.sigs.k8s.io/jobset-name"


@dataclass(frozen=True)
class Pods:
    """The pods of one namespace."""

    cluster: Cluster

    @classmethod
    async def on(cls, cluster: Cluster) -> Pods:
        """The pods of a cluster that plays them; skips the test on any other."""
        nodes = (await cluster.api.list(NODE)).items
        if not any(_FAKE_NODE in node["metadata"].get("annotations", {}) for node in nodes):
            pytest.skip("needs nodes whose pods run without an image (kwok)")
        return cls(cluster)

    async def of(self, job: str) -> list[JSON]:
        """The pods of a TrainJob that are there, those on their way out included."""
        found = await self.cluster.api.list(POD, self.cluster.namespace, label_selector=f"{_JOB_SET_LABEL}={job}")
        return found.items

    async def running(self, job: str, count: int = 1) -> list[JSON]:
        """Await that exactly so many pods of a TrainJob exist, and all of them run."""
        return await eventually(
            lambda: self.of(job),
            lambda seen: len(seen) == count and all(pod["status"].get("phase") == "Running" for pod in seen),
            what=f"{count} running pods of {job}",
        )

    async def gone(self, job: str) -> None:
        """Await that a TrainJob has no pod."""
        await eventually(lambda: self.of(job), lambda seen: not seen, what=f"no pod of {job}")

    async def finish(self, job: str, how: Literal["succeeded", "failed"] = "succeeded", *, only: int = 1000) -> None:
        """Let the pods of a TrainJob end, or the first ``only`` of them."""
        for pod in (await self.of(job))[:only]:
            await self.cluster.patch(POD, pod["metadata"]["name"], {"metadata": {"annotations": {FINISH: how}}})


def images(pods: list[JSON]) -> set[str]:
    """The images that pods run."""
    return {container["image"] for pod in pods for container in pod["spec"]["containers"]}
