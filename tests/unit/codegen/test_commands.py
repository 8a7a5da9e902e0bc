# SPDX-License-Identifier: Apache-2.0
"""The commands: what is checked in is fresh, and staleness is found and explained."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from trainsnap_codegen import __main__ as command
from trainsnap_codegen.layout import Layout, SchemaError, read_yaml
from trainsnap_codegen.output import differences, write

if TYPE_CHECKING:
    from pathlib import Path


def test_generated_files_are_fresh() -> None:
    layout = Layout()
    assert differences(command.generate(layout), command.folders(layout), layout.root) == []


def test_gen_writes_everything_and_check_finds_what_is_not_fresh(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = Layout(root=tmp_path)
    assert command.main(["gen"], layout) == 0
    assert "crds/trainer.kubeflow.org_trainjobs.yaml" in capsys.readouterr().out.splitlines()
    assert command.main(["check"], layout) == 0
    # There is no tools/ folder here, so no Go module to compare the pinned schemas with.
    assert "taken as they are" in capsys.readouterr().err
    crds = tmp_path / "crds"
    stale, missing = crds / "trainer.kubeflow.org_trainjobs.yaml", crds / "kustomization.yaml"
    stale.write_text(stale.read_text(encoding="utf-8").replace("maxItems: 128", "maxItems: 129", 1), encoding="utf-8")
    missing.unlink()
    (crds / "old.yaml").write_text("", encoding="utf-8")
    assert command.main(["check"], layout) == 1
    said = capsys.readouterr().err
    assert "kustomization.yaml: missing" in said
    assert "trainjobs.yaml: differs" in said
    assert "maxItems: 129" in said
    assert "old.yaml: is not generated any more" in said
    assert "3 generated files are not fresh" in said


def test_write_removes_leftovers_of_generated_folders_only(tmp_path: Path) -> None:
    mine, other = tmp_path / "generated", tmp_path / "other"
    for folder in (mine, other):
        folder.mkdir()
        (folder / "old").write_text("x", encoding="utf-8")
    changed = write({mine / "new": "text"}, [mine])
    assert sorted(path.name for path in changed) == ["new", "old"]
    assert [path.name for path in mine.iterdir()] == ["new"]
    assert (other / "old").exists()


def test_a_mistake_in_the_sources_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sources = tmp_path / "sources"
    sources.mkdir()
    for path in Layout().sources.glob("*.yaml"):
        text = path.read_text(encoding="utf-8").replace("$ref: jobset/EnvVar", "$ref: jobset/EnvVra")
        (sources / path.name).write_text(text, encoding="utf-8")
    assert command.main(["gen"], Layout(root=tmp_path, sources=sources)) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "there is no jobset/EnvVra" in said


def test_a_key_given_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("a: 1\nb: 2\na: 3\n", encoding="utf-8")
    with pytest.raises(SchemaError, match="given twice: a"):
        read_yaml(path)
