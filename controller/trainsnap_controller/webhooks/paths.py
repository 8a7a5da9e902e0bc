# SPDX-License-Identifier: Apache-2.0
"""Where the webhooks listen: the reference's paths, so that its configurations fit and ours replace them."""

from __future__ import annotations

from typing import Final

_SUFFIX: Final = "trainer-kubeflow-org-v1alpha1"
MUTATE_TRAIN_JOB: Final = f"/mutate-{_SUFFIX}-trainjob"
VALIDATE_TRAIN_JOB: Final = f"/validate-{_SUFFIX}-trainjob"
VALIDATE_TRAINING_RUNTIME: Final = f"/validate-{_SUFFIX}-trainingruntime"
VALIDATE_CLUSTER_TRAINING_RUNTIME: Final = f"/validate-{_SUFFIX}-clustertrainingruntime"

KINDS: Final = {
    MUTATE_TRAIN_JOB: "TrainJob",
    VALIDATE_TRAIN_JOB: "TrainJob",
    VALIDATE_TRAINING_RUNTIME: "TrainingRuntime",
    VALIDATE_CLUSTER_TRAINING_RUNTIME: "ClusterTrainingRuntime",
}
"""Every path, and the kind that is reviewed there."""
