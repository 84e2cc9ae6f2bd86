"""Compiles a tree to closures: once per expression, to run for every object.

Each closure takes the scope and returns a value or raises EvaluationError. As CEL defines it,
`false && error` is false, whichever side the error is on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from manta.localplane.apiserver.schema.cel.errors import (
    NO_OVERLOAD,
    BadExpressionError,
    EvaluationError,
)
from manta.localplane.apiserver.schema.cel.functions import GLOBALS, METHODS
from manta.localplane.apiserver.schema.cel.parser import (
    Call,
    Index,
    ListOf,
    Literal,
    MapOf,
    Name,
    Operation,
    Select,
    Tree,
    parse,
)
from manta.localplane.apiserver.schema.cel.values import BINARY, Maybe, is_number

MAX_STEPS = 200_000
"""Loop iterations of one evaluation; kube-apiserver has a similar cost limit."""

_ESCAPES = {"__underscores__": "__", "__dot__": ".", "__dash__": "-", "__slash__": "/"}
_TYPE_CONSTANTS = {
    "bool": "bool",
    "int": "int",
    "uint": "int",
    "double": "double",
    "string": "string",
    "bytes": "bytes",
    "list": "list",
    "map": "map",
    "null_type": "null_type",
}


class Scope:
    __slots__ = ("steps", "variables")

    def __init__(self, variables: dict[str, Any], steps: list[int]) -> None:
        self.variables = variables
        self.steps = steps

    def inner(self) -> Scope:
        return Scope(dict(self.variables), self.steps)

    def turn(self) -> None:
        """Count one iteration. Raises EvaluationError if there were too many."""
        self.steps[0] -= 1
        if self.steps[0] < 0:
            raise EvaluationError("operation cancelled: actual cost limit exceeded")


Code = Callable[[Scope], Any]


@dataclass(frozen=True, slots=True)
class Program:
    code: Code
    uses_old_self: bool

    def evaluate(self, variables: dict[str, Any]) -> Any:
        """The value of the expression. Raises EvaluationError."""
        try:
            return self.code(Scope(variables, [MAX_STEPS]))
        except (ArithmeticError, RecursionError) as error:  # such as a date beyond the year 9999
            raise EvaluationError(f"evaluation error: {error}") from None


def compile_expression(text: str) -> Program:
    """Return the program. Raises BadExpressionError for bad syntax and unknown names."""
    compiler = _Compiler()
    code = compiler.compile(parse(text), frozenset({"self", "oldSelf"}))
    return Program(code, "oldSelf" in compiler.used)


class _Compiler:
    def __init__(self) -> None:
        self.used: set[str] = set()

    def compile(self, tree: Tree, names: frozenset[str]) -> Code:
        match tree:
            case Literal(value):
                return lambda _: value
            case Name():
                return self._name(tree, names)
            case Select(target, field, optional):
                return _select(self.compile(target, names), _unescape(field), optional=optional)
            case Index(target, key, optional):
                return _index(
                    self.compile(target, names), self.compile(key, names), optional=optional
                )
            case Operation(symbol, operands):
                return _operation(symbol, [self.compile(part, names) for part in operands])
            case ListOf(items):
                parts = [self.compile(item, names) for item in items]
                return lambda scope: [part(scope) for part in parts]
            case MapOf(entries):
                return self._map(entries, names)
            case Call():
                return self._call(tree, names)

    def _name(self, tree: Name, names: frozenset[str]) -> Code:
        name = tree.name
        if name in names:
            self.used.add(name)
            return lambda scope: scope.variables[name]
        if name in _TYPE_CONSTANTS:
            constant = _TYPE_CONSTANTS[name]
            return lambda _: constant
        message = f"undeclared reference to '{name}' (in container '')"
        raise BadExpressionError(message, tree.at)

    def _map(self, entries: tuple[tuple[Tree, Tree], ...], names: frozenset[str]) -> Code:
        pairs = [(self.compile(key, names), self.compile(value, names)) for key, value in entries]
        return lambda scope: {key(scope): value(scope) for key, value in pairs}

    def _call(self, call: Call, names: frozenset[str]) -> Code:
        if call.target is None and call.name == "has":
            return self._has(call, names)
        if call.target is not None and call.name in _LOOPS:
            return self._loop(call, names)
        if call.target is not None and call.name in {"optMap", "optFlatMap"}:
            return self._of_optional(call, names)
        if isinstance(call.target, Name) and call.target.name not in names:
            qualified = f"{call.target.name}.{call.name}"
            if (qualified, len(call.args)) in GLOBALS:
                call = Call(qualified, None, call.args, call.at)
        args = [self.compile(arg, names) for arg in call.args]
        if call.target is None:
            function = GLOBALS.get((call.name, len(args)))
        else:
            function = METHODS.get((call.name, len(args)))
            args.insert(0, self.compile(call.target, names))
        if function is None:
            message = f"undeclared reference to '{call.name}' (in container '')"
            raise BadExpressionError(message, call.at)
        found = function
        return lambda scope: found(*[arg(scope) for arg in args])

    def _of_optional(self, call: Call, names: frozenset[str]) -> Code:
        """`o.optMap(x, f(x))`: f of the value, if there is one."""
        match call.args:
            case (Name(variable), body) if call.target is not None:
                pass
            case _:
                raise BadExpressionError(f"invalid arguments to {call.name}() macro")
        holder, code = self.compile(call.target, names), self.compile(body, names | {variable})

        def run(scope: Scope) -> Maybe:
            value = holder(scope)
            if not isinstance(value, Maybe):
                raise EvaluationError(NO_OVERLOAD)
            if not value.present:
                return value
            inner = scope.inner()
            inner.variables[variable] = value.value
            found = code(inner)
            if call.name == "optMap":
                return Maybe(found, present=True)
            if not isinstance(found, Maybe):
                raise EvaluationError(NO_OVERLOAD)
            return found

        return run

    def _has(self, call: Call, names: frozenset[str]) -> Code:
        match call.args:
            case (Select(target, field, False),):
                pass
            case _:
                raise BadExpressionError("invalid argument to has() macro")
        holder, name = self.compile(target, names), _unescape(field)

        def has(scope: Scope) -> bool:
            value = holder(scope)
            if isinstance(value, Maybe):
                value = value.value if value.present else {}
            if type(value) is not dict:
                raise EvaluationError(NO_OVERLOAD)
            return value.get(name) is not None

        return has

    def _loop(self, call: Call, names: frozenset[str]) -> Code:
        assert call.target is not None
        variable, *bodies = call.args
        wanted = {1, 2} if call.name == "map" else {1}
        if not isinstance(variable, Name) or len(bodies) not in wanted:
            raise BadExpressionError(f"invalid arguments to {call.name}() macro")
        inside = names | {variable.name}
        codes = [self.compile(body, inside) for body in bodies]
        return _LOOPS[call.name](self.compile(call.target, names), variable.name, codes)


def _unescape(field: str) -> str:
    """Return the field name: names that are not identifiers, or keywords, are escaped."""
    if "__" not in field:
        return field
    for escaped, plain in _ESCAPES.items():
        field = field.replace(escaped, plain)
    if field.startswith("__") and field.endswith("__") and len(field) > 4:
        return field[2:-2]
    return field


def _select(holder: Code, field: str, *, optional: bool) -> Code:
    def select(scope: Scope) -> Any:
        value = holder(scope)
        if optional or isinstance(value, Maybe):
            inner = value.value if isinstance(value, Maybe) else value
            found = type(inner) is dict and inner.get(field) is not None
            return Maybe(inner[field] if found else None, found)
        if type(value) is not dict:
            raise EvaluationError(NO_OVERLOAD)
        if field not in value:
            raise EvaluationError(f"no such key: {field}")
        return value[field]

    return select


def _index(holder: Code, key: Code, *, optional: bool) -> Code:
    def look(value: Any, at: Any) -> Any:
        if type(value) is list and is_number(at) and at == int(at):
            if not 0 <= at < len(value):
                raise EvaluationError(f"index out of bounds: {at}")
            return value[int(at)]
        if type(value) is dict:
            if at not in value:
                raise EvaluationError(f"no such key: {at}")
            return value[at]
        raise EvaluationError(NO_OVERLOAD)

    def index(scope: Scope) -> Any:
        value, at = holder(scope), key(scope)
        if not optional:
            return look(value, at)
        try:
            return Maybe(look(value, at), present=True)
        except EvaluationError:
            return Maybe(None, present=False)

    return index


def _operation(symbol: str, parts: list[Code]) -> Code:
    if symbol == "&&":
        return _logic(*parts, decisive=False)
    if symbol == "||":
        return _logic(*parts, decisive=True)
    if symbol == "?":
        condition, then, otherwise = parts
        return lambda scope: then(scope) if _truth(condition(scope)) else otherwise(scope)
    if symbol == "not":
        return lambda scope: not _truth(parts[0](scope))
    if symbol == "negative":
        return lambda scope: BINARY["-"](type(value := parts[0](scope))(0), value)
    left, right = parts
    operate = BINARY[symbol]
    return lambda scope: operate(left(scope), right(scope))


def _truth(value: Any) -> bool:
    if type(value) is not bool:
        raise EvaluationError(NO_OVERLOAD)
    return value


def _logic(left: Code, right: Code, *, decisive: bool) -> Code:
    """And, or: a decisive side wins, even if the other one fails."""

    def decide(scope: Scope) -> bool:
        try:
            first = _truth(left(scope))
        except EvaluationError:
            if _truth(right(scope)) is decisive:
                return decisive
            raise
        return first if first is decisive else _truth(right(scope))

    return decide


def _elements(value: Any) -> Any:
    if type(value) is list or type(value) is dict:
        return value
    raise EvaluationError(NO_OVERLOAD)


def _each(holder: Code, variable: str, body: Code) -> Callable[[Scope], Any]:
    """Yield (element, value of the body) pairs."""

    def run(scope: Scope) -> Any:
        inner = scope.inner()
        for element in _elements(holder(scope)):
            scope.turn()
            inner.variables[variable] = element
            yield element, body(inner)

    return run


def _quantifier(*, decisive: bool) -> Callable[[Code, str, list[Code]], Code]:
    """all() and exists(): the first decisive element wins; an error counts only without one."""

    def build(holder: Code, variable: str, bodies: list[Code]) -> Code:
        body = bodies[0]

        def run(scope: Scope) -> bool:
            inner = scope.inner()
            failure: EvaluationError | None = None
            for element in _elements(holder(scope)):
                scope.turn()
                inner.variables[variable] = element
                try:
                    if _truth(body(inner)) is decisive:
                        return decisive
                except EvaluationError as error:
                    failure = error
            if failure is not None:
                raise failure
            return not decisive

        return run

    return build


def _exists_one(holder: Code, variable: str, bodies: list[Code]) -> Code:
    each = _each(holder, variable, bodies[0])
    return lambda scope: sum(_truth(value) for _, value in each(scope)) == 1


def _filter(holder: Code, variable: str, bodies: list[Code]) -> Code:
    each = _each(holder, variable, bodies[0])
    return lambda scope: [element for element, value in each(scope) if _truth(value)]


def _map(holder: Code, variable: str, bodies: list[Code]) -> Code:
    if len(bodies) == 1:
        each = _each(holder, variable, bodies[0])
        return lambda scope: [value for _, value in each(scope)]
    condition, transform = bodies
    return _map(_filter(holder, variable, [condition]), variable, [transform])


_LOOPS: dict[str, Callable[[Code, str, list[Code]], Code]] = {
    "all": _quantifier(decisive=False),
    "exists": _quantifier(decisive=True),
    "exists_one": _exists_one,
    "existsOne": _exists_one,
    "filter": _filter,
    "map": _map,
}
