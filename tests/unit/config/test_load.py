# SPDX-License-Identifier: Apache-2.0
"""The configuration file is read strictly, and every fault is one line that names field, value and rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainsnap_controller.config import ConfigError, Configuration, load
from trainsnap_controller.config.load import parse

HEAD = "apiVersion: config.trainer.kubeflow.org/v1alpha1\nkind: Configuration\n"


def test_without_a_file_everything_has_its_default() -> None:
    config = load(None)
    assert config == Configuration()
    assert (config.webhook.port, config.metrics.bind_address, config.health.health_probe_bind_address) == (
        9443,
        ":8443",
        ":8081",
    )
    assert config.leader_election is None
    assert not config.gate("TrainJobStatus")


def test_leader_election_without_durations_gets_those_that_are_shipped() -> None:
    election = parse(f"{HEAD}leaderElection: {{leaderElect: true}}".encode(), "f").leader_election
    assert election is not None
    assert (election.lease_duration, election.renew_deadline, election.retry_period) == (15, 10, 2)


@pytest.mark.parametrize(("text", "want"), [("15s", 15), ("1m30s", 90), ("500ms", 0.5), ("1.5h", 5400)])
def test_durations_are_written_as_go_writes_them(text: str, want: float) -> None:
    section = f"leaderElection: {{leaseDuration: 3h, renewDeadline: 2h, retryPeriod: {text}}}"
    election = parse((HEAD + section).encode(), "f").leader_election
    assert election is not None
    assert election.retry_period == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("a", "f: must be a mapping", id="a scalar"),
        pytest.param("{", "f: is not YAML: while parsing", id="no YAML"),
        pytest.param("kind: Configuration", "f: apiVersion is missing; it must be config.trainer", id="no apiVersion"),
        pytest.param(HEAD + "foo: 1", "f: foo: unknown field", id="an unknown field"),
        pytest.param(HEAD + "webhook: {prot: 1}", "f: webhook.prot: unknown field", id="an unknown field inside"),
        pytest.param(HEAD + "webhook: {port: 0}", "f: webhook.port: ", id="a port of 0"),
        pytest.param(HEAD + "webhook: {port: '9443'}", "f: webhook.port: ", id="a port as text"),
        pytest.param(HEAD + "clientConnection: {qps: -1}", "f: clientConnection.qps: ", id="a negative rate"),
        pytest.param(HEAD + "featureGates: {Nope: true}", "f: featureGates.Nope: unknown gate", id="an unknown gate"),
        pytest.param(
            HEAD + "leaderElection: {leaseDuration: 5s}", "must have retryPeriod * 1.2 <", id="durations in disorder"
        ),
        pytest.param(
            HEAD + "leaderElection: {leaseDuration: 15s, renewDeadline: 10s, retryPeriod: 9s}",
            "must have retryPeriod * 1.2 <",
            id="too long a pause between two tries",
        ),
        pytest.param(HEAD + "leaderElection: {leaseDuration: 5 s}", "must be a duration such as", id="no duration"),
        pytest.param(
            HEAD + "controller: {groupKindConcurrency: {TrainJob.trainer.kubeflow.org: 0}}",
            "f: controller.groupKindConcurrency.TrainJob.trainer.kubeflow.org: ",
            id="no workers",
        ),
        pytest.param("[" * 100_000, "f: is nested too deep", id="lists without end"),
        pytest.param(HEAD + "x: " + "{a: " * 5000, "f: is nested too deep", id="objects without end"),
        pytest.param(HEAD + "webhook: {host: 2001-99-99}", "f: is not YAML: month must be", id="no date"),
        pytest.param(HEAD + "webhook: {port: 0x_}", "f: is not YAML: invalid literal", id="no number"),
        pytest.param(HEAD + f"webhook: {{port: {'9' * 5000}}}", "f: is not YAML: ", id="a number without end"),
        pytest.param(HEAD + "tls: {}\ntls: {}", "the key 'tls' is there twice", id="a key twice"),
        pytest.param(
            HEAD + "webhook: {port: 1, port: 2}", "the key 'port' is there twice", id="a key twice in an object"
        ),
        pytest.param(HEAD + "clientConnection: {qps: .inf}", "clientConnection.qps: ", id="a rate without end"),
        pytest.param(HEAD + "statusServer: {burst: 10000000}", "statusServer.burst: ", id="more than can be"),
        pytest.param(
            HEAD + f"leaderElection: {{leaseDuration: {'9' * 400}s}}", "must be a duration such as", id="no end"
        ),
        pytest.param(HEAD + "leaderElection: {leaseDuration: 25h}", "leaderElection.leaseDuration: ", id="too long"),
        pytest.param(HEAD + "leaderElection: {leaseDuration: ٣s}", "must be a duration such as", id="other digits"),
        pytest.param(HEAD + "leaderElection: {resourceName: ../x}", "resourceName: String should match", id="no name"),
        pytest.param(
            HEAD + "snapshots: {opaqueRuntimes: [{group: a.b, version: v1, kind: K, plural: ../x}]}",
            "opaqueRuntimes.0.plural: String should match",
            id="no plural",
        ),
        pytest.param(
            HEAD + "controller: {groupKindConcurrency: {TrainJob.trainer.kubeflow.org: 1000000000}}",
            "less than or equal to 1000",
            id="workers without end",
        ),
    ],
)
def test_faults_are_one_clear_line(text: str, want: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text.encode(), "f")
    assert want in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"webhook: {{port: '{'x' * 100_000}'}}", id="a long value"),
        pytest.param("\n".join(f"x{index}: 1" for index in range(5000)), id="many faults"),
    ],
)
def test_faults_are_told_shortly(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse((HEAD + text).encode(), "f")
    assert len(str(caught.value)) < 400


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(f"{HEAD}webhook: {{port: 0}}\nfoo: 1".encode(), "f")
    assert "webhook.port" in str(caught.value)
    assert "foo: unknown field" in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load(tmp_path / "missing.yaml")


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    path.write_bytes(b"#" * (1 << 21))
    with pytest.raises(ConfigError, match="is larger than"):
        load(path)
