# SPDX-License-Identifier: Apache-2.0
"""What users of the published `kubeflow` SDK do, step by step. Run by the interpreter that has it, not by ours.

Arguments: kubeconfig, namespace, runtime. Prints ``step: result`` after each step; after ``running`` it waits for the
job to complete, which is the test's to bring about.
"""

from __future__ import annotations

import sys


def main(kubeconfig: str, namespace: str, runtime: str) -> None:
    from kubeflow.trainer import (  # type: ignore[import-untyped, import-not-found, unused-ignore]
        CustomTrainerContainer,
        KubernetesBackendConfig,
        TrainerClient,
    )

    client = TrainerClient(backend_config=KubernetesBackendConfig(config_file=kubeconfig, namespace=namespace))
    say("runtimes", sorted(item.name for item in client.list_runtimes()))
    found = client.get_runtime(runtime)
    say("runtime", found.name)
    trainer = CustomTrainerContainer(image="acme/sdk:1", num_nodes=2, env={"A": "1"})
    job = client.train(runtime=found, trainer=trainer)
    say("train", job)
    say("get", client.get_job(job).name == job)
    say("list", [item.name for item in client.list_jobs()] == [job])
    running = client.wait_for_job_status(job, status={"Running"}, timeout=60, polling_interval=1)
    say("running", running.status)
    done = client.wait_for_job_status(job, status={"Complete"}, timeout=60, polling_interval=1)
    say("complete", done.status)
    say("steps", sorted(step.name for step in done.steps))
    client.delete_job(job)
    say("deleted", all(item.name != job for item in client.list_jobs()))


def say(step: str, result: object) -> None:
    print(f"{step}: {result}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
