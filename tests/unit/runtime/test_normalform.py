# SPDX-License-Identifier: Apache-2.0
"""What going through the Kubernetes types leaves of a document."""

from __future__ import annotations

from typing import Any

import pytest

from trainsnap_controller.runtime import normalform
from trainsnap_controller.runtime.errors import BuildError

JSON = dict[str, Any]


def whole(container: JSON | None = None, *, job: JSON | None = None, **pod: Any) -> JSON:
    """The normal form of a spec with one replicated job."""
    spec = {"containers": [{"name": "c", **(container or {})}], **pod}
    item = {"name": "j", "template": {"spec": {"template": {"spec": spec}}}, **(job or {})}
    return normalform.job_set_spec({"replicatedJobs": [item]}, "runtime.spec.template.spec")


def pod_of(spec: JSON) -> JSON:
    pod: JSON = spec["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    return pod


def test_empty_objects_that_are_never_left_out() -> None:
    assert whole() == {
        "replicatedJobs": [
            {
                "name": "j",
                "template": {
                    "metadata": {},
                    "spec": {"template": {"metadata": {}, "spec": {"containers": [{"name": "c", "resources": {}}]}}},
                },
            }
        ]
    }


ZERO: list[tuple[JSON, JSON]] = [
    ({"image": "", "stdin": False, "tty": False, "workingDir": "", "imagePullPolicy": ""}, {}),
    ({"command": [], "args": [], "env": [], "ports": [], "volumeMounts": []}, {}),
    ({"env": [{"name": "A", "value": ""}]}, {"env": [{"name": "A"}]}),
    ({"ports": [{"containerPort": 0, "hostPort": 0, "name": ""}]}, {"ports": [{"containerPort": 0}]}),
    (
        {"volumeMounts": [{"name": "v", "mountPath": "/m", "readOnly": False, "subPath": ""}]},
        {"volumeMounts": [{"name": "v", "mountPath": "/m"}]},
    ),
    (
        {"livenessProbe": {"tcpSocket": {"port": 22, "host": ""}, "periodSeconds": 0}},
        {"livenessProbe": {"tcpSocket": {"port": 22}}},
    ),
    ({"livenessProbe": {"grpc": {"port": 1, "service": ""}}}, {"livenessProbe": {"grpc": {"port": 1, "service": ""}}}),
    ({"securityContext": {}}, {"securityContext": {}}),
    (
        {"securityContext": {"privileged": False, "runAsUser": 0, "capabilities": {"add": []}}},
        {"securityContext": {"privileged": False, "runAsUser": 0, "capabilities": {}}},
    ),
    ({"securityContext": {"seLinuxOptions": {"user": ""}}}, {"securityContext": {"seLinuxOptions": {}}}),
    (
        {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "", "key": "k", "optional": False}}}]},
        {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"key": "k", "optional": False}}}]},
    ),
    (
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "", "fieldPath": "x"}}}]},
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]},
    ),
]


@pytest.mark.parametrize(("given", "want"), ZERO, ids=[str(row[0])[:60] for row in ZERO])
def test_zero_values_in_a_container(given: JSON, want: JSON) -> None:
    assert pod_of(whole(given))["containers"] == [{"name": "c", "resources": {}, **want}]


POD: list[tuple[JSON, JSON | None]] = [
    ({"hostNetwork": False, "nodeName": "", "serviceAccountName": "", "schedulerName": ""}, {}),
    ({"nodeSelector": {}, "tolerations": [], "volumes": []}, {}),
    ({"affinity": {}}, {"affinity": {}}),
    ({"automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0, "priority": 0}, None),
    ({"tolerations": [{"key": "", "operator": "Exists", "value": ""}]}, {"tolerations": [{"operator": "Exists"}]}),
    ({"volumes": [{"name": "v", "emptyDir": {}}]}, None),
    (
        {"volumes": [{"name": "v", "emptyDir": {"medium": "", "sizeLimit": "1024Mi"}}]},
        {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}]},
    ),
    (
        {"volumes": [{"name": "v", "csi": {"driver": "d", "readOnly": False, "volumeAttributes": {}}}]},
        {"volumes": [{"name": "v", "csi": {"driver": "d", "readOnly": False}}]},
    ),
    (
        {"volumes": [{"name": "v", "nfs": {"server": "s", "path": "/", "readOnly": False}}]},
        {"volumes": [{"name": "v", "nfs": {"server": "s", "path": "/"}}]},
    ),
    ({"overhead": {"cpu": "0.25"}}, {"overhead": {"cpu": "250m"}}),
    (
        {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {"volumeName": ""}}}}]},
        {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"metadata": {}, "spec": {"resources": {}}}}}]},
    ),
]


@pytest.mark.parametrize(("given", "want"), POD, ids=[str(row[0])[:60] for row in POD])
def test_zero_values_in_a_pod(given: JSON, want: JSON | None) -> None:
    got = pod_of(whole(None, **given))
    assert {key: value for key, value in got.items() if key != "containers"} == (given if want is None else want)


def test_nulls_vanish_and_int_or_string_stays_what_it_was() -> None:
    probe = {"httpGet": {"port": "80", "path": None}}
    assert pod_of(whole({"livenessProbe": probe, "lifecycle": None}))["containers"][0] == {
        "name": "c",
        "resources": {},
        "livenessProbe": {"httpGet": {"port": "80"}},
    }


def test_quantities_are_canonical_and_the_divisor_is_always_there() -> None:
    resources = {"limits": {"cpu": 4, "memory": "1.5Gi"}, "requests": {}}
    variable = {"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "containerName": ""}}}

    got = pod_of(whole({"resources": resources, "env": [variable]}))["containers"][0]

    assert got["resources"] == {"limits": {"cpu": "4", "memory": "1536Mi"}}
    assert got["env"][0]["valueFrom"] == {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "0"}}


def test_a_helper_job_keeps_its_zero_replicas() -> None:
    """The types would drop it, and the helper that nobody wants would run once."""
    assert whole(job={"replicas": 0})["replicatedJobs"][0]["replicas"] == 0


def test_policies_of_the_job_set() -> None:
    spec = {
        "network": {"subdomain": "", "publishNotReadyAddresses": False},
        "failurePolicy": {"maxRestarts": 0, "restartStrategy": ""},
        "coordinator": {"replicatedJob": "a", "jobIndex": 0, "podIndex": 1},
        "volumeClaimPolicies": [{"templates": [{"metadata": {"name": "x"}}]}],
        "ttlSecondsAfterFinished": 0,
        "replicatedJobs": [],
    }

    assert normalform.job_set_spec(spec, "p") == {
        "network": {"publishNotReadyAddresses": False},
        "failurePolicy": {},
        "coordinator": {"replicatedJob": "a", "podIndex": 1},
        "volumeClaimPolicies": [{"templates": [{"metadata": {"name": "x"}, "spec": {"resources": {}}, "status": {}}]}],
        "ttlSecondsAfterFinished": 0,
    }


def test_a_patch_gains_nothing() -> None:
    patch = {"replicatedJobs": [{"name": "j", "template": {"spec": {"template": {"spec": {"nodeSelector": {}}}}}}]}
    want = {"replicatedJobs": [{"name": "j", "template": {"spec": {"template": {"spec": {}}}}}]}
    assert normalform.patch(patch, "p") == want


def test_the_given_document_is_left_as_it_was() -> None:
    spec = {"replicatedJobs": [{"name": "j", "replicas": 0, "template": {"spec": {"template": {"spec": {}}}}}]}
    before = repr(spec)
    normalform.job_set_spec(spec, "p")
    assert repr(spec) == before


def test_what_is_no_quantity_is_named_with_its_place() -> None:
    with pytest.raises(BuildError) as caught:
        whole({"resources": {"limits": {"cpu": "1e3.5"}}})
    assert str(caught.value) == (
        "runtime.spec.template.spec.replicatedJobs[j].template.spec.template.spec.containers[c].resources.limits[cpu]: "
        "'1e3.5' is not a quantity"
    )


ENV: list[tuple[JSON, JSON]] = [
    ({"name": "A"}, {"name": "A", "value": ""}),
    ({"name": "A", "value": ""}, {"name": "A", "value": ""}),
    ({"name": "A", "value": "1", "valueFrom": {}}, {"name": "A", "valueFrom": {}}),
    (
        {"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "x"}}},
        {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}},
    ),
    (
        {"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {
            "name": "A",
            "valueFrom": {"resourceFieldRef": {"containerName": "", "resource": "limits.cpu", "divisor": "0"}},
        },
    ),
    (
        {"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}},
        {"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}},
    ),
]


@pytest.mark.parametrize(("given", "want"), ENV, ids=[str(row[0])[:60] for row in ENV])
def test_a_jobs_variable_as_it_is_written(given: JSON, want: JSON) -> None:
    assert normalform.env_var(given, "spec.trainer.env[0]") == want
