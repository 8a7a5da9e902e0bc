# SPDX-License-Identifier: Apache-2.0
"""The API kinds that trainsnap talks to, as a static table.

Discovery is not used: every kind is known beforehand, and a kind that is not installed answers 404 on its first list.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainsnap_api.transport.paths import segment


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of the Kubernetes API and where it is served."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """``group/version``, or the bare version for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def name(self) -> str:
        """``plural.group``, the form that Kubernetes error messages and CRD names use."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of a collection, an object, or a subresource of an object.

        Without a namespace, the collection of a namespaced kind is that of all namespaces. Names are encoded:
        InvalidName for one that no object can have, ValueError for an object of a namespaced kind without a namespace.
        """
        parts = [f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"]
        if namespace is not None and self.namespaced:
            parts.append("namespaces/" + segment(namespace, "namespace"))
        elif name is not None and self.namespaced:
            raise ValueError(f"{self.kind} {name!r} is namespaced: a namespace is needed")
        parts.append(self.plural)
        if name is not None:
            parts.append(segment(name))
        if subresource is not None:
            parts.append(segment(subresource, "subresource"))
        return "/".join(parts)

    def object_path(self, namespace: str | None, name: str, subresource: str | None = None) -> str:
        """The same for one object: TypeError without a name, since a request for one object must never reach all."""
        if not isinstance(name, str):
            raise TypeError(f"the name of a {self.kind} is needed: a text, not {type(name).__name__}")
        return self.path(namespace, name, subresource)


_TRAINER = ("trainer.kubeflow.org", "v1alpha1")
TRAIN_JOB = Resource(*_TRAINER, "TrainJob", "trainjobs")
TRAINING_RUNTIME = Resource(*_TRAINER, "TrainingRuntime", "trainingruntimes")
CLUSTER_TRAINING_RUNTIME = Resource(*_TRAINER, "ClusterTrainingRuntime", "clustertrainingruntimes", namespaced=False)
TRAINING_RUNTIME_SNAPSHOT = Resource(*_TRAINER, "TrainingRuntimeSnapshot", "trainingruntimesnapshots")
JOB_SET = Resource("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")
COSCHEDULING_POD_GROUP = Resource("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups")
VOLCANO_POD_GROUP = Resource("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups")

NAMESPACE = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
CONFIG_MAP = Resource("", "v1", "ConfigMap", "configmaps")
SECRET = Resource("", "v1", "Secret", "secrets")
SERVICE = Resource("", "v1", "Service", "services")
SERVICE_ACCOUNT = Resource("", "v1", "ServiceAccount", "serviceaccounts")
LIMIT_RANGE = Resource("", "v1", "LimitRange", "limitranges")
POD = Resource("", "v1", "Pod", "pods")
NODE = Resource("", "v1", "Node", "nodes", namespaced=False)
JOB = Resource("batch", "v1", "Job", "jobs")
DEPLOYMENT = Resource("apps", "v1", "Deployment", "deployments")
EVENT = Resource("events.k8s.io", "v1", "Event", "events")
LEASE = Resource("coordination.k8s.io", "v1", "Lease", "leases")
RUNTIME_CLASS = Resource("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", namespaced=False)
PRIORITY_CLASS = Resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False)
CUSTOM_RESOURCE_DEFINITION = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
_RBAC = ("rbac.authorization.k8s.io", "v1")
CLUSTER_ROLE = Resource(*_RBAC, "ClusterRole", "clusterroles", namespaced=False)
CLUSTER_ROLE_BINDING = Resource(*_RBAC, "ClusterRoleBinding", "clusterrolebindings", namespaced=False)
ROLE = Resource(*_RBAC, "Role", "roles")
ROLE_BINDING = Resource(*_RBAC, "RoleBinding", "rolebindings")
_ADMISSION = ("admissionregistration.k8s.io", "v1")
VALIDATING_ADMISSION_POLICY = Resource(
    *_ADMISSION, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False
)
VALIDATING_ADMISSION_POLICY_BINDING = Resource(
    *_ADMISSION, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", namespaced=False
)
VALIDATING_WEBHOOK_CONFIGURATION = Resource(
    *_ADMISSION, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", namespaced=False
)
MUTATING_WEBHOOK_CONFIGURATION = Resource(
    *_ADMISSION, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", namespaced=False
)

ALL: tuple[Resource, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Resource))


def by_kind(api_version: str, kind: str) -> Resource | None:
    """The table's entry for an object's ``apiVersion`` and ``kind``; None for a kind that is not in the table."""
    return next((r for r in ALL if r.api_version == api_version and r.kind == kind), None)
