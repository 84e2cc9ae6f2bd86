"""A public function that raises an error says so in its docstring."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from support.source_files import text_of, tree_of

SOURCE = Path(__file__).parents[2] / "src/manta"
BUGS = {"AssertionError", "NotImplementedError"}
"""Raised where the code itself is wrong: no caller expects them."""


def functions(body: Iterable[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The public functions of a module, and the public methods of its public classes."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from functions(node.body)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name[0] != "_":
            yield node


def raised(node: ast.AST) -> Iterator[str]:
    """The names of errors that leave the node: what an `except` around it catches stays inside."""
    if isinstance(node, ast.Raise) and node.exc is not None:
        made = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        yield ast.unparse(made)
    tried: tuple[ast.stmt, ...] = ()
    caught = set[str]()
    if isinstance(node, ast.Try):
        tried = tuple(node.body)
        caught = {word for one in node.handlers if one.type for word in _names(one.type)}
    for child in ast.iter_child_nodes(node):
        yield from (name for name in raised(child) if child not in tried or name not in caught)


def _names(errors: ast.expr) -> list[str]:
    return re.findall(r"\w+", ast.unparse(errors))


def is_verb(path: Path, name: str) -> bool:
    """`run` of a verb: `cli/main.py` prints the UsageError of any of them."""
    return name == "run" and path.parts[0] == "cli"


def test_a_public_function_says_which_errors_it_raises() -> None:
    silent = []
    for path in sorted(SOURCE.rglob("*.py")):
        relative = path.relative_to(SOURCE)
        for node in functions(tree_of(path).body):
            names = {name for name in raised(node) if name[0].isupper()} - BUGS
            says = "raise" in (ast.get_docstring(node) or "").lower()
            if names and not says and not is_verb(relative, node.name):
                silent.append(f"{relative}:{node.lineno} {node.name}: {sorted(names)}")
    assert not silent


def test_no_docstring_begins_in_the_middle_of_a_sentence() -> None:
    """`Of one request.` makes the reader look for the noun; `The body of one request.` does not."""
    cut = re.compile(r'"""(?:Of|That of|Those of|As that of) ')
    found = [
        f"{path.relative_to(SOURCE)}: {line.strip()}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line in text_of(path).splitlines()
        if cut.search(line)
    ]
    assert found == []
