"""The mutants of a source file: one operator, comparison or constant changed. Pure.

Not mutated, because no test should notice: annotations, docstrings, texts for people (strings with a
space, f-strings, arguments of loggers and exceptions), and the keywords of classes and decorators.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final

COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_FOR_PEOPLE: Final = frozenset(("log", "print", "TypeVar", "NewType", "cast", "getLogger"))
_LONGEST_NAME: Final = 60


@dataclass(frozen=True, slots=True)
class Mutant:
    path: str
    """Below the root of the repository."""
    number: int
    """Its place among the mutants of the file."""
    line: int
    column: int
    change: str
    """`== → !=`, for people."""

    @property
    def package(self) -> str:
        return self.path.removeprefix("src/manta/").partition("/")[0]


def mutants_of(path: str, source: str) -> list[Mutant]:
    """All mutants of a file, in the order of its syntax tree."""
    return [
        Mutant(path, number, place.line, place.column, place.change)
        for number, place in enumerate(_places(ast.parse(source)))
    ]


def mutated_code(mutant: Mutant, source: str, filename: str) -> CodeType:
    """The code of the whole module with this one change."""
    tree = ast.parse(source)
    for number, place in enumerate(_places(tree)):
        if number == mutant.number:
            place.apply()
            break
    else:
        raise ValueError(f"{mutant.path} has no mutant {mutant.number}")
    ast.fix_missing_locations(tree)
    return compile(tree, filename, "exec", dont_inherit=True)


@dataclass(frozen=True, slots=True)
class _Place:
    """A field of a node, and what to put there."""

    node: ast.AST
    field: str
    at: int | None
    value: Any
    line: int
    column: int
    change: str

    def apply(self) -> None:
        if self.at is None:
            setattr(self.node, self.field, self.value)
        else:
            getattr(self.node, self.field)[self.at] = self.value


def _places(tree: ast.Module) -> Iterator[_Place]:
    """The tree is walked by hand: the order and what is left out must be known."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        for field, at, child in reversed(list(_children(node))):
            del field, at
            stack.append(child)
        for field, at, child in _children(node):
            yield from _changes(node, field, at, child)
        yield from _own_changes(node)


def _children(node: ast.AST) -> Iterator[tuple[str, int | None, ast.AST]]:
    left_out = _left_out(node)
    for field, value in ast.iter_fields(node):
        if field in left_out:
            continue
        if isinstance(value, ast.AST):
            yield field, None, value
        elif isinstance(value, list):
            for at, one in enumerate(value):
                if isinstance(one, ast.AST) and not _is_docstring(one):
                    yield field, at, one


def _left_out(node: ast.AST) -> frozenset[str]:
    match node:
        case ast.AnnAssign():
            return frozenset(("annotation", "target"))
        case ast.arg():
            return frozenset(("annotation",))
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return frozenset(("decorator_list", "returns"))
        case ast.ClassDef():
            return frozenset(("decorator_list", "keywords", "bases"))
        case ast.Raise() | ast.Import() | ast.ImportFrom() | ast.JoinedStr():
            return frozenset(node._fields)
        case ast.Call(func=func) if _is_for_people(func):
            return frozenset(node._fields)
        case ast.Subscript(value=ast.Name(id=name)) if name[:1].isupper():
            return frozenset(node._fields)  # a type
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return frozenset(node._fields)
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return frozenset(node._fields)
        case _:
            return frozenset()


def _is_for_people(func: ast.expr) -> bool:
    while isinstance(func, ast.Attribute):
        func = func.value if not isinstance(func.value, ast.Call) else ast.Name(id="")
    return isinstance(func, ast.Name) and func.id in _FOR_PEOPLE


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _changes(parent: ast.AST, field: str, at: int | None, child: ast.AST) -> Iterator[_Place]:
    """Changes that put another node in the place of `child`."""
    if isinstance(child, ast.Constant):
        other = _other_constant(child.value)
        if other is not None:
            new = ast.copy_location(ast.Constant(other), child)
            yield _Place(
                parent,
                field,
                at,
                new,
                child.lineno,
                child.col_offset,
                f"{child.value!r} → {other!r}",
            )
    elif isinstance(child, ast.UnaryOp) and isinstance(child.op, ast.Not):
        yield _Place(parent, field, at, child.operand, child.lineno, child.col_offset, "not x → x")


def _other_constant(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str() if value and " " not in value and "\n" not in value:
            return f"XX{value}" if len(value) <= _LONGEST_NAME else None
        case _:
            return None


def _own_changes(node: ast.AST) -> Iterator[_Place]:
    """Changes of the operator of this node."""
    match node:
        case ast.Compare():
            for at, op in enumerate(node.ops):
                yield _operator(node, "ops", at, op, COMPARISONS[type(op)]())
        case ast.BoolOp(op=ast.And()):
            yield _operator(node, "op", None, node.op, ast.Or())
        case ast.BoolOp(op=ast.Or()):
            yield _operator(node, "op", None, node.op, ast.And())
        case ast.BinOp() | ast.AugAssign() if type(node.op) in OPERATORS:
            if not (isinstance(node, ast.BinOp) and _is_of_types(node)):
                yield _operator(node, "op", None, node.op, OPERATORS[type(node.op)]())


def _is_of_types(node: ast.BinOp) -> bool:
    """`A | B` and `X | None` are types, not numbers."""
    if not isinstance(node.op, ast.BitOr):
        return False
    sides = (node.left, node.right)
    return any(
        (isinstance(one, ast.Name) and one.id[:1].isupper())
        or (isinstance(one, ast.Constant) and one.value is None)
        or (isinstance(one, ast.BinOp) and _is_of_types(one))
        for one in sides
    )


def _operator(node: Any, field: str, at: int | None, old: ast.AST, new: ast.AST) -> _Place:
    change = f"{_symbol(old)} → {_symbol(new)}"
    return _Place(node, field, at, new, node.lineno, node.col_offset, change)


_SYMBOLS: Final = {
    "Eq": "==",
    "NotEq": "!=",
    "Lt": "<",
    "LtE": "<=",
    "Gt": ">",
    "GtE": ">=",
    "Is": "is",
    "IsNot": "is not",
    "In": "in",
    "NotIn": "not in",
    "And": "and",
    "Or": "or",
    "Add": "+",
    "Sub": "-",
    "Mult": "*",
    "Div": "/",
    "FloorDiv": "//",
    "Mod": "%",
    "Pow": "**",
    "BitOr": "|",
    "BitAnd": "&",
    "LShift": "<<",
    "RShift": ">>",
}


def _symbol(node: ast.AST) -> str:
    return _SYMBOLS[type(node).__name__]


# ── code objects ─────────────────────────────────────────────────────────────────────────


def changed_functions(old: CodeType, new: CodeType) -> list[tuple[CodeType, CodeType]] | None:
    """The code of each function before and after; None if code of a module or class changes.

    That code has run already when the module was imported: such a mutant needs a new process.
    """
    inner_old = [one for one in old.co_consts if isinstance(one, CodeType)]
    inner_new = [one for one in new.co_consts if isinstance(one, CodeType)]
    if len(inner_old) != len(inner_new):
        return None
    found: list[tuple[CodeType, CodeType]] = []
    for before, after in zip(inner_old, inner_new, strict=True):
        if before == after:
            continue
        below = changed_functions(before, after)
        if below is None:
            return None
        found += below
    is_function = bool(old.co_flags & 0x2)  # CO_NEWLOCALS: not a module, nor a class
    if is_function:
        return [*found, (old, new)]
    return found if _same_statements(old, new) else None


def _same_statements(old: CodeType, new: CodeType) -> bool:
    def plain(code: CodeType) -> tuple[Any, ...]:
        kept = tuple(one for one in code.co_consts if not isinstance(one, CodeType))
        return code.co_code, repr(kept), code.co_names

    return plain(old) == plain(new)
