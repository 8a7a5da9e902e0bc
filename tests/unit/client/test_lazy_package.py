# SPDX-License-Identifier: Apache-2.0
"""The package's public names: all there, all importable, none imported before it is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import trainsnap_api
from trainsnap_api import client, models, validation
from trainsnap_api.client import errors

HEAVY = ("pydantic", "aiohttp", "kr8s", "msgspec", "yaml", "cel_expr_python")


def python(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("module", [trainsnap_api, client, models, validation, errors])
def test_every_public_name_is_there(module: object) -> None:
    names: list[str] = module.__all__  # type: ignore[attr-defined]
    assert len(names) == len(set(names))
    assert [name for name in names if getattr(module, name, None) is None] == []
    assert set(names) <= set(dir(module))


def test_public_names_are_those_that_type_checkers_see() -> None:
    """The imports under TYPE_CHECKING, the table of the lazy import and ``__all__`` say the same."""
    tree = ast.parse(Path(str(trainsnap_api.__file__)).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {
        alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert imported == trainsnap_api._WHERE
    assert sorted(imported) == sorted(trainsnap_api.__all__)


def test_importing_the_package_imports_nothing_else() -> None:
    program = f"import sys, trainsnap_api; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    assert python(program).strip() == ""


def test_models_and_checks_need_pydantic_only() -> None:
    program = (
        "import sys\n"
        "from trainsnap_api import TrainJob, validate\n"
        "validate(TrainJob.model_validate({'metadata': {'name': 'a'}, 'spec': {'runtimeRef': {'name': 'r'}}}))\n"
        f"print(*[name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    assert set(python(program).split()) <= {"pydantic", "cel_expr_python"}


def test_a_missing_extra_is_named() -> None:
    program = (
        "import sys\n"
        "sys.modules['aiohttp'] = None\n"
        "import trainsnap_api\n"
        "try:\n"
        "    trainsnap_api.Client\n"
        "except ModuleNotFoundError as error:\n"
        "    print(error)\n"
    )
    assert python(program).strip() == "Client needs the package aiohttp: pip install 'trainsnap[client]'"


@pytest.mark.parametrize("module", [trainsnap_api, models])
def test_an_unknown_name_is_an_attribute_error(module: object) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = module.Nothing  # type: ignore[attr-defined]
