"""Parses tokens to a tree. Precedence: ? :, ||, &&, comparisons, sums, products, signs, members."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from manta.localplane.apiserver.schema.cel.errors import BadExpressionError
from manta.localplane.apiserver.schema.cel.lexer import Token, tokenize


@dataclass(frozen=True, slots=True)
class Literal:
    value: Any


@dataclass(frozen=True, slots=True)
class Name:
    name: str
    at: int = 0


@dataclass(frozen=True, slots=True)
class Select:
    target: Tree
    field: str
    optional: bool = False
    at: int = 0


@dataclass(frozen=True, slots=True)
class Index:
    target: Tree
    key: Tree
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    target: Tree | None
    args: tuple[Tree, ...]
    at: int = 0


@dataclass(frozen=True, slots=True)
class Operation:
    symbol: str
    operands: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    items: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class MapOf:
    entries: tuple[tuple[Tree, Tree], ...]


Tree: TypeAlias = Literal | Name | Select | Index | Call | Operation | ListOf | MapOf

_LEVELS: tuple[frozenset[str], ...] = (
    frozenset({"||"}),
    frozenset({"&&"}),
    frozenset({"==", "!=", "<", "<=", ">", ">=", "in"}),
    frozenset({"+", "-"}),
    frozenset({"*", "/", "%"}),
)
_MAX_DEPTH = 64


def parse(text: str) -> Tree:
    """Return the tree of an expression. Raises BadExpressionError."""
    parser = _Parser(tokenize(text))
    tree = parser.expression()
    if parser.token.kind != "end":
        raise parser.unexpected()
    return tree


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._next = 0
        self._depth = 0

    @property
    def token(self) -> Token:
        return self._tokens[self._next]

    def unexpected(self) -> BadExpressionError:
        message = f"Syntax error: mismatched input '{self.token.value}'"
        return BadExpressionError(message, self.token.at)

    def _is(self, symbol: str) -> bool:
        token = self.token
        return token.value == symbol and token.kind in {"op", "name"}

    def _accept(self, *symbols: str) -> str | None:
        for symbol in symbols:
            if self._is(symbol):
                self._next += 1
                return symbol
        return None

    def _expect(self, symbol: str) -> None:
        if not self._accept(symbol):
            raise self.unexpected()

    def _identifier(self) -> str:
        if self.token.kind != "name" or self.token.value == "in":
            raise self.unexpected()
        self._next += 1
        return str(self._tokens[self._next - 1].value)

    def expression(self) -> Tree:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise BadExpressionError("expression is nested too deeply")
        condition = self._binary(0)
        if self._accept("?"):
            then = self._binary(0)
            self._expect(":")
            condition = Operation("?", (condition, then, self.expression()))
        self._depth -= 1
        return condition

    def _binary(self, level: int) -> Tree:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while symbol := self._accept(*_LEVELS[level]):
            left = Operation(symbol, (left, self._binary(level + 1)))
        return left

    def _unary(self) -> Tree:
        signs = []
        while sign := self._accept("!", "-"):
            signs.append(sign)
        tree = self._member()
        for sign in reversed(signs):
            tree = Operation("not" if sign == "!" else "negative", (tree,))
        return tree

    def _member(self) -> Tree:
        tree = self._primary()
        while True:
            at = self.token.at
            if symbol := self._accept(".", ".?"):
                field = self._identifier()
                if symbol == "." and self._accept("("):
                    at = self._tokens[self._next - 1].at
                    tree = Call(field, tree, self._list_until(")"), at)
                else:
                    tree = Select(tree, field, symbol == ".?", at)
            elif symbol := self._accept("[", "[?"):
                tree = Index(tree, self.expression(), optional=symbol == "[?")
                self._expect("]")
            else:
                return tree

    def _primary(self) -> Tree:
        token = self.token
        if token.kind == "value":
            self._next += 1
            return Literal(token.value)
        if self._accept("("):
            tree = self.expression()
            self._expect(")")
            return tree
        if self._accept("["):
            return ListOf(self._list_until("]"))
        if self._accept("{"):
            return self._map()
        self._accept(".")  # a leading dot means the root scope
        at = self.token.at
        name = self._identifier()
        if self._accept("("):
            at = self._tokens[self._next - 1].at
            return Call(name, None, self._list_until(")"), at)
        return Name(name, at)

    def _list_until(self, end: str) -> tuple[Tree, ...]:
        items: list[Tree] = []
        while not self._accept(end):
            items.append(self.expression())
            if not self._accept(","):
                self._expect(end)
                break
        return tuple(items)

    def _map(self) -> MapOf:
        entries: list[tuple[Tree, Tree]] = []
        while not self._accept("}"):
            key = self.expression()
            self._expect(":")
            entries.append((key, self.expression()))
            if not self._accept(","):
                self._expect("}")
                break
        return MapOf(tuple(entries))
