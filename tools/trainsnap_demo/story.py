# SPDX-License-Identifier: Apache-2.0
"""What the demo shows: a job keeps the runtime it was started from, whatever an admin does to that runtime.

`play` is called by tools/demo.py with a plane and an operator that run; the tests call it in the same way with theirs.
Every line that a user would type is in here as it is typed.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Final

from .stage import Stage

OLD, NEW = "registry.example/train:v1", "registry.example/train:v2"
MANIFESTS: Final = Path(__file__).resolve().parent / "manifests"
FINISH: Final = "plane.trainsnap.dev/finish=succeeded"
"""The annotation by which a pod of the local plane, where nothing really trains, comes to its end."""
_PODS: Final = "-l jobset.sigs.k8s.io/jobset-name="
_COLUMNS: Final = "-o custom-columns=NAME:.metadata.name,STATUS:.status.phase,'IMAGE:.spec.containers[0].image'"
_READY: Final = "'jsonpath={.status.jobsStatus[0].ready}'"
_IMAGE: Final = "/spec/template/spec/replicatedJobs/0/template/spec/template/spec/containers/0/image"


def play(stage: Stage) -> None:
    """All steps. Raises ClaimFailed at the first claim that does not hold."""
    for manifest in MANIFESTS.glob("*.yaml"):
        shutil.copy(manifest, stage.folder)
    create(stage)
    look_at_snapshots(stage)
    edit_runtime(stage)
    pause_and_resume(stage)
    delete_runtime(stage)
    finish(stage)
    second_job(stage)


def tidy(stage: Stage) -> None:
    """Remove what the steps made, for a cluster that lives on."""
    stage.quietly("kubectl delete trainjobs bert bert-again --ignore-not-found --wait=false")
    stage.quietly("kubectl delete clustertrainingruntime torch-demo --ignore-not-found --wait=false")


def create(stage: Stage) -> None:
    stage.title("A platform admin offers a runtime, an ML engineer starts a job from it")
    stage.run("cat runtime.yaml")
    stage.run("kubectl create -f runtime.yaml")
    stage.run("cat trainjob.yaml")
    stage.run("kubectl create -f trainjob.yaml")
    stage.wait("trainjob/bert", f"{_READY}=1", "the job starts by itself")
    _show_pods(stage, "bert")
    stage.claim(f"two pods run {OLD}, the image of the runtime", _images(stage, "bert"), [OLD, OLD])


def look_at_snapshots(stage: Stage) -> None:
    stage.title("The job has a snapshot of the runtime it was started from")
    table = stage.run("kubectl get trainingruntimesnapshots")
    rows = [line.split()[:5] for line in table.splitlines()[1:]]
    want = ["bert", "ClusterTrainingRuntime", "torch-demo", "1", "Runtime"]
    stage.claim("the table shows the runtime and its generation", rows, [want])
    runtime = stage.look("kubectl get clustertrainingruntime torch-demo -o json")
    snapshot = stage.look("kubectl get trainingruntimesnapshot bert -o json")
    stage.claim("the snapshot holds the runtime's spec, field by field", snapshot["spec"], runtime["spec"])


def edit_runtime(stage: Stage) -> None:
    stage.title("The admin moves the runtime to a new image, while the job runs")
    patch = f'[{{"op": "replace", "path": "{_IMAGE}", "value": "{NEW}"}}]'
    stage.run(f"kubectl patch clustertrainingruntime torch-demo --type=json -p '{patch}'")
    runtime = stage.look("kubectl get clustertrainingruntime torch-demo -o json")
    got = (_image(runtime["spec"]), runtime["metadata"]["generation"])
    stage.claim(f"the runtime is at generation 2, with {NEW}", got, (NEW, 2))
    _claim_snapshot(stage, "bert", OLD)


def pause_and_resume(stage: Stage) -> None:
    stage.title("The engineer pauses the job and resumes it: it still uses its own image")
    stage.run("""kubectl patch trainjob bert --type=merge -p '{"spec": {"suspend": true}}'""")
    stage.wait("trainjob/bert", "condition=Suspended", "the job is paused")
    stage.wait(f"pods {_PODS}bert", "delete", "its pods are gone")
    stage.wait("trainjob/bert", f"{_READY}=0")
    stage.run("kubectl get trainjobs")
    stage.run("""kubectl patch trainjob bert --type=merge -p '{"spec": {"suspend": false}}'""")
    stage.wait("trainjob/bert", f"{_READY}=1", "the job runs again")
    _show_pods(stage, "bert")
    stage.claim(f"its new pods run {OLD}, not {NEW}", _images(stage, "bert"), [OLD, OLD])


def delete_runtime(stage: Stage) -> None:
    stage.title("The admin deletes the runtime: the job does not mind")
    stage.run("kubectl delete clustertrainingruntime torch-demo", "nothing holds the runtime back")
    left = stage.look("kubectl get clustertrainingruntimes -o json")["items"]
    stage.claim("the runtime is gone", [x for x in left if x["metadata"]["name"] == "torch-demo"], [])
    _show_pods(stage, "bert")
    stage.claim(f"two pods run {OLD}", _images(stage, "bert"), [OLD, OLD])
    _claim_snapshot(stage, "bert", OLD)


def finish(stage: Stage) -> None:
    stage.title("The job completes")
    stage.say("(On the local plane pods do not compute; an annotation ends them.)")
    stage.run(f"kubectl annotate pods {_PODS}bert {FINISH}")
    stage.wait("trainjob/bert", "condition=Complete", "the job completes without its runtime")
    stage.run("kubectl get trainjobs")


def second_job(stage: Stage) -> None:
    stage.title("The admin offers the runtime anew: a second job gets the new state, the first keeps its record")
    manifest = stage.folder / "runtime.yaml"
    manifest.with_name("new-runtime.yaml").write_text(manifest.read_text().replace(OLD, NEW))
    stage.run("diff --unified=0 --label runtime.yaml --label new-runtime.yaml runtime.yaml new-runtime.yaml", code=1)
    stage.run("kubectl create -f new-runtime.yaml -f second-trainjob.yaml")
    stage.wait("trainjob/bert-again", f"{_READY}=1", "the second job starts")
    _show_pods(stage, "bert-again")
    stage.claim(f"two pods run {NEW}", _images(stage, "bert-again"), [NEW, NEW])
    stage.run("kubectl get trainingruntimesnapshots -o wide")
    _claim_snapshot(stage, "bert-again", NEW)
    _claim_snapshot(stage, "bert", OLD)


def _show_pods(stage: Stage, job: str) -> None:
    stage.run(f"kubectl get pods {_PODS}{job} {_COLUMNS}")


def _images(stage: Stage, job: str) -> list[str]:
    """The images of the running pods of a job."""
    pods = stage.look(f"kubectl get pods {_PODS}{job} --field-selector=status.phase=Running -o json")["items"]
    return [pod["spec"]["containers"][0]["image"] for pod in pods]


def _claim_snapshot(stage: Stage, job: str, image: str) -> None:
    snapshot = stage.look(f"kubectl get trainingruntimesnapshot {job} -o json")
    stage.claim(f"the snapshot of {job} says {image}", _image(snapshot["spec"]), image)


def _image(spec: dict[str, Any]) -> str:
    """The image of a runtime's or a snapshot's trainer."""
    job = spec["template"]["spec"]["replicatedJobs"][0]
    image: str = job["template"]["spec"]["template"]["spec"]["containers"][0]["image"]
    return image
