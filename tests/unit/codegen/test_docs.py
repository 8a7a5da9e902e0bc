# SPDX-License-Identifier: Apache-2.0
"""The reference documentation says what the tables say, completely."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from trainsnap_codegen import docs
from trainsnap_codegen.layout import Layout
from trainsnap_controller import blocked, rbac
from trainsnap_controller.observe.events import EVENT_REASONS
from trainsnap_controller.observe.metrics import METRICS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """The pages by their names."""
    return {path.stem: text for path, text in docs.docs_files(Layout()).items()}


def rows(page: str) -> list[list[str]]:
    """The cells of all rows of all tables of a page, heads apart."""
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    return [line.strip("| ").replace("| |", "|  |").split(" | ") for line in lines if "---" not in line]


def test_pages_lie_in_one_folder_and_name_their_source(tmp_path: Path) -> None:
    files = docs.docs_files(Layout(root=tmp_path))
    assert {path.parent for path in files} == {tmp_path / "docs" / "reference"}
    for text in files.values():
        first, heading = text.splitlines()[:2]
        source = first.split("change ")[1].split(" and run")[0]
        assert (Layout().root / source).is_file()
        assert heading.startswith("# ")


@pytest.mark.parametrize(
    ("page", "names"),
    [
        pytest.param("conditions", [reason.name for reason in blocked.REASONS], id="reasons of Blocked"),
        pytest.param("events", [reason.reason for reason in EVENT_REASONS], id="reasons of events"),
        pytest.param("metrics", [metric.name for metric in METRICS], id="metrics"),
    ],
)
def test_every_row_of_a_table_is_there(pages: dict[str, str], page: str, names: list[str]) -> None:
    assert [name for name in names if f"| `{name}` |" not in pages[page]] == []


def test_every_right_is_there_with_its_reason(pages: dict[str, str]) -> None:
    shown = {row[-1] for row in rows(pages["rights"])}
    for table in (
        rbac.CLUSTER,
        rbac.OPERATOR_NAMESPACE,
        rbac.VIEW,
        rbac.EDIT,
        rbac.CATALOGUE,
        rbac.BREAK_GLASS,
    ):
        assert {right.why for right in table} <= shown
    assert "| `trainjobs.trainer.kubeflow.org/status` | patch |" in pages["rights"]


def test_every_field_of_the_configuration_has_a_meaning(pages: dict[str, str]) -> None:
    fields = {row[0]: row for row in rows(pages["configuration"]) if len(row) == 4}
    assert [name for name, row in fields.items() if not row[3]] == []
    assert fields["`leaderElection.leaseDuration`"][1:3] == ["duration", "`15s`"]
    assert fields["`clientConnection.qps`"][1:3] == ["number", "`50`"]
    assert fields["`metrics.secureServing`"][1:3] == ["true or false", "`true`"]
    assert "`snapshots.opaqueRuntimes[].kind`" in fields


def test_every_command_is_there_with_its_flags(pages: dict[str, str]) -> None:
    page = pages["command-line"]
    for name in ("run", "dev", "version"):
        assert f"## `trainsnap {name}`" in page
    assert "| `--kubeconfig` | required | Kubeconfig with the rights of an installer. |" in page
    assert all(row[2] for row in rows(page) if len(row) == 3)


def test_cells_cannot_break_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = blocked.Reason("Odd", "a | b\nand <c>")
    monkeypatch.setattr(blocked, "REASONS", (odd,))
    assert "| `Odd` | a \\| b and &lt;c> | with growing pauses |" in "\n".join(docs.conditions())
