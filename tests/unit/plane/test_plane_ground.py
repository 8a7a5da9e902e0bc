# SPDX-License-Identifier: Apache-2.0
"""Ports, folders, certificates and manifests: what a plane stands on, without one."""

from __future__ import annotations

import datetime
import os
import random
import socket
import stat
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID

from trainsnap_plane import Plane, PlaneError, manifests
from trainsnap_plane.certs import Authority, signing_keys
from trainsnap_plane.components import PROFILES
from trainsnap_plane.errors import ComponentDied
from trainsnap_plane.layout import Layout, tail
from trainsnap_plane.parts import PARTS
from trainsnap_plane.ports import is_free, lease, sweep


def test_ports_differ_and_are_not_leased_twice(tmp_path: Path) -> None:
    same_choices = [random.Random(7), random.Random(7)]
    one = lease(["a", "b"], folder=tmp_path, chooser=same_choices[0])
    two = lease(["a", "b"], folder=tmp_path, chooser=same_choices[1])
    assert len({held.port for held in [*one.values(), *two.values()]}) == 4
    first = one["a"].port
    for held in [*one.values(), *two.values()]:
        held.release()
    again = lease(["a"], folder=tmp_path, chooser=random.Random(7))
    assert again["a"].port == first, "free again once released"
    again["a"].release()


def test_a_port_in_use_is_not_chosen(tmp_path: Path) -> None:
    wanted = lease(["a"], folder=tmp_path, chooser=random.Random(3))["a"]
    wanted.release()
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", wanted.port))
        other.listen()
        assert not is_free(wanted.port)
        held = lease(["a"], folder=tmp_path, chooser=random.Random(3))["a"]
        assert held.port != wanted.port
        held.release()


class Few(random.Random):
    """Chooses among three ports only."""

    def randint(self, a: int, b: int) -> int:
        return a + super().randint(0, 2)


def test_files_of_ports_go_when_nobody_leases_them(tmp_path: Path) -> None:
    folder = tmp_path / "ports"
    held = lease(["a", "b"], folder=folder)
    (folder / "notes.txt").write_text("mine")
    sweep(folder)
    assert {path.name for path in folder.iterdir()} == {str(one.port) for one in held.values()} | {"notes.txt"}
    held["a"].release()
    other = lease(["c"], folder=folder)["c"]
    assert {path.name for path in folder.iterdir()} == {str(held["b"].port), str(other.port), "notes.txt"}
    (folder / "notes.txt").unlink()
    held["b"].release()
    other.release()
    sweep(folder)
    sweep(folder)
    assert not folder.exists()


def test_a_port_has_one_holder_while_others_sweep(tmp_path: Path) -> None:
    held: set[int] = set()
    faults: list[str] = []

    def work(number: int) -> None:
        chooser = Few(number)
        for _ in range(100):
            one = lease(["a"], folder=tmp_path / "ports", chooser=chooser)["a"]
            if one.port in held:
                faults.append(f"{one.port} twice")
            held.add(one.port)
            sweep(tmp_path / "ports")
            held.discard(one.port)
            one.release()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def test_a_foreign_folder_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(PlaneError, match=r"is not empty and no plane made it \(it holds 'thesis.txt'\)"):
        Layout(tmp_path).create()
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_removal_takes_only_what_a_plane_made(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "plane")
    layout.create()
    layout.write_state({"profile": "api"})
    (layout.root / "notes.txt").write_text("mine")
    (layout.root / "etcd" / "member").mkdir()
    layout.remove()
    assert [path.name for path in layout.root.iterdir()] == ["notes.txt"]


def test_a_folder_is_locked_once(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "plane")
    layout.create()
    held = layout.acquire()
    assert held is not None
    assert layout.acquire() is None
    os.close(held)


def test_the_tail_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert tail(log) == ""
    log.write_text("".join(f"line {number}\n" for number in range(10_000)))
    assert tail(log, lines=2) == "line 9998\nline 9999"


def test_certificates_say_who_and_where(tmp_path: Path) -> None:
    now = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
    authority = Authority(tmp_path, "ca", now=lambda: now)
    client = x509.load_pem_x509_certificate(authority.client("anna", "anna", ["team", "dev"]).certificate.read_bytes())
    assert client.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "anna"
    groups = [attribute.value for attribute in client.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    assert groups == ["team", "dev"]
    server = x509.load_pem_x509_certificate(authority.server("web", ["web.svc"]).certificate.read_bytes())
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "web.svc"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert server.not_valid_before_utc < now < server.not_valid_after_utc
    root = x509.load_pem_x509_certificate(authority.pair.certificate.read_bytes())
    for issued in (client, server):
        issued.verify_directly_issued_by(root)


def test_keys_are_for_their_owner_only_and_are_used_again(tmp_path: Path) -> None:
    pairs = [Authority(tmp_path, "ca").pair, Authority(tmp_path, "ca").client("a", "a"), signing_keys(tmp_path)]
    for pair in pairs:
        assert stat.S_IMODE(pair.key.stat().st_mode) == 0o600
    before = [pair.key.read_bytes() for pair in pairs]
    again = [Authority(tmp_path, "ca").pair, Authority(tmp_path, "ca").client("a", "a"), signing_keys(tmp_path)]
    assert [pair.key.read_bytes() for pair in again] == before


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_every_argument_can_be_filled_in(profile: str) -> None:
    components = next(parts for name, parts in PROFILES.items() if name == profile)
    ports = [port for component in components for port in component.ports]
    assert len(ports) == len(set(ports))
    values = dict.fromkeys(("root", "pki", "config", *ports), "x")
    for component in components:
        assert component.part in PARTS
        assert component.ready.port in component.ports
        assert all(argument.format_map(values).startswith("--") for argument in component.args)


def test_jobset_is_rendered_as_its_kustomization_would(tmp_path: Path) -> None:
    rbac, webhook = tmp_path / "jobset/rbac", tmp_path / "jobset/webhook"
    for folder in (rbac, webhook / "patches"):
        folder.mkdir(parents=True)
    subject = {"kind": "ServiceAccount", "name": "controller-manager", "namespace": "system"}
    sources = {
        "service_account": {
            "kind": "ServiceAccount",
            "metadata": {"name": "controller-manager", "namespace": "system"},
        },
        "role": {"kind": "ClusterRole", "metadata": {"name": "manager-role"}, "rules": []},
        "role_binding": {
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "manager-rolebinding"},
            "roleRef": {"kind": "ClusterRole", "name": "manager-role"},
            "subjects": [subject],
        },
        "leader_election_role": {"kind": "Role", "metadata": {"name": "leader", "namespace": "system"}},
        "leader_election_role_binding": {
            "kind": "RoleBinding",
            "metadata": {"name": "leader", "namespace": "system"},
            "roleRef": {"kind": "Role", "name": "leader"},
            "subjects": [subject],
        },
    }
    for name, obj in sources.items():
        (rbac / f"{name}.yaml").write_text(yaml.safe_dump(obj))
    namespace, account, _, binding, role, _ = manifests.jobset_identity(tmp_path)
    assert namespace["metadata"]["name"] == role["metadata"]["namespace"] == "jobset-system"
    assert account["metadata"] == {"name": manifests.JOBSET_ACCOUNT, "namespace": "jobset-system"}
    assert binding["roleRef"]["name"] == "jobset-manager-role"
    assert binding["subjects"][0] == account["metadata"] | {"kind": "ServiceAccount"}

    hooks = []
    for kind, patch in (("Mutating", "mutating"), ("Validating", "validating")):
        plain = {"name": "one", "clientConfig": {"service": {"path": "/one"}}}
        patched = {"name": "two", "clientConfig": {"service": {"path": "/two"}}, "objectSelector": {}}
        hooks.append(
            {"kind": f"{kind}WebhookConfiguration", "metadata": {"name": patch}, "webhooks": [plain, {"name": "two"}]}
        )
        change = [{"op": "replace", "path": "/webhooks/1", "value": patched}]
        (webhook / "patches" / f"{patch}-patch.yaml").write_text(yaml.safe_dump(change))
    (webhook / "manifests.yaml").write_text(yaml.safe_dump_all(hooks))
    for rendered in manifests.jobset_webhooks(tmp_path, port=77, ca_bundle="abc"):
        assert rendered["metadata"]["name"].startswith("jobset-")
        assert [hook["clientConfig"] for hook in rendered["webhooks"]] == [
            {"url": "https://127.0.0.1:77/one", "caBundle": "abc"},
            {"url": "https://127.0.0.1:77/two", "caBundle": "abc"},
        ]
        assert "objectSelector" in rendered["webhooks"][1]


def test_stages_are_ours_and_parse() -> None:
    stages = {stage["metadata"]["name"]: stage["spec"] for stage in yaml.safe_load_all(manifests.kwok_stages())}
    assert set(stages) == {
        "node-ready",
        "pod-delete",
        "pod-fail-later",
        "pod-fail-now",
        "pod-run",
        "pod-succeed-later",
        "pod-succeed-now",
    }


@pytest.mark.parametrize(
    ("exit_code", "log", "want", "port_was_taken"),
    [
        pytest.param(1, "bind: address already in use", "etcd ended by itself (exit code 1)", True, id="port taken"),
        pytest.param(-9, "", "etcd ended by itself (killed by signal 9)", False, id="killed"),
    ],
)
def test_a_death_says_how(exit_code: int, log: str, want: str, port_was_taken: bool) -> None:
    death = ComponentDied("etcd", exit_code, detail=log)
    assert (str(death), death.port_was_taken) == (want, port_was_taken)


def test_users_whose_names_look_alike_get_files_of_their_own(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "plane")
    layout.create()
    plane = Plane(layout, SimpleNamespace(), {"ports": {"apiserver_port": 1}})  # type: ignore[arg-type]
    users = [("a", ["b"]), ("a-b", []), ("a:b", []), ("a_b", []), ("a", ["b", "c"]), ("a", ["b-c"])]
    files = [plane.user_kubeconfig(user, groups) for user, groups in users]
    assert len(set(files)) == len(users)
    assert len({yaml.safe_load(file.read_text())["users"][0]["user"]["client-key-data"] for file in files}) == 6
    assert plane.user_kubeconfig("a", ["b"]) == files[0]
