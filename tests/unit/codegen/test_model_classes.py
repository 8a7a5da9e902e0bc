# SPDX-License-Identifier: Apache-2.0
"""The generated classes: one for each type, under readable names, cheap to import and usable without defaults."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import keyword
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
from pydantic import BaseModel

import trainsnap_api.models as public
from trainsnap_api import _generated
from trainsnap_api._generated import details, kinds, models, pods
from trainsnap_api.models import Model
from trainsnap_codegen import split as cut
from trainsnap_codegen.descriptions import described
from trainsnap_codegen.layout import Layout, SchemaError
from trainsnap_codegen.models import model_files, openapi, run
from trainsnap_codegen.sources import Sources, load

SOURCES = load(Layout())
IMPORT_LIMIT = 1.0
"""Seconds of CPU. Measured 0.22 to 0.35, pydantic included; the limit leaves room for a slow or busy machine."""


PARTS = (kinds, models, pods, details)
NAMES = sorted(name for part in PARTS for name in part.__all__)


KINDS = kinds.__all__
_JOB = "{'template': {'spec': {'template': {'spec': {'affinity': {}}}}}}"


def classes() -> list[type[Model]]:
    return [getattr(part, name) for part in PARTS for name in part.__all__]


def test_every_class_is_a_definition_and_every_definition_is_one_class() -> None:
    assert sorted(NAMES) == sorted(openapi(SOURCES)["components"]["schemas"]) == sorted(_generated.MODULES)
    for part in PARTS:
        defined = [node.name for node in ast.parse(inspect.getsource(part)).body if isinstance(node, ast.ClassDef)]
        assert sorted(defined) == sorted(part.__all__)
        assert all(_generated.MODULES[name] == part.__name__.rpartition(".")[2] for name in defined)


def test_no_class_is_a_numbered_copy_of_another() -> None:
    names = set(NAMES)
    assert [name for name in names if re.sub(r"(_?\d+|Model|Field)$", "", name) in names - {name}] == []


def test_embedded_types_have_their_kubernetes_names() -> None:
    ours = SOURCES.own | set(SOURCES.names["jobset"].values()) | set(SOURCES.names["differing"].values())
    assert set(NAMES) - ours <= set(SOURCES.types)


def test_kinds_share_their_classes() -> None:
    annotations = {
        kind: getattr(public, kind).model_fields["spec"].annotation
        for kind in ("TrainingRuntime", "ClusterTrainingRuntime", "TrainingRuntimeSnapshot")
    }
    (only,) = set(map(str, annotations.values()))
    assert "trainsnap_api._generated.models.TrainingRuntimeSpec" in only


def test_public_face_exports_everything_that_it_says() -> None:
    assert set(public.__all__) == {*NAMES, "JSON", "IntOrString", "Kind", "Model", "Quantity"}
    assert [name for name in public.__all__ if not hasattr(public, name)] == []


def test_every_class_can_be_made_empty_and_has_no_default_but_none() -> None:
    for cls in classes():
        assert cls().dump() == {}, cls
        assert all(info.default is None and not info.is_required() for info in cls.model_fields.values()), cls


def test_attribute_names_are_snake_case_words() -> None:
    for cls in classes():
        for name in cls.model_fields:
            assert re.fullmatch(r"[a-z][a-z0-9_]*", name), (cls, name)
            assert not keyword.iskeyword(name), (cls, name)
            assert not hasattr(BaseModel, name), (cls, name)
            assert not re.search(r"_[a-z](_|$)", name), f"{cls.__name__}.{name}: needs a row in names.yaml"


def test_definitions_of_ours_have_docstrings() -> None:
    for name in sorted(SOURCES.own & set(NAMES)):
        assert getattr(public, name).__doc__ == SOURCES.definitions[name]["description"]


def test_every_class_says_what_it_is_and_described_fields_do_so_in_their_schema() -> None:
    assert [cls.__name__ for cls in classes() if not cls.__doc__] == []
    assert public.Container.__doc__ == "One container of a pod."
    assert public.Container.model_fields["image"].description == "The image to run."
    fields = public.TrainJobSpec.model_json_schema()["properties"]
    assert (
        fields["suspend"]["description"] == SOURCES.definitions["TrainJobSpec"]["properties"]["suspend"]["description"]
    )


def test_a_text_about_a_field_that_is_gone_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "descriptions.yaml").write_text("Container: {gone: No more.}")
    with pytest.raises(SchemaError, match=r"descriptions\.yaml: Container has no field gone"):
        described(Layout(sources=tmp_path), SOURCES)
    (tmp_path / "descriptions.yaml").write_text("TrainJob: {.: Is ours.}")
    with pytest.raises(SchemaError, match=r"descriptions\.yaml: no pinned type: TrainJob"):
        described(Layout(sources=tmp_path), SOURCES)


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param("{}", "models", id="empty"),
        pytest.param("{'template': {'spec': {'replicatedJobs': []}}}", "models pods", id="a JobSet"),
        pytest.param(
            f"{{'template': {{'spec': {{'replicatedJobs': [{_JOB}]}}}}}}", "details models pods", id="a detail"
        ),
    ],
)
def test_modules_are_imported_when_there_is_something_in_them(spec: str, want: str) -> None:
    program = (
        "import sys\n"
        "from trainsnap_api.models import TrainJob, TrainingRuntime\n"
        "parts = lambda: [p for p in ('details', 'models', 'pods') if f'trainsnap_api._generated.{p}' in sys.modules]\n"
        "print(*parts())\n"
        f"TrainingRuntime.model_validate({{'spec': {spec}}})\n"
        "print(*parts())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f"\n{want}\n"


@pytest.mark.parametrize(
    ("doors", "words"),
    [
        pytest.param(("JobSetSpec", "Container"), "Container", id="a door that nothing earlier uses"),
        pytest.param(("JobSetSpec", "Nothing"), "no class Nothing", id="a door that is no class"),
    ],
)
def test_a_cut_that_is_none_fails_the_build(
    doors: tuple[str, ...], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "".join(inspect.getsource(cls) + "\n\n" for cls in classes())
    parts = [part if part.name != "pods" else dataclasses.replace(part, doors=doors) for part in cut.PARTS]
    assert sorted(cut.split(text, KINDS)) == sorted(part.name for part in cut.PARTS)
    monkeypatch.setattr(cut, "PARTS", tuple(parts))
    with pytest.raises(SchemaError, match=words):
        cut.split(text, KINDS)


def test_import_is_cheap_and_needs_pydantic_only() -> None:
    program = (
        "import sys, time\n"
        "import trainsnap_api.models\n"
        "print(time.process_time())\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    seconds, _, modules = done.stdout.partition("\n")
    assert float(seconds) < IMPORT_LIMIT
    foreign = {"kr8s", "httpx", "aiohttp", "yaml", "msgspec", "anyio", "trainsnap_controller", "starlette", "structlog"}
    assert foreign.isdisjoint(modules.split())


def test_generated_module_says_how_it_was_made() -> None:
    head = Path(str(models.__file__)).read_text(encoding="utf-8").splitlines()[:4]
    assert head[0] == "# SPDX-License-Identifier: Apache-2.0"
    assert "do not edit" in head[1]
    assert re.fullmatch(r"# datamodel-code-generator 0\.89\.0, input sha256 [0-9a-f]{64}", head[2])


def test_reserved_words_get_an_alias(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of today's fields is one, but a coming Kubernetes release may bring it."""
    properties = {name: {"type": "string"} for name in ("from", "continue", "global", "copy", "json", "schema")}
    document = openapi(Sources(kinds=(), definitions={}))
    document["components"]["schemas"] = {"Odd": {"type": "object", "properties": properties}}
    # In a module of its own: validators are built at first use and look the types up there.
    module = types.ModuleType("made_for_this_test")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(run(document, {}), module.__dict__)
    odd: type[Model] = module.__dict__["Odd"]
    obj = {name: name for name in properties}
    assert odd.model_validate(obj).dump() == obj
    assert odd(from_="a", copy_="b").dump() == {"from": "a", "copy": "b"}


def test_another_generator_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from trainsnap_codegen import models as maker

    monkeypatch.setattr(maker, "GENERATOR", "0.1.0")
    with pytest.raises(SchemaError, match=r"datamodel-code-generator 0\.1\.0 is needed, installed is"):
        model_files(Layout(root=tmp_path), SOURCES)
