# SPDX-License-Identifier: Apache-2.0
"""The demo's stage: what is shown is what is run, and a claim that does not hold ends the demo by its name."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from trainsnap_demo.stage import ClaimFailed, Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A stage whose kubectl says its arguments, and fails for the object `missing`."""
    kubectl = tmp_path / "kubectl-1"
    kubectl.write_text('#!/bin/sh\ncase "$*" in *missing*) echo "Error: no such thing" >&2; exit 1;; esac\necho "$@"\n')
    kubectl.chmod(0o755)
    return Stage(tmp_path, kubectl, tmp_path / "kubeconfig", environment={"PATH": "/usr/bin:/bin"}, out=io.StringIO())


def shown(stage: Stage) -> str:
    assert isinstance(stage.out, io.StringIO)
    return stage.out.getvalue()


def test_a_command_is_shown_as_typed_with_its_output(stage: Stage) -> None:
    stage.title("First")
    got = stage.run("kubectl get pods -o 'jsonpath={.items}'")
    assert got == "get pods -o jsonpath={.items}\n"
    want = "\n1. First\n   $ kubectl get pods -o 'jsonpath={.items}'\n     get pods -o jsonpath={.items}\n"
    assert shown(stage) == want


def test_commands_run_in_the_folder_with_the_kubeconfig(stage: Stage) -> None:
    assert stage.run("sh -c 'echo $KUBECONFIG; pwd'").split() == [str(stage.kubeconfig), str(stage.folder)]


def test_a_wait_gives_up_by_the_stage_s_patience(stage: Stage) -> None:
    stage.patience = 2.5
    stage.wait("trainjob/bert", "condition=Complete", "it completes")
    assert "$ kubectl wait trainjob/bert --for=condition=Complete --timeout=2.5s" in shown(stage)
    assert stage.claims == 1


@pytest.mark.parametrize(
    ("claim", "want"),
    [
        pytest.param("it starts", "it starts: kubectl get missing: Error: no such thing", id="the command's claim"),
        pytest.param("", "every command of the demo succeeds: kubectl get missing: Error: no such thing", id="none"),
    ],
)
def test_a_command_that_fails_names_the_claim_it_stands_for(stage: Stage, claim: str, want: str) -> None:
    with pytest.raises(ClaimFailed) as failed:
        stage.run("kubectl get missing", claim)
    assert str(failed.value) == want
    assert stage.claims == 0


def test_a_claim_that_does_not_hold_says_what_was_seen(stage: Stage) -> None:
    with pytest.raises(ClaimFailed, match=r"^two pods: wanted 2, got 1$"):
        stage.claim("two pods", 1, 2)
    assert "FAILED: two pods" in shown(stage)


def test_a_command_that_never_ends_is_cut_off(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainsnap_demo.stage.COMMAND_SECONDS", 0.1)
    stage.patience = 0.1
    with pytest.raises(ClaimFailed, match=r"no end after 0\.2 s"):
        stage.run("sleep 30", "it ends")


def test_what_cannot_be_looked_at_is_a_failure_too(stage: Stage) -> None:
    with pytest.raises(ClaimFailed, match="no such thing"):
        stage.look("kubectl get missing -o json")
    stage.quietly("kubectl delete missing")
