# SPDX-License-Identifier: Apache-2.0
"""Valid objects with one to three things made wrong at random, for comparing local checks with the API server's."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

JSON = dict[str, Any]

WRONG: tuple[Any, ...] = (
    "", "x" * 300, "UPPER case", "-", 0, -1, 2**31, 2**40, 1.5, True, None, [], {}, [1], {"a": 1}, ["node"], "80",
)  # fmt: skip


def trainjob(name: str, namespace: str) -> JSON:
    """A TrainJob with something of every part."""
    patch = {
        "manager": "queue.example.com/m",
        "trainingRuntimeSpec": {
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {
                    "replicatedJobs": [
                        {
                            "name": "node",
                            "template": {
                                "spec": {
                                    "template": {
                                        "spec": {
                                            "nodeSelector": {"a": "b"},
                                            "containers": [{"name": "c", "env": [{"name": "E", "value": "1"}]}],
                                            "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}],
                                            "tolerations": [{"key": "k", "operator": "Exists"}],
                                            "schedulingGates": [{"name": "g"}],
                                        }
                                    }
                                }
                            },
                        }
                    ]
                },
            }
        },
    }
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": namespace, "labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {
            "runtimeRef": {"name": "rt", "kind": "TrainingRuntime", "apiGroup": "trainer.kubeflow.org"},
            "trainer": {
                "image": "i",
                "command": ["a"],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "numNodes": 1,
                "numProcPerNode": 2,
                "resourcesPerNode": {"limits": {"cpu": 1, "memory": "1Gi"}, "claims": [{"name": "c"}]},
            },
            "initializer": {"dataset": {"storageUri": "s3://a/b", "secretRef": {"name": "s"}}, "model": {}},
            "runtimePatches": [patch],
            "suspend": False,
            "activeDeadlineSeconds": 5,
            "managedBy": "trainer.kubeflow.org/trainjob-controller",
        },
    }


def runtime(name: str, namespace: str) -> JSON:
    """A TrainingRuntime with something of every part."""
    container = {
        "name": "node",
        "image": "i",
        "ports": [{"containerPort": 80}, {"containerPort": 81, "protocol": "UDP"}],
        "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        "livenessProbe": {"httpGet": {"port": "http"}, "periodSeconds": 5},
        "resources": {"requests": {"cpu": "500m"}},
    }
    pod = {"containers": [container], "volumes": [{"name": "v", "emptyDir": {}}], "restartPolicy": "Never"}
    job = {
        "name": "node",
        "replicas": 1,
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {"backoffLimit": 3, "template": {"spec": pod}},
        },
    }
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "mlPolicy": {
                "numNodes": 2,
                "torch": {"envInjection": {"targets": [{"jobName": "j", "containerNames": ["a"]}]}},
            },
            "podGroupPolicy": {"coscheduling": {"scheduleTimeoutSeconds": 5}},
            "template": {
                "spec": {
                    "replicatedJobs": [job],
                    "successPolicy": {"operator": "All"},
                    "failurePolicy": {"maxRestarts": 1},
                    "network": {"subdomain": "s"},
                }
            },
        },
    }


def mutate(obj: JSON, random: Random) -> JSON:
    """A copy with one to three changes, each anywhere but in apiVersion, kind and metadata."""
    found = copy.deepcopy(obj)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        _once(found, random)
    return found


def _once(obj: JSON, random: Random) -> None:
    places = [place for place in _places(obj) if place[0] is not obj or place[1] == "spec"]
    if not places:
        return
    holder, key = random.choice(places)
    match random.randrange(6):
        case 0 | 1:
            holder[key] = copy.deepcopy(random.choice(WRONG))
        case 2:
            del holder[key]
        case 3 if isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
        case 3 | 4 if isinstance(holder[key], dict):
            holder[key]["unknownField"] = copy.deepcopy(random.choice(WRONG))
        case _:
            holder[key] = _related(holder[key], random)


def _related(value: Any, random: Random) -> Any:
    """A value of the same type that may be out of its limits."""
    match value:
        case bool():
            return not value
        case int():
            return random.choice((0, -1, 101, 2**31 - 1, 2**31, 2**63 - 1, float(value), value + 0.5, str(value)))
        case str():
            return random.choice(
                ("", value + "\n", value.upper(), value * 400, "OpenMPI", "hard", "2030-01-01T00:00:00Z")
            )
        case list():
            return value * random.choice((0, 2, 20, 140))
        case dict():
            return (
                {}
                if random.random() < 0.5
                else {**value, "jax": {}, "startupPolicy": {"startupPolicyOrder": "InOrder"}}
            )
    return value


def _places(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        own: list[tuple[Any, Any]] = [(value, key) for key in value if key != "metadata"]
    elif isinstance(value, list):
        own = [(value, index) for index in range(len(value))]
    else:
        return []
    return own + [place for holder, key in own for place in _places(holder[key])]
