# SPDX-License-Identifier: Apache-2.0
"""Bad input of the command line: one clear line on stderr, no traceback, an exit code that is not zero."""

from __future__ import annotations

import http.server
import importlib
import importlib.metadata
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from trainsnap_controller.cli import main

CONFIG = "apiVersion: config.trainer.kubeflow.org/v1alpha1\nkind: Configuration\n"


@dataclass
class CommandLine:
    """Runs the command in this process, and checks what every failure has in common."""

    capture: pytest.CaptureFixture[str]

    def fails(self, *arguments: str | Path) -> tuple[int, str]:
        """The exit code, and the one line on stderr without its prefix."""
        code = main([str(argument) for argument in arguments])
        out, err = self.capture.readouterr()
        assert out == ""
        assert code != 0
        (line,) = err.splitlines()
        assert line.startswith("trainsnap: ")
        return code, line.removeprefix("trainsnap: ")


@pytest.fixture
def trainsnap(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command, without its effects on the logging of this process and without a cluster around it."""
    module = importlib.import_module("trainsnap_controller.cli.main")
    monkeypatch.setattr(module, "configure_logging", lambda **_: None)
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    return CommandLine(capsys)


def kubeconfig(path: Path, server: str, **changes: Any) -> Path:
    """A kubeconfig without credentials; keywords replace its parts."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
        **changes,
    }
    path.write_text(json.dumps(content))
    return path


@pytest.fixture
def nobody(tmp_path: Path) -> Path:
    """A kubeconfig of a server that does not exist: nothing listens on the port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    return kubeconfig(tmp_path / "nobody.kubeconfig", f"http://127.0.0.1:{port}")


@pytest.fixture
def greeter(tmp_path: Path) -> Iterator[Path]:
    """A kubeconfig of a server that tells its version, serves no API group, and refuses every write."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/version":
                self._answer(200, {"gitVersion": "v1.36.3"})
            elif "forbidden" in self.path:
                self._refuse()
            else:
                self._answer(404, {"kind": "Status", "code": 404, "reason": "NotFound", "message": "nothing here"})

        def do_PATCH(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self._refuse()

        def _refuse(self) -> None:
            self._answer(403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "not for you"})

        def _answer(self, code: int, body: dict[str, Any]) -> None:
            text = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield kubeconfig(tmp_path / "greeter.kubeconfig", f"http://127.0.0.1:{server.server_address[1]}")
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param([], "Missing command. (see trainsnap --help)", id="nothing"),
        pytest.param(["walk"], "No such command 'walk'. (see trainsnap --help)", id="an unknown command"),
        pytest.param(["--fast"], "No such option: --fast (see trainsnap --help)", id="an unknown flag"),
        pytest.param(["run", "--fast"], "No such option: --fast (see trainsnap run --help)", id="of a command"),
        pytest.param(["dev"], "Missing option '--kubeconfig'. (see trainsnap dev --help)", id="a missing flag"),
        pytest.param(["dev", "--kubeconfig"], "Option '--kubeconfig' requires an argument.", id="a missing value"),
        pytest.param(["run", "now"], "Got unexpected extra argument(s) (now)", id="one argument too many"),
        pytest.param(
            ["run", "--log-level", "loud"],
            "Invalid value for '--log-level': 'loud' is not one of 'debug', 'info', 'warning', 'error'.",
            id="a value out of the set",
        ),
    ],
)
def test_a_wrong_command_line_is_exit_code_2(trainsnap: CommandLine, arguments: list[str], want: str) -> None:
    code, line = trainsnap.fails(*arguments)
    assert code == 2
    assert line.startswith(want)


@pytest.mark.parametrize(
    ("content", "want"),
    [
        pytest.param(b"clusters: [", "is not valid YAML", id="no YAML"),
        pytest.param(b"\x93\xff\x00", "it is not text", id="no text"),
        pytest.param(b"", "is not a kubeconfig", id="empty"),
        pytest.param(b"- x", "is not a kubeconfig", id="a list"),
        pytest.param(b"kind: Config", "has no current-context", id="no context"),
    ],
)
def test_a_wrong_kubeconfig_is_named(trainsnap: CommandLine, tmp_path: Path, content: bytes, want: str) -> None:
    path = tmp_path / "wrong.kubeconfig"
    path.write_bytes(content)
    for command in (["run"], ["dev"], ["dev", "--clean"]):
        code, line = trainsnap.fails(*command, "--kubeconfig", path)
        assert code == 1
        assert str(path) in line
        assert want in line


def test_a_missing_kubeconfig_is_named(trainsnap: CommandLine, tmp_path: Path) -> None:
    for command in (["run"], ["dev"], ["dev", "--clean"]):
        _, line = trainsnap.fails(*command, "--kubeconfig", tmp_path / "none")
        assert line == f"kubeconfig {tmp_path / 'none'} does not exist"


def test_a_context_that_does_not_exist_is_named_with_those_that_do(trainsnap: CommandLine, nobody: Path) -> None:
    _, line = trainsnap.fails("dev", "--kubeconfig", nobody, "--context", "prod")
    assert line == f'kubeconfig {nobody} has no context "prod"; its contexts are: x'


def test_outside_a_cluster_a_kubeconfig_is_asked_for(trainsnap: CommandLine) -> None:
    assert trainsnap.fails("run") == (1, "--kubeconfig FILE is needed outside a cluster")


def test_a_server_that_cannot_be_reached_is_named(trainsnap: CommandLine, nobody: Path) -> None:
    server = json.loads(nobody.read_text())["clusters"][0]["cluster"]["server"]
    for command in (["run"], ["dev"], ["dev", "--clean"]):
        _, line = trainsnap.fails(*command, "--kubeconfig", nobody)
        assert f"cannot connect to {server}" in line


@pytest.mark.parametrize(
    ("flag", "want"),
    [
        pytest.param("Nope=true", "--feature-gates Nope: unknown gate; known are ", id="an unknown gate"),
        pytest.param("TrainJobStatus", "--feature-gates TrainJobStatus: must be NAME=true or", id="without a value"),
        pytest.param("TrainJobStatus=on", "--feature-gates TrainJobStatus=on: must be NAME=true or", id="a wrong one"),
    ],
)
def test_a_wrong_feature_gate_is_named(trainsnap: CommandLine, nobody: Path, flag: str, want: str) -> None:
    for command in ("run", "dev"):
        _, line = trainsnap.fails(command, "--kubeconfig", nobody, "--feature-gates", flag)
        assert line.startswith(want)


@pytest.mark.parametrize(
    ("content", "want"),
    [
        pytest.param("{", "is not YAML", id="no YAML"),
        pytest.param("[]", "must be a mapping with apiVersion", id="a list"),
        pytest.param(
            CONFIG + "metrics: {bindAdress: ':1'}", "metrics.bindAdress: unknown field", id="a misspelt field"
        ),
        pytest.param(
            CONFIG + "clientConnection: {qps: -1}\nwebhook: {port: 0}",
            "webhook.port: Input should be greater than or equal to 1, got 0; clientConnection.qps: Input should be",
            id="two faults in one line",
        ),
    ],
)
def test_a_wrong_configuration_is_named(
    trainsnap: CommandLine, nobody: Path, tmp_path: Path, content: str, want: str
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(content)
    for command in ("run", "dev"):
        _, line = trainsnap.fails(command, "--kubeconfig", nobody, "--config", path)
        assert line.startswith(f"{path}: ")
        assert want in line


def test_a_missing_configuration_is_named(trainsnap: CommandLine, nobody: Path, tmp_path: Path) -> None:
    _, line = trainsnap.fails("run", "--kubeconfig", nobody, "--config", tmp_path / "none")
    assert line == f"{tmp_path / 'none'}: cannot be read: No such file or directory"


@pytest.mark.parametrize(
    ("address", "want"),
    [
        pytest.param(
            "127.0.0.1:{taken}", "health: cannot listen on 127.0.0.1:{taken}: Address already in use", id="taken"
        ),
        pytest.param("localhost", "health: address 'localhost': must be HOST:PORT or :PORT", id="no port"),
        pytest.param("192.0.2.1:0", "health: cannot listen on 192.0.2.1:0: ", id="not an address of this machine"),
    ],
)
def test_an_address_that_cannot_be_had_is_named(
    trainsnap: CommandLine, greeter: Path, tmp_path: Path, address: str, want: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        path = tmp_path / "config.yaml"
        path.write_text(f"{CONFIG}health: {{healthProbeBindAddress: '{address.format(taken=taken)}'}}")
        _, line = trainsnap.fails("run", "--kubeconfig", greeter, "--config", path)
    assert line.startswith(want.format(taken=taken))


def test_an_installer_without_rights_is_told_what_it_may_not(trainsnap: CommandLine, greeter: Path) -> None:
    _, line = trainsnap.fails("dev", "--kubeconfig", greeter)
    assert line == "cannot install Namespace kubeflow-system: not for you"


def test_a_refusal_says_what_was_asked_for(trainsnap: CommandLine, greeter: Path, tmp_path: Path) -> None:
    server = json.loads(greeter.read_text())["clusters"][0]["cluster"]["server"]
    path = kubeconfig(tmp_path / "forbidden", f"{server}/forbidden")
    _, line = trainsnap.fails("run", "--kubeconfig", path)
    assert line == "the API server refuses GET /version: not for you"


def test_the_installed_script_behaves_the_same(nobody: Path) -> None:
    script = Path(sys.executable).with_name("trainsnap")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KUBE")}
    arguments = [str(script), "dev", "--kubeconfig", str(nobody)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("trainsnap: ")


def test_a_group_without_a_command_shows_its_help_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migrate", "--help"]) == 0
    help_text = capsys.readouterr().out
    assert main(["migrate"]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", help_text)
    assert len(err.splitlines()) > 10


def test_the_version_is_said_both_ways(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["version"], ["--version"]):
        assert main(arguments) == 0
        assert capsys.readouterr().out == importlib.metadata.version("trainsnap") + "\n"


def test_help_and_version_are_no_failures(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["run", "--help"], ["dev", "--help"], ["version"], ["--version"]):
        assert main(arguments) == 0
        out, err = capsys.readouterr()
        assert out
        assert not err
