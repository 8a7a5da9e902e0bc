# SPDX-License-Identifier: Apache-2.0
"""Bad input of `tools/plane`: the last line on stderr says what is wrong, no traceback, and nothing is started."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainsnap_plane.cli import _tell, main
from trainsnap_plane.process import ENDING


@pytest.fixture(autouse=True)
def _handler_of_this_process() -> Iterator[None]:
    """The command takes signals for itself; the tests that come after want them back."""
    saved = {number: signal.getsignal(number) for number in ENDING}
    yield
    for number, handler in saved.items():
        signal.signal(number, handler)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file, a stranger's folder, and what is left of planes whose record is damaged."""
    (tmp_path / "file").write_text("")
    for name, file, text in (
        ("stranger", "thesis.tex", ""),
        ("damaged", "plane.json", "{"),
        ("odd", "plane.json", "[]"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text(text)
    return tmp_path


@pytest.mark.parametrize("command", [["down"], ["status"], ["kubeconfig", "--user", "ann"]], ids=lambda x: x[0])
@pytest.mark.parametrize(
    ("where", "want"),
    [
        ("none", "plane: no plane in {}"),
        ("file", "plane: no plane in {}"),
        ("stranger", "plane: no plane in {}"),
        ("damaged", "plane: {}/plane.json is damaged: remove the folder by hand"),
        ("odd", "plane: {}/plane.json is damaged: remove the folder by hand"),
    ],
)
def test_a_folder_without_a_plane(
    command: list[str], where: str, want: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--dir", str(folder / where)]) == 1
    out, err = capsys.readouterr()
    assert (out, err) == ("", want.format(folder / where) + "\n")


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param([], "required: COMMAND", id="nothing"),
        pytest.param(["fly"], "invalid choice: 'fly'", id="an unknown command"),
        pytest.param(["up"], "required: --dir", id="no folder"),
        pytest.param(["up", "--dir", "d", "--profile", "huge"], "invalid choice: 'huge'", id="an unknown profile"),
        pytest.param(["down", "--dir", "d", "--now"], "unrecognized arguments: --now", id="an unknown flag"),
    ],
)
def test_a_wrong_command_line(arguments: list[str], want: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert want in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("folder", ["/tmp/p", "/tmp/t m p", "/tmp/it's"])
def test_what_it_prints_is_read_by_a_shell_as_it_is(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    _tell(Path(folder, "kubectl"), Path(folder, "kubeconfig"))
    out = capsys.readouterr().out
    assert shlex.split(out) == [f"KUBECTL={folder}/kubectl", f"KUBECONFIG={folder}/kubeconfig"]
    assert ("'" in out) is (folder != "/tmp/p"), "plain when there is nothing to quote"
