# SPDX-License-Identifier: Apache-2.0
"""The sync face is the async one: same methods, parameters, defaults and texts; and how it is generated."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from trainsnap_api import client
from trainsnap_codegen.faces import MODULES, SOURCE, TWINS, sync_text
from trainsnap_codegen.layout import SchemaError

OTHERWISE = {"aclose": "close", "__aenter__": "__enter__", "__aexit__": "__exit__"}


def public(cls: type) -> dict[str, Any]:
    return {name: member for name, member in inspect.getmembers(cls) if not name.startswith("_")}


@pytest.mark.parametrize(("name", "twin"), TWINS.items())
def test_faces_have_the_same_methods(name: str, twin: str) -> None:
    theirs, ours = public(getattr(client, name)), public(getattr(client, twin))
    assert {OTHERWISE.get(method, method) for method in theirs} == set(ours)
    for method in set(theirs) & set(ours):
        left, right = (inspect.unwrap(getattr(m, "fget", None) or m) for m in (theirs[method], ours[method]))
        parameters = [
            [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]
            for function in (left, right)
        ]
        assert parameters[0] == parameters[1], method
        assert inspect.getdoc(left) == inspect.getdoc(right), method
        assert not inspect.iscoroutinefunction(right), method


def test_what_has_no_twin_fails_the_build() -> None:
    sources = {name: (SOURCE / f"{name}.py").read_text() for name in MODULES}
    for bad, want in (
        ("    async def extra(self): ...\n", "extra: needs a return type"),
        ("    @staticmethod\n    def extra() -> None: ...\n", "extra: no sync twin for staticmethod"),
        ("    async def extra(self, **more: int) -> None: ...\n", "extra: no sync twin for such parameters"),
    ):
        with pytest.raises(SchemaError, match=want):
            sync_text({**sources, "client": sources["client"] + bad})
    with pytest.raises(SchemaError, match="the async face has the classes"):
        sync_text({**sources, "client": ""})
