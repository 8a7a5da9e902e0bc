# SPDX-License-Identifier: Apache-2.0
"""Every right the operator needs, with its reason: the one table from which roles and docs are made.

Secrets and ConfigMaps are deliberately without ``list`` and ``watch``: they are read by name only, so neither the
operator's memory nor a stolen token of it reaches what it did not make.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from trainsnap_controller import constants as c

JOBSET_GROUP: Final = "jobset.x-k8s.io"


@dataclass(frozen=True, slots=True)
class Right:
    """One rule of a role. ``names`` narrows it to objects of these names."""

    group: str
    resources: Sequence[str]
    verbs: Sequence[str]
    why: str
    names: Sequence[str] = ()

    def rule(self) -> dict[str, list[str]]:
        """The rule as a Kubernetes ``PolicyRule``."""
        rule = {"apiGroups": [self.group], "resources": list(self.resources), "verbs": list(self.verbs)}
        return {**rule, "resourceNames": list(self.names)} if self.names else rule


READ: Final = ("get", "list", "watch")

CLUSTER: Final = (
    Right(c.GROUP, ["trainjobs"], READ, "the jobs to run"),
    Right(c.GROUP, ["trainjobs/status"], ["patch"], "conditions and counts"),
    Right(
        c.GROUP,
        ["trainjobs/finalizers"],
        ["update"],
        "children carry blockOwnerDeletion, which OwnerReferencesPermissionEnforcement (OpenShift) checks",
    ),
    Right(
        c.GROUP,
        ["trainingruntimes", "clustertrainingruntimes"],
        [*READ, "patch"],
        "the blueprints; patch takes the reference's old finalizer off",
    ),
    Right(c.GROUP, ["trainingruntimesnapshots"], [*READ, "create", "patch", "delete"], "the snapshots"),
    Right(
        JOBSET_GROUP,
        ["jobsets"],
        [*READ, "create", "patch", "delete"],
        "the workload; delete when a job's deadline has passed",
    ),
    *(
        Right(group, ["podgroups"], [*READ, "create", "patch"], "gang scheduling, where its kind is installed")
        for group in ("scheduling.x-k8s.io", "scheduling.volcano.sh")
    ),
    Right("", ["limitranges"], READ, "paused jobs with a PodGroup are looked at again when one changes"),
    Right("node.k8s.io", ["runtimeclasses"], READ, "paused jobs with a PodGroup are looked at again when one changes"),
    Right("scheduling.k8s.io", ["priorityclasses"], ["get"], "a Volcano runtime may name only one that exists"),
    Right(
        "",
        ["secrets", "configmaps"],
        ["get", "create", "patch"],
        "a job's side objects and the webhooks' certificate, by name only",
    ),
    Right("events.k8s.io", ["events"], ["create", "patch"], "what happened, for people"),
    Right(
        "admissionregistration.k8s.io",
        ["validatingwebhookconfigurations"],
        [*READ, "patch"],
        "the authority of the webhooks' certificate is put into it",
        names=[c.VALIDATING_WEBHOOKS],
    ),
    Right(
        "admissionregistration.k8s.io",
        ["mutatingwebhookconfigurations"],
        [*READ, "patch"],
        "the authority of the webhooks' certificate is put into it",
        names=[c.MUTATING_WEBHOOKS],
    ),
    Right("authentication.k8s.io", ["tokenreviews"], ["create"], "who asks for metrics, if metrics.auth is enabled"),
    Right(
        "authorization.k8s.io",
        ["subjectaccessreviews"],
        ["create"],
        "whether they may see them, if metrics.auth is enabled",
    ),
)
"""Rights in every namespace (ClusterRole)."""

OPERATOR_NAMESPACE: Final = (
    Right("coordination.k8s.io", ["leases"], ["create"], "leader election (create cannot be narrowed to a name)"),
    Right("coordination.k8s.io", ["leases"], ["get", "update", "patch"], "leader election", names=[c.LEASE_NAME]),
)
"""Rights in the operator's own namespace only (Role)."""

VIEW: Final = (
    Right(
        c.GROUP, ["trainjobs", "trainingruntimes", "trainingruntimesnapshots"], READ, "see jobs and what they run on"
    ),
)
"""Aggregated into the cluster's ``view``, ``edit`` and ``admin`` roles."""

EDIT: Final = (
    Right(c.GROUP, ["trainjobs"], ["create", "update", "patch", "delete", "deletecollection"], "start and steer jobs"),
)
"""Aggregated into the cluster's ``edit`` and ``admin`` roles."""

CATALOGUE: Final = (Right(c.GROUP, ["clustertrainingruntimes"], READ, "choose a runtime"),)
"""For everybody who is logged in: SDKs list the runtimes on offer."""

BREAK_GLASS: Final = (
    Right(
        c.GROUP, ["trainingruntimesnapshots"], [*READ, "patch", "delete", "break-glass"], "remove a snapshot by hand"
    ),
)
"""Not bound to anybody: for the day on which a snapshot has to be removed by hand."""
