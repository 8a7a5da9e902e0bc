# SPDX-License-Identifier: Apache-2.0
"""The full plane: pods of a JobSet are scheduled, run, and end when a test says so; every part has its own identity."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from support.plane import Target
from trainsnap_plane import Plane
from trainsnap_plane.api import ApiClient, ApiFailure

pytestmark = pytest.mark.full

JSON = dict[str, Any]
FINISH = "plane.trainsnap.dev/finish"
RUN_FOR = "plane.trainsnap.dev/run-for"
FAIL_AFTER = "plane.trainsnap.dev/fail-after"


class Jobs:
    """JobSets of one replicated job with two pods, in one namespace."""

    def __init__(self, client: ApiClient, namespace: str) -> None:
        self.client = client
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._jobsets = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets"

    def create(self, name: str, annotations: dict[str, str], *, resources: JSON | None = None) -> None:
        container = {"name": "main", "image": "none", "resources": resources or {}}
        pod = {
            "metadata": {"annotations": annotations},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
        job = {"parallelism": 2, "completions": 2, "backoffLimit": 0, "template": pod}
        body = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": name},
            "spec": {"replicatedJobs": [{"name": "node", "template": {"spec": job}}]},
        }
        self.client.request("POST", self._jobsets, body)

    def patch(self, name: str, spec: JSON) -> None:
        kind = "application/merge-patch+json"
        self.client.request("PATCH", f"{self._jobsets}/{name}", {"spec": spec}, content_type=kind)

    def get(self, name: str) -> JSON:
        return self.client.request("GET", f"{self._jobsets}/{name}")

    def state(self, name: str) -> str:
        state: str = self.get(name).get("status", {}).get("terminalState", "")
        return state

    def pods(self, name: str) -> list[JSON]:
        selector = f"jobset.sigs.k8s.io/jobset-name={name}"
        items: list[JSON] = self.client.request("GET", self._pods, labelSelector=selector)["items"]
        return items

    def phases(self, name: str) -> list[str]:
        return [pod["status"]["phase"] for pod in self.pods(name)]

    def finish(self, name: str, how: str) -> None:
        for pod in self.pods(name):
            self.client.request(
                "PATCH",
                f"{self._pods}/{pod['metadata']['name']}",
                {"metadata": {"annotations": {FINISH: how}}},
                content_type="application/merge-patch+json",
            )


@pytest.fixture
def jobs(plane: Target, namespace: str) -> Jobs:
    return Jobs(plane.client(), namespace)


def until(condition: Callable[[], bool], *, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("annotation", "want"), [(RUN_FOR, "Completed"), (FAIL_AFTER, "Failed")], ids=["run-for", "fail-after"]
)
def test_pods_end_after_a_chosen_delay(local_plane: Plane, jobs: Jobs, annotation: str, want: str) -> None:
    began = time.monotonic()
    jobs.create("job", {annotation: "2s"})
    until(lambda: jobs.phases("job") == ["Running", "Running"])
    until(lambda: jobs.state("job") == want)
    assert time.monotonic() - began >= 2


@pytest.mark.parametrize(
    ("how", "want"), [("succeeded", "Completed"), ("failed", "Failed")], ids=["succeeded", "failed"]
)
def test_pods_run_until_annotated(local_plane: Plane, jobs: Jobs, how: str, want: str) -> None:
    jobs.create("job", {})
    until(lambda: jobs.phases("job") == ["Running", "Running"])
    jobs.finish("job", how)
    until(lambda: jobs.state("job") == want)


def test_an_annotation_ends_a_pod_that_has_a_long_delay(local_plane: Plane, jobs: Jobs) -> None:
    jobs.create("job", {RUN_FOR: "1h"})
    until(lambda: jobs.phases("job") == ["Running", "Running"])
    jobs.finish("job", "succeeded")
    until(lambda: jobs.state("job") == "Completed")


def test_gpu_pods_run_on_gpu_nodes(local_plane: Plane, jobs: Jobs) -> None:
    jobs.create("job", {}, resources={"limits": {"nvidia.com/gpu": "8"}})
    until(lambda: jobs.phases("job") == ["Running", "Running"])
    assert sorted(pod["spec"]["nodeName"] for pod in jobs.pods("job")) == ["gpu-0", "gpu-1"]


def test_a_suspended_job_loses_its_pods_at_once_and_gets_new_ones(local_plane: Plane, jobs: Jobs) -> None:
    jobs.create("job", {})
    until(lambda: jobs.phases("job") == ["Running", "Running"])
    before = {pod["metadata"]["uid"] for pod in jobs.pods("job")}
    jobs.patch("job", {"suspend": True})
    until(lambda: jobs.pods("job") == [], seconds=10)
    jobs.patch("job", {"suspend": False})
    until(lambda: jobs.phases("job") == ["Running", "Running"])
    assert not before & {pod["metadata"]["uid"] for pod in jobs.pods("job")}


def test_the_webhooks_of_jobset_are_at_work(local_plane: Plane, jobs: Jobs) -> None:
    jobs.create("job", {})
    template = jobs.get("job")["spec"]["replicatedJobs"][0]["template"]
    assert template["spec"]["completionMode"] == "Indexed", "its default comes from the mutating webhook"
    template["spec"]["template"]["spec"]["containers"][0]["image"] = "other"
    with pytest.raises(ApiFailure, match=r'"vjobset\.kb\.io" denied the request: .*immutable'):
        jobs.patch("job", {"replicatedJobs": [{"name": "node", "template": template}]})


def test_a_paused_controller_does_nothing_until_it_goes_on(local_plane: Plane, jobs: Jobs) -> None:
    jobs.create("before", {})
    until(lambda: jobs.phases("before") == ["Running", "Running"])
    local_plane.pause("kwok")
    try:
        jobs.create("job", {})
        until(lambda: jobs.phases("job") == ["Pending", "Pending"])
    finally:
        local_plane.resume("kwok")
    until(lambda: jobs.phases("job") == ["Running", "Running"])


def test_nobody_lacks_a_right_and_controllers_are_told_apart(local_plane: Plane, jobs: Jobs) -> None:
    jobs.create("job", {RUN_FOR: "0s"})
    until(lambda: jobs.state("job") == "Completed")
    parts = (
        "system:kube-scheduler",
        "system:serviceaccount:kwok-system:kwok",
        "system:serviceaccount:jobset-system:jobset-controller-manager",
        "system:serviceaccount:kube-system:job-controller",
    )
    events = [event for event in local_plane.audit() if event["user"]["username"] in parts]
    assert {event["user"]["username"] for event in events} == set(parts)
    # The last answer counts: an API server that is restarted refuses everybody until it knows the roles again.
    last = {(e["user"]["username"], urlsplit(e["requestURI"]).path): e["responseStatus"].get("code") for e in events}
    refused = [path for (_, path), code in last.items() if code == 403]
    # What a namespace that is being deleted refuses is no lack of rights.
    assert [path for path in refused if "/namespaces/" not in path] == []
