"""Labels, annotations and the like are spelled out in two modules; all others use the constants."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from manta.api import well_known
from manta.api.ray import names
from support.source_files import text_of, tree_of

SOURCE = Path(__file__).parents[2] / "src/manta"
KUBERNETES, RAY = SOURCE / "api/well_known.py", SOURCE / "api/ray/names.py"

QUALIFIED = re.compile(
    r"(?:[a-z0-9-]+\.)+(?:io|sh|dev|org|com|scheduler)/(?!v\d+(?:$|alpha|beta|/))[A-Za-z0-9][\w.-]*"
)
"""The key of a label or annotation, such as `ray.io/cluster`; `ray.io/v1` is an API version."""
PREFIXES = ("ANNOTATION_", "ENV_", "FINALIZER_", "LABEL_", "OPERATOR_ENV_")
WORDS = {"queue"}
"""Keys that are common words: they occur with other meanings."""


def modules() -> list[Path]:
    found = sorted(SOURCE.rglob("*.py"))
    return [path for path in found if "schemas" not in path.parts and path not in (KUBERNETES, RAY)]


def literals(tree: ast.Module) -> Iterator[tuple[int, str, bool]]:
    """(line, text, whether it is a part of an f-string) of each string that is no docstring."""
    formatted = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value, id(node) in formatted


def constants(module: object) -> dict[str, object]:
    return {name: value for name, value in vars(module).items() if name.isupper()}


def is_qualified(text: str, *, formatted: bool) -> bool:
    if formatted:  # `f"{label}=x,ray.io/cluster"`; but not a path or a URL
        return any(QUALIFIED.fullmatch(word) for word in re.split(r"[\s,='()\[\]]", text))
    key, _, _ = text.partition("=")  # a label selector
    return QUALIFIED.fullmatch(key) is not None


def test_no_other_module_spells_out_a_name() -> None:
    known = {
        value
        for name, value in constants(names).items()
        if name.startswith(PREFIXES) and value not in WORDS
    }
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {text}"
        for path in modules()
        for line, text, formatted in literals(tree_of(path))
        if text in known or is_qualified(text, formatted=formatted)
    ]
    assert not found, f"use a constant of api/{KUBERNETES.name} or api/ray/{RAY.name}"


@pytest.mark.parametrize("module", [well_known, names], ids=["well_known", "ray.names"])
def test_every_name_is_used_and_means_one_thing(module: object) -> None:
    used = {word for path in modules() for word in re.findall(r"\w+", text_of(path))}
    assert not constants(module).keys() - used
    both = constants(well_known).keys() & constants(names).keys()
    assert not both


UNITS = re.compile(
    r"(?:^|_)(?:SECONDS|BYTES|CHARACTERS|MICROSECONDS|MILLISECONDS|SHARE)$|^[KMG]IB$|^_[KMG]IB$"
)
SAYS_UNIT = re.compile(
    r"\b(?:seconds?|bytes?|characters|lifetime|times|share|a second|factor|multiple)\b|\bof\b.* part",
    re.IGNORECASE,
)


def _amounts(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """(line, name, docstring) of the constants that are a float or a multiple of 1024."""
    for scope in ast.walk(tree):
        if not isinstance(scope, ast.Module | ast.ClassDef):
            continue
        for node, after in itertools.zip_longest(scope.body, scope.body[1:]):
            if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
                continue
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if not isinstance(target, ast.Name) or not target.id.isupper():
                continue
            if _is_amount(node.value):
                text = after.value if isinstance(after, ast.Expr) else None
                yield node.lineno, target.id, ast.unparse(text) if text is not None else ""


def _is_amount(value: ast.expr) -> bool:
    if isinstance(value, ast.BinOp):
        if isinstance(value.op, ast.Mult | ast.Pow) and "1024" in ast.unparse(value):
            return True
        return _is_amount(value.left) or _is_amount(value.right)
    return isinstance(value, ast.Constant) and isinstance(value.value, float)


def test_the_unit_of_an_amount_is_in_its_name_or_its_docstring() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {name}"
        for path in modules()
        for line, name, docstring in _amounts(tree_of(path))
        if not UNITS.search(name) and not SAYS_UNIT.search(docstring)
    ]
    assert found == []
