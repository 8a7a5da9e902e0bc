# SPDX-License-Identifier: Apache-2.0
"""The objects that are put into a fresh plane: CRDs, identities and roles of the controllers, JobSet's webhooks, nodes.

JobSet's own come from the `config/` folder of its module and are rendered here as its kustomization would (name prefix,
namespace, the two webhook patches); everything else is written here. Pure functions from files to objects; bootstrap.py
applies them.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

JSON = dict[str, Any]

JOBSET_NAMESPACE = "jobset-system"
JOBSET_ACCOUNT = "jobset-controller-manager"
KWOK_NAMESPACE = "kwok-system"
KWOK_ACCOUNT = "kwok"
_PREFIX = "jobset-"
_ROOT = Path(__file__).resolve().parents[2]
_STAGES = Path(__file__).parent / "stages"


def _load(path: Path) -> list[JSON]:
    return [doc for doc in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader) if doc]


def crds(modules: Path) -> list[JSON]:
    """JobSet's CRD and both PodGroup CRDs. Volcano publishes its CRD in no Go module, hence the stand-in of the test
    data.
    """
    return [
        *_load(modules / "jobset/crd/bases/jobset.x-k8s.io_jobsets.yaml"),
        *_load(modules / "scheduler-plugins/scheduling.x-k8s.io_podgroups.yaml"),
        *_load(_ROOT / "tests/golden/crds/volcano-podgroups.yaml"),
    ]


def jobset_identity(modules: Path) -> list[JSON]:
    """Namespace, ServiceAccount and roles of the JobSet controller, as its kustomization names them.

    Left out, because the plane neither manages certificates in the cluster nor serves metrics: the roles for Secrets
    and for the metrics proxy.
    """
    folder = modules / "jobset/rbac"
    names = ("service_account", "role", "role_binding", "leader_election_role", "leader_election_role_binding")
    objects = [_namespace(JOBSET_NAMESPACE)]
    objects += [_prefixed(obj) for name in names for obj in _load(folder / f"{name}.yaml")]
    return objects


def jobset_webhooks(modules: Path, *, port: int, ca_bundle: str) -> list[JSON]:
    """JobSet's two webhook configurations, pointed at its process on this machine instead of a Service."""
    folder = modules / "jobset/webhook"
    objects = _load(folder / "manifests.yaml")
    patches = {
        "MutatingWebhookConfiguration": folder / "patches/mutating-patch.yaml",
        "ValidatingWebhookConfiguration": folder / "patches/validating-patch.yaml",
    }
    for obj in objects:
        obj["metadata"]["name"] = _PREFIX + obj["metadata"]["name"]
        for patch in yaml.safe_load(patches[obj["kind"]].read_text()):
            if patch["op"] != "replace" or not patch["path"].startswith("/webhooks/"):
                raise ValueError(
                    f"JobSet's webhook patch has a form that is not known here: {patch['op']} {patch['path']}"
                )
            obj["webhooks"][int(patch["path"].rpartition("/")[2])] = patch["value"]
        for webhook in obj["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": ca_bundle}
    return objects


def jobset_config(*, webhook_port: int, health_port: int, certificates: Path) -> JSON:
    """The JobSet controller's configuration file. `certificates` holds tls.crt and tls.key."""
    return {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"host": "127.0.0.1", "port": webhook_port, "certDir": str(certificates)},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health_port}"},
        "metrics": {"bindAddress": "0"},
    }


def kwok_identity() -> list[JSON]:
    """What kwok needs to play kubelet for its nodes with stages from a file, and nothing more."""
    rules = [
        _rule([""], ["nodes"], ["get", "list", "watch"]),
        _rule([""], ["nodes/status", "pods/status"], ["patch", "update"]),
        _rule([""], ["pods"], ["get", "list", "watch", "patch", "update", "delete"]),
        _rule(["coordination.k8s.io"], ["leases"], ["get", "list", "watch", "create", "patch", "update"]),
        _rule([""], ["events"], ["create", "patch", "update"]),
    ]
    return [
        _namespace(KWOK_NAMESPACE),
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": KWOK_ACCOUNT, "namespace": KWOK_NAMESPACE},
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "plane-kwok"},
            "rules": rules,
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "plane-kwok"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "plane-kwok"},
            "subjects": [{"kind": "ServiceAccount", "name": KWOK_ACCOUNT, "namespace": KWOK_NAMESPACE}],
        },
    ]


def kwok_stages() -> str:
    """Our stages as one file for kwok."""
    return "\n---\n".join(path.read_text().strip() for path in sorted(_STAGES.glob("*.yaml"))) + "\n"


def nodes(*, plain: int = 2, gpu: int = 2, gpus_each: int = 8) -> list[JSON]:
    """Nodes that exist on paper only: some without, some with GPUs. All of them accept every pod."""
    made = [_node(f"cpu-{number}", {}) for number in range(plain)]
    made += [_node(f"gpu-{number}", {"nvidia.com/gpu": str(gpus_each)}) for number in range(gpu)]
    return made


def _node(name: str, extra: dict[str, str]) -> JSON:
    resources = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "1000", **extra}
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "type": "kwok",
        "plane.trainsnap.dev/accelerator": "gpu" if extra else "none",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "status": {"allocatable": resources, "capacity": copy.copy(resources)},
    }


def _namespace(name: str) -> JSON:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _rule(groups: list[str], resources: list[str], verbs: list[str]) -> JSON:
    return {"apiGroups": groups, "resources": resources, "verbs": verbs}


def _prefixed(obj: JSON) -> JSON:
    """What kustomize's namePrefix and namespace do to the kinds used here."""
    obj["metadata"]["name"] = _PREFIX + obj["metadata"]["name"]
    if obj["kind"] in ("ServiceAccount", "Role", "RoleBinding"):
        obj["metadata"]["namespace"] = JOBSET_NAMESPACE
    if "roleRef" in obj:
        obj["roleRef"]["name"] = _PREFIX + obj["roleRef"]["name"]
    for subject in obj.get("subjects", ()):
        subject["name"] = _PREFIX + subject["name"]
        subject["namespace"] = JOBSET_NAMESPACE
    return obj
