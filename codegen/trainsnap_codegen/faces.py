# SPDX-License-Identifier: Apache-2.0
"""Writes the sync face of the client from the async one, so that the two cannot drift. Called by the commands.

Every public class ``AsyncX`` of ``trainsnap_api/client/aio`` gets a twin of the same methods, parameters, defaults and
texts that runs the async one through the portal. Only the source text is read; nothing is imported.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import TYPE_CHECKING

from trainsnap_codegen.layout import LICENCE, MARK, ROOT, SchemaError

if TYPE_CHECKING:
    from pathlib import Path

    from trainsnap_codegen.layout import Layout

SOURCE = ROOT / "api" / "trainsnap_api" / "client" / "aio"
MODULES = ("kind", "jobs", "snapshots", "client")
"""In the order in which their classes build on each other."""

TWINS = {
    "AsyncKind": "SyncKind",
    "AsyncTrainJobs": "SyncTrainJobs",
    "AsyncSnapshots": "SyncSnapshots",
    "AsyncClient": "Client",
}
STREAM = "AsyncGenerator"
_BY_HAND = frozenset({"__init__", "__aenter__", "__aexit__", "aclose"})
"""What the base classes in ``portal.py`` have in another form."""
_DOC = '"""The sync face: the async one, run in a thread of its own. Imported from trainsnap_api.client."""'


def face_files(layout: Layout) -> dict[Path, str]:
    """The generated package. Raises SchemaError for a construct of the async face that has no sync twin."""
    folder = layout.root / "api" / "trainsnap_api" / "client" / "_generated"
    init = f'{LICENCE}# {MARK}\n"""Generated sync face; import it from trainsnap_api.client."""\n'
    sources = {name: (SOURCE / f"{name}.py").read_text(encoding="utf-8") for name in MODULES}
    return {folder / "__init__.py": init, folder / "sync.py": sync_text(sources)}


def sync_text(sources: dict[str, str]) -> str:
    """The module of all twins, formatted."""
    trees = {name: ast.parse(text) for name, text in sources.items()}
    classes = [
        node for tree in trees.values() for node in tree.body if isinstance(node, ast.ClassDef) and node.name in TWINS
    ]
    if [node.name for node in classes] != list(TWINS):
        raise SchemaError(f"the async face has the classes {[node.name for node in classes]}, not {list(TWINS)}")
    body = "\n\n\n".join(_twin(node) for node in classes)
    exported = "".join(f"    {name!r},\n" for name in sorted(TWINS.values()))
    text = (
        f"{LICENCE}# {MARK.replace('codegen/trainsnap_codegen/sources', 'api/trainsnap_api/client/aio')}\n{_DOC}\n\n"
        f"from __future__ import annotations\n\n{_imports(trees, body)}\n\n"
        f'T = TypeVar("T", bound=Kind)\n\n\n{body}\n\n\n__all__ = [\n{exported}]\n'
    )
    return _formatted(text)


def _imports(trees: dict[str, ast.Module], body: str) -> str:
    """Where the async modules have the names from, for those that the twins use."""
    used = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)} | {"TypeVar", "Kind"}
    used -= set(TWINS.values())
    # Annotations are text to the parser once quoted, but not here: the future import keeps them plain names.
    found: dict[str, str] = {
        "ClientFace": "from trainsnap_api.client.portal import ClientFace",
        "Face": "from trainsnap_api.client.portal import Face",
        "Stream": "from trainsnap_api.client.portal import Stream",
    }
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found |= {alias.asname or alias.name: f"import {alias.name}" for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found |= {alias.name: f"from {node.module} import {alias.name}" for alias in node.names}
        for statement in tree.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                own = statement.targets[0].id
                if own != "T":  # the twins have their own
                    found.setdefault(own, f"from trainsnap_api.client.aio.{name} import {own}")
    found |= {name: f"from trainsnap_api.client.aio import {name}" for name in TWINS}
    return "\n".join(sorted({found[name] for name in used if name in found}))


def _twin(node: ast.ClassDef) -> str:
    bases = [ast.unparse(_renamed(base)) for base in node.bases]
    base = {"Client": "ClientFace", "SyncKind": "Face, Generic[T]"}.get(TWINS[node.name], ", ".join(bases))
    generic = "[T]" if TWINS[node.name] == "SyncKind" else ""
    doc = ast.get_docstring(node, clean=False) or ""
    head = f'class {TWINS[node.name]}({base}):\n    """{doc}"""\n\n    _inner: {node.name}{generic}\n'
    methods = [_method(item) for item in node.body if _is_public(item)]
    return head + "\n" + "\n\n".join(methods)


def _is_public(item: ast.stmt) -> bool:
    if not isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return item.name not in _BY_HAND and not item.name.startswith("_")


def _method(node: ast.stmt) -> str:
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    if node.returns is None:
        raise SchemaError(f"{node.name}: needs a return type")
    marks = [ast.unparse(mark) for mark in node.decorator_list]
    if set(marks) - {"property", "classmethod"}:
        raise SchemaError(f"{node.name}: no sync twin for {', '.join(marks)}")
    returns = ast.unparse(_renamed(node.returns))
    first = "cls" if "classmethod" in marks else "self"
    call = _call(node, first)
    if "classmethod" in marks:
        # Only the client has one.
        action = f"return cls._opened(AsyncClient.{node.name}, {call})"
    elif ast.unparse(node.returns).startswith(STREAM):
        action = f"return self._portal.iterate(self._inner.{node.name}({call}))"
    elif isinstance(node, ast.AsyncFunctionDef):
        action = f"return self._portal.run(self._inner.{node.name}, {call})"
        if returns == "None":
            action = action.removeprefix("return ")
    else:
        inner = f"self._inner.{node.name}" + ("" if "property" in marks else f"({call})")
        twin = returns.partition("[")[0]
        action = f"return {twin}(self._portal, {inner})" if twin in TWINS.values() else f"return {inner}"
    doc = ast.get_docstring(node, clean=False)
    lines = [f"@{mark}" for mark in marks]
    lines += [f"def {node.name}({ast.unparse(_renamed(node.args))}) -> {returns}:"]
    lines += [f'    """{doc}"""'] if doc else []
    return "\n".join(f"    {line}" for line in [*lines, f"    {action}"])


def _call(node: ast.FunctionDef | ast.AsyncFunctionDef, first: str) -> str:
    """The parameters, handed on as they came."""
    spec = node.args
    if spec.posonlyargs or spec.kwarg:
        raise SchemaError(f"{node.name}: no sync twin for such parameters")
    names = [argument.arg for argument in spec.args if argument.arg != first]
    names += [f"*{spec.vararg.arg}"] if spec.vararg else []
    return ", ".join([*names, *(f"{argument.arg}={argument.arg}" for argument in spec.kwonlyargs)])


class _Rename(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(TWINS.get(node.id, node.id), node.ctx)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id == STREAM and isinstance(node.slice, ast.Tuple):
            return ast.Subscript(ast.Name("Stream", ast.Load()), node.slice.elts[0], node.ctx)
        return node


def _renamed(node: ast.AST) -> ast.AST:
    """The same annotation or parameters, in terms of the sync face."""
    copied = ast.parse(ast.unparse(node), mode="eval").body if isinstance(node, ast.expr) else _copied(node)
    renamed: ast.AST = _Rename().visit(copied)
    return ast.fix_missing_locations(renamed)


def _copied(node: ast.AST) -> ast.AST:
    function = ast.parse(f"def f({ast.unparse(node)}): ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    return function.args


def _formatted(text: str) -> str:
    """Sorted and laid out by ruff, as everything else is."""
    for arguments in (("check", "--fix", "--select", "I", "--quiet"), ("format", "--quiet")):
        command = [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", str(SOURCE / "sync.py"), "-"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=ROOT)
        if done.returncode:
            raise SchemaError(f"ruff cannot format the sync face: {done.stderr.strip()}")
        text = done.stdout
    return text
