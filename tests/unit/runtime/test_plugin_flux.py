# SPDX-License-Identifier: Apache-2.0
"""flux: the wrapped command, the installer, settings, scripts and the certificate."""

from __future__ import annotations

import hashlib
import subprocess
from base64 import b64decode
from typing import Any

import pytest

from support.building import box, container, documents, env, job, plan, pods, rjob, rules, runtime
from trainsnap_controller.runtime.component import Write
from trainsnap_controller.runtime.curve import certificate, z85
from trainsnap_controller.runtime.registry import standard

JSON = dict[str, Any]


def flux(
    node: JSON | None = None, *, name: str = "node", nodes: int = 2, policy: JSON | None = None, **spec: Any
) -> JSON:
    return runtime(rjob(name, node or box()), ml={"numNodes": nodes, "flux": policy or {}}, **spec)


def scripts(a_job: Any, spec: JSON) -> JSON:
    data: JSON = documents(a_job, spec)["ConfigMap/alpha-flux-entrypoint"]["data"]
    return data


COMMANDS: list[Any] = [
    pytest.param({}, {"command": ["lmp"], "args": ["-in", "x 2"]}, "lmp -in x 2", id="the job's"),
    pytest.param(
        {"command": ["lmp", "-v"], "args": ["t"]}, {"args": ["-in"]}, "lmp -v -in", id="the runtime's command"
    ),
    pytest.param({"command": ["lmp"]}, None, "lmp", id="no trainer"),
    pytest.param({}, {}, "", id="nothing at all"),
    pytest.param({"command": ["a"]}, {"command": []}, "", id="taken away"),
]


@pytest.mark.parametrize(("node", "trainer", "want"), COMMANDS)
def test_the_command_is_wrapped(node: JSON, trainer: JSON | None, want: str) -> None:
    got = container(job(trainer), flux(box(**node)))
    assert got["command"] == ["/bin/bash", "/etc/flux-config/entrypoint.sh", want]
    assert got.get("args") == node.get("args"), "the runtime's arguments stay, the job's are in the command"


def test_settings_come_from_the_variables_the_jobs_last() -> None:
    node = box(env=[{"name": "FLUX_NETWORK_DEVICE", "value": "ib0"}, {"name": "FLUX_QUEUE_POLICY", "value": "easy"}])
    variables = [{"name": "FLUX_QUEUE_POLICY", "value": "hybrid"}, {"name": "FLUX_VIEW_IMAGE", "value": "view:9"}]
    a_job = job({"env": variables})

    text = scripts(a_job, flux(node))["init.sh"]

    assert 'default_bind = "tcp://ib0:%p"' in text and 'queue-policy = "hybrid"' in text
    assert pods(a_job, flux(node))["node"]["initContainers"][0]["image"] == "view:9"
    assert list(env(container(a_job, flux(node)))) == ["FLUX_NETWORK_DEVICE", "FLUX_QUEUE_POLICY", "FLUX_VIEW_IMAGE"]


def test_a_setting_without_a_value_means_the_default() -> None:
    a_job = job({"env": [{"name": "FLUX_VIEW_IMAGE", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]})
    image = pods(a_job, flux())["node"]["initContainers"][0]["image"]
    assert image == "ghcr.io/converged-computing/flux-view-ubuntu:tag-jammy"


def test_hosts_processes_and_gpus() -> None:
    a_job = job({"numNodes": 4, "numProcPerNode": 3, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 2}}})
    text = scripts(a_job, flux(network={"subdomain": "mesh"}))
    assert 'echo "alpha-node-0-[0-3]"' in text["init.sh"]
    assert 'default_connect = "tcp://%h.mesh.team.svc:%p"' in text["init.sh"]
    assert "--cores=0-2 --gpu=0-1 " in text["entrypoint.sh"]
    assert "flux run -N 4 -n 12 -g 2 $command" in text["entrypoint.sh"]


def test_one_process_without_gpus() -> None:
    text = scripts(job({"numNodes": 1}), flux())["entrypoint.sh"]
    assert (
        "--cores=0 >" in text and "-N 1 -n 1 $command" in text and "-g" not in text.split("flux run")[1].split("\n")[0]
    )


def test_without_a_trainer_section_the_runtimes_number_of_nodes_counts() -> None:
    assert "alpha-node-0-[0-1]" in scripts(job(), flux())["init.sh"]
    assert "-N 2 -n 8 " in scripts(job(), flux(policy={"numProcPerNode": 4}))["entrypoint.sh"]


def test_the_trainers_job_may_have_another_name() -> None:
    spec = flux(name="workers")
    pod = pods(job({}), spec)["workers"]
    assert [item["name"] for item in pod["initContainers"]] == ["flux-installer"]
    assert "alpha-workers-0-[0-1]" in scripts(job({}), spec)["init.sh"]


def test_the_installer_comes_last_and_has_no_resources() -> None:
    spec = runtime(rjob("node", box(), initContainers=[box("unpack")]), ml={"flux": {}})
    first, second = pods(job({}), spec)["node"]["initContainers"]
    assert first["name"] == "unpack"
    assert set(second) == {"name", "image", "command", "volumeMounts"}


def test_the_installers_name_is_taken() -> None:
    spec = runtime(rjob("node", box(), initContainers=[box("flux-installer")]), ml={"flux": {}})
    (rule,) = rules(job({}), spec)
    assert rule.startswith('spec.trainer.initContainers: Invalid value: "flux-installer"')


@pytest.mark.parametrize("script", ["init.sh", "entrypoint.sh"])
def test_scripts_are_valid_shell(script: str) -> None:
    text = scripts(job({"numNodes": 2}), flux())[script]
    checked = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr


def test_the_certificate_is_made_once() -> None:
    secret = plan(job(), flux(), framework=standard(curve_secret_key=lambda: bytes(32))).components[0]
    assert (secret.name, secret.write) == ("alpha-flux-curve", Write.ONCE)
    text = b64decode(secret.document()["data"]["curve.cert"]).decode()
    assert text == certificate(bytes(32), "alpha")


def test_a_certificate_of_a_known_key() -> None:
    text = certificate(hashlib.sha256(b"test-uid").digest(), "alpha")
    assert '    secret-key = "S8&cm^cJ}6BIG=ra8+eAkr}]ba-^q(m2?$njMZ}m"\n' in text
    assert '    public-key = "Ug@]XzF/$c5XiSA?ciBzON!?%<ykt08OK7}!GmY&"\n' in text
    assert text.splitlines()[2:5] == ["", "metadata", '    name = "alpha"']


def test_z85_of_the_rfc() -> None:
    assert z85(bytes([0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B])) == "HelloWorld"
