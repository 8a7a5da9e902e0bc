# SPDX-License-Identifier: Apache-2.0
"""Resources: what one pod requests, what ``resourcesPerNode`` changes, and how many GPUs and CPUs a node has.

Pure arithmetic on JSON in normal form; used when the runtime is assembled and by the plugins that count processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trainsnap_controller import constants as c
from trainsnap_controller.runtime.errors import BuildError
from trainsnap_controller.runtime.info import PodSet, RuntimeInfo
from trainsnap_controller.runtime.job import Job
from trainsnap_controller.runtime.quantity import Quantity, QuantityError, largest, total

JSON = dict[str, Any]
Amounts = dict[str, Quantity]

PER_NODE_PATH: Final = "spec.trainer.resourcesPerNode"
_POD_LEVEL: Final = ("cpu", "memory")
_POD_LEVEL_PREFIX: Final = "hugepages-"


def overlaid(container: JSON, per_node: JSON) -> JSON:
    """The container with the job's ``resourcesPerNode`` over its own resources, name by name.

    Claims of both sides stay. Raises ``BuildError`` for a quantity that is none.
    """
    own = container.get("resources") or {}
    resources: JSON = {}
    for kind in ("limits", "requests"):
        wanted = {name: str(amount) for name, amount in _amounts(per_node.get(kind), f"{PER_NODE_PATH}.{kind}").items()}
        if merged := {**(own.get(kind) or {}), **wanted}:
            resources[kind] = merged
    claims = {item["name"]: item for item in [*(own.get("claims") or []), *(per_node.get("claims") or [])]}
    if claims:
        resources["claims"] = list(claims.values())
    return {**container, "resources": resources}


def check(per_node: JSON) -> None:
    """Raises ``BuildError`` for a quantity of ``resourcesPerNode`` that is none, also where nobody would look at it."""
    for kind in ("limits", "requests"):
        _amounts(per_node.get(kind), f"{PER_NODE_PATH}.{kind}")


def of_trainer(job: Job, info: RuntimeInfo) -> JSON:
    """The resources that decide on processes per node: the job's as a whole where given, else the runtime's.

    The runtime's are those of the first container ``node`` in a replicated job that is named ``node`` or stands for
    the trainer.
    """
    if job.trainer is not None and job.trainer.resources is not None:
        return job.trainer.resources
    for pod_set in info.pod_sets:
        if pod_set.name == c.NODE or pod_set.ancestor == c.TRAINER:
            container = pod_set.container(c.NODE)
            if container is not None:
                return container.get("resources") or {}
    return {}


def gpus(resources: JSON) -> int:
    """GPUs of one node: the request if there is one, else the limit, rounded up.

    A GPU is a resource with "gpu" in its name; of several the first by name that is not zero counts.
    """
    for kind in ("requests", "limits"):
        found = _amounts(resources.get(kind), f"{PER_NODE_PATH}.{kind}")
        counts = [found[name].round_up() for name in sorted(found) if "gpu" in name.lower()]
        if positive := [count for count in counts if count > 0]:
            return positive[0]
    return 0


def cpus(resources: JSON) -> int:
    """CPUs of one node: the request unless there is none or it is zero, else the limit, rounded up."""
    for kind in ("requests", "limits"):
        found = _amounts(resources.get(kind), f"{PER_NODE_PATH}.{kind}").get("cpu")
        if found is not None and not found.zero:
            return found.round_up()
    return 0


def pod_requests(pod_set: PodSet) -> Amounts:
    """What one pod of the set requests, by Kubernetes' rule.

    Containers and sidecars together, or what an init container needs beside the sidecars that run before it, whichever
    is more, name by name; requests of the pod itself take the place of that for cpu, memory and huge pages; overhead
    comes on top.
    """
    running: Amounts = total(_requests(item) for item in pod_set.containers)
    peak: Amounts = {}
    sidecars: Amounts = {}
    for item in pod_set.init_containers:
        own = _requests(item)
        if item.get("restartPolicy") == "Always":
            running, sidecars = total([running, own]), total([sidecars, own])
            own = sidecars
        else:
            own = total([own, sidecars])
        peak = _largest(peak, own)
    result = _largest(running, peak)
    for name, amount in _requests(pod_set.pod_spec).items():
        if name in _POD_LEVEL or name.startswith(_POD_LEVEL_PREFIX):
            result[name] = amount
    return total([result, _amounts(pod_set.pod_spec.get("overhead"), "overhead")])


def _requests(holder: JSON) -> Amounts:
    return _amounts((holder.get("resources") or {}).get("requests"), "resources.requests")


def _largest(a: Amounts, b: Amounts) -> Amounts:
    return {**a, **{name: largest(a[name], amount) if name in a else amount for name, amount in b.items()}}


def _amounts(amounts: Mapping[str, Any] | None, path: str) -> Amounts:
    result: Amounts = {}
    for name, value in (amounts or {}).items():
        try:
            result[name] = Quantity.parse(value)
        except QuantityError as error:
            raise BuildError(f"{path}[{name}]", str(error)) from None
    return result
