# SPDX-License-Identifier: Apache-2.0
"""Names that are part of the wire contract, each written once.

Labels, annotations and names without ``snapshot`` in them are the reference's, so that either operator can take over
the other's objects. Our own live under ``snapshot.trainer.kubeflow.org/``.
"""

from __future__ import annotations

from typing import Final

GROUP: Final = "trainer.kubeflow.org"
API_VERSION: Final = "trainer.kubeflow.org/v1alpha1"

FIELD_MANAGER: Final = "trainer"
"""The reference's field manager: with another one, take-over and hand-back would leave orphaned fields."""

NO_VERSION: Final = "1"
"""A version that no object ever has: etcd counts from 1, and the first write makes it 2. An apply with it makes an
object that is not there; one that is there has another version (seen with kube-apiserver 1.36: 409)."""

CONTROLLER_NAME: Final = "trainer.kubeflow.org/trainjob-controller"
"""The only value of ``spec.managedBy`` that is reconciled here."""

RESOURCE_IN_USE_FINALIZER: Final = "trainer.kubeflow.org/resource-in-use"
"""Set on runtimes by old releases of the reference; removed when met, never added."""

# Labels and annotations of the reference
ANCESTOR_LABEL: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
SUPPORT_LABEL: Final = "trainer.kubeflow.org/support"
WEBHOOK_VALIDATION_LABEL: Final = "trainer.kubeflow.org/webhook-validation"
FRAMEWORK_LABEL: Final = "trainer.kubeflow.org/framework"

# Ancestor steps: what a replicated job stands for, and the container that the TrainJob's values go to
TRAINER: Final = "trainer"
DATASET_INITIALIZER: Final = "dataset-initializer"
MODEL_INITIALIZER: Final = "model-initializer"
NODE: Final = "node"
LAUNCHER: Final = "launcher"

TRAINER_PORT: Final = 29500
"""Rendezvous port of every framework on the rank-0 pod."""

JOB_COMPLETION_INDEX_FIELD: Final = "metadata.annotations['batch.kubernetes.io/job-completion-index']"

# Our own annotations
PREFIX: Final = "snapshot.trainer.kubeflow.org/"
SNAPSHOT_UID: Final = PREFIX + "uid"
SNAPSHOT_GENERATION: Final = PREFIX + "generation"
SNAPSHOT_DIGEST: Final = PREFIX + "digest"
APPLIED_HASH: Final = PREFIX + "applied"
"""Digest of the document last applied: tells a removed field, which a comparison of wanted with live cannot."""
BREAK_GLASS: Final = PREFIX + "break-glass"
"""On a snapshot: allows its deletion by hand. Setting it needs the verb ``break-glass`` on snapshots."""

# Where the operator lives. Namespace, Lease and webhook names are the reference's: the two never run at once.
NAMESPACE: Final = "kubeflow-system"
LEASE_NAME: Final = "trainer.kubeflow.org"
LEASE_JITTER: Final = 1.2
"""How much longer than the retry period the pause between two tries for the Lease may be; client-go's factor."""
SERVICE_ACCOUNT: Final = "trainsnap"
STATE_NAME: Final = "trainsnap-state"
"""ConfigMap of the operator's namespace that says since when trainsnap runs here."""
VALIDATING_WEBHOOKS: Final = "validator.trainer.kubeflow.org"
MUTATING_WEBHOOKS: Final = "defaulter.trainer.kubeflow.org"
