"""Label and field selectors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from manta.api.names import label_value_errors, qualified_name_errors


class SelectorError(ValueError):
    """The text is not a selector; the message names the invalid part."""


class Operator(StrEnum):
    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    ABSENT = "!"
    GREATER = ">"
    LESS = "<"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label. `=` is `in` with one value, `!=` is `notin` with one."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.ABSENT:
                return value is None
            case Operator.GREATER:
                return _compares(value, self.values, greater=True)
            case Operator.LESS:
                return _compares(value, self.values, greater=False)

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.ABSENT:
                return f"!{self.key}"
            case Operator.GREATER | Operator.LESS:
                return f"{self.key}{self.operator}{next(iter(self.values))}"
            case Operator.IN | Operator.NOT_IN if len(self.values) == 1:
                sign = "=" if self.operator is Operator.IN else "!="
                return f"{self.key}{sign}{next(iter(self.values))}"
            case _:
                return f"{self.key} {self.operator} ({','.join(sorted(self.values))})"


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must hold. No requirement: everything matches, unless `nothing`."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        return not self.nothing and all(one.matches(labels) for one in self.requirements)

    def __str__(self) -> str:
        return ",".join(str(one) for one in self.requirements)

    @property
    def empty(self) -> bool:
        return not self.requirements and not self.nothing


EVERYTHING: Final = LabelSelector()
NOTHING: Final = LabelSelector(nothing=True)


def from_object(selector: Mapping[str, Any] | None) -> LabelSelector:
    """A `LabelSelector` object. None selects nothing, an empty one everything."""
    if selector is None:
        return NOTHING
    requirements = [
        equals(key, value) for key, value in (selector.get("matchLabels") or {}).items()
    ]
    requirements += [_expression(one) for one in selector.get("matchExpressions") or ()]
    return LabelSelector(tuple(sorted(requirements, key=lambda one: one.key)))


def equals(key: str, value: str) -> Requirement:
    return _requirement(key, Operator.IN, [value])


_EXPRESSION_OPERATORS: Final = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.ABSENT,
}


def _expression(expression: Mapping[str, Any]) -> Requirement:
    name = expression.get("operator", "")
    if name not in _EXPRESSION_OPERATORS:
        known = ", ".join(_EXPRESSION_OPERATORS)
        raise SelectorError(f"{name!r} is not a valid label selector operator; one of {known}")
    operator = _EXPRESSION_OPERATORS[name]
    return _requirement(expression.get("key", ""), operator, expression.get("values") or ())


_TOKEN = re.compile(r"\s*(!=|==|=|!|,|\(|\)|>|<|[^\s!=,()<>]+)\s*")


def parse_label_selector(text: str) -> LabelSelector:
    """The selector of `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1,m<2`. Raises SelectorError."""
    if not text.strip():
        return EVERYTHING
    parser = _Parser(text)
    return LabelSelector(tuple(sorted(parser.requirements(), key=lambda one: one.key)))


class _Parser:
    """A recursive descent parser of one selector."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tuple(match[1] for match in _TOKEN.finditer(text))
        self.next = 0

    def requirements(self) -> Iterator[Requirement]:
        if self._peek() in _SIGNS - {"!"}:
            raise self._outside(", expected: !, identifier, or 'end of string'")
        yield self._requirement()
        while self._peek() is not None:
            if self._peek() != ",":
                raise self._outside(", expected: ',' or 'end of string'")
            self._take()
            if self._peek() is None or self._peek() in _SIGNS - {"!"}:
                raise self._outside(", expected: identifier after ','")
            yield self._requirement()

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._take()
            return _requirement(self._word(), Operator.ABSENT, ())
        key = self._word()
        _check_key(key)
        sign = self._peek()
        if sign is None or sign == ",":
            return _requirement(key, Operator.EXISTS, ())
        self._take()
        match sign:
            case "=" | "==":
                return _requirement(key, Operator.IN, [self._value()])
            case "!=":
                return _requirement(key, Operator.NOT_IN, [self._value()])
            case "in" | "notin":
                return _requirement(key, Operator(sign), self._set())
            case ">" | "<":
                return _requirement(key, Operator(sign), [self._value()])
            case _:
                self.next -= 1
                raise self._error(", expected: in, notin, =, ==, !=, gt, lt")

    def _set(self) -> list[str]:
        if self._peek() != "(":
            raise self._error(" expected: '('")
        self._take()
        values = [self._value()]
        while self._peek() == ",":
            self._take()
            values.append(self._value())
        if self._peek() != ")":
            raise self._error(", expected: ',' or ')'")
        self._take()
        return values

    def _value(self) -> str:
        """A value, which may be empty."""
        return "" if self._peek() in (None, ",", ")") else self._word()

    def _word(self) -> str:
        token = self._peek()
        if token is None or token in _SIGNS:
            raise self._error(", expected: identifier")
        return self._take()

    def _peek(self) -> str | None:
        return self.tokens[self.next] if self.next < len(self.tokens) else None

    def _take(self) -> str:
        self.next += 1
        return self.tokens[self.next - 1]

    def _error(self, wanted: str) -> SelectorError:
        return SelectorError(f"unable to parse requirement: {self._outside(wanted)}")

    def _outside(self, wanted: str) -> SelectorError:
        """The error for a token between requirements, with kube-apiserver's message."""
        return SelectorError(f"found '{self._peek() or ''}'{wanted}")


_SIGNS: Final = frozenset(("!=", "==", "=", "!", ",", "(", ")", ">", "<"))


def _requirement(key: str, operator: Operator, values: Iterable[str]) -> Requirement:
    wanted = frozenset(values)
    _check_key(key)
    errors = _value_errors(key, operator, wanted)
    if errors:
        raise SelectorError(f"unable to parse requirement: {'; '.join(errors)}")
    return Requirement(key, operator, wanted)


def _check_key(key: str) -> None:
    errors = "; ".join(qualified_name_errors(key))
    if errors:
        raise SelectorError(f'unable to parse requirement: <nil>: Invalid value: "{key}": {errors}')


def _value_errors(key: str, operator: Operator, values: frozenset[str]) -> list[str]:
    if operator in (Operator.IN, Operator.NOT_IN) and not values:
        detail = "for 'in', 'notin' operators, values set can't be empty"
        return [f"values: Invalid value: []: {detail}"]
    if operator in (Operator.EXISTS, Operator.ABSENT) and values:
        return ["values set must be empty for exists and does not exist"]
    if operator in (Operator.GREATER, Operator.LESS):
        detail = "for 'Gt', 'Lt' operators, the value must be an integer"
        return [
            f'values[0]: Invalid value: "{one}": {detail}' for one in values if not _is_integer(one)
        ]
    return [
        f'values[{index}][{key}]: Invalid value: "{one}": {error}'
        for index, one in enumerate(sorted(values))
        for error in label_value_errors(one)
    ]


_INTEGER = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_INT64 = 1 << 63


def _is_integer(text: str) -> bool:
    """A 64-bit integer, as Kubernetes parses it."""
    return _INTEGER.fullmatch(text) is not None and -_INT64 <= int(text) < _INT64


def _compares(value: str | None, bounds: frozenset[str], *, greater: bool) -> bool:
    if value is None or not _is_integer(value):
        return False
    bound = int(next(iter(bounds)))
    return int(value) > bound if greater else int(value) < bound


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    path: str
    value: str
    equal: bool = True

    def matches(self, fields: Mapping[str, str]) -> bool:
        return (fields.get(self.path, "") == self.value) is self.equal

    def __str__(self) -> str:
        value = re.sub(r"[\\,=]", r"\\\g<0>", self.value)
        return f"{self.path}{'=' if self.equal else '!='}{value}"


@dataclass(frozen=True, slots=True)
class FieldSelector:
    requirements: tuple[FieldRequirement, ...] = ()

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether it matches. `fields` maps the supported paths to values; absent means empty."""
        return all(one.matches(fields) for one in self.requirements)

    def exact(self, path: str) -> str | None:
        """The one value that `path` must have, if the selector names it."""
        return next(
            (one.value for one in self.requirements if one.equal and one.path == path), None
        )

    def __str__(self) -> str:
        return ",".join(str(one) for one in self.requirements)


_FIELD = re.compile(r"([^=!]+)(==|!=|=)((?:[^\\,=]|\\[\\,=])*)")


_SAYS_NOTHING = ("=", "==", "!=")
"""A term without field and value, which kube-apiserver ignores."""


def parse_field_selector(text: str) -> FieldSelector:
    """The selector of `metadata.name=a,status.phase!=Running`; a backslash escapes `,`, `=` and itself. Raises
    SelectorError."""
    requirements: list[FieldRequirement] = []
    for term in _split_terms(text):
        if term in _SAYS_NOTHING:
            continue
        match = _FIELD.fullmatch(term)
        if match is None:
            raise SelectorError(_field_fault(text, term))
        value = re.sub(r"\\([\\,=])", r"\1", match[3])
        requirements.append(FieldRequirement(match[1], value, equal=match[2] != "!="))
    return FieldSelector(tuple(requirements))


def _field_fault(text: str, term: str) -> str:
    rest = re.match(r"[^=!]+(?:==|!=|=)(?P<value>.*)", term, re.DOTALL)
    if rest is None:
        return f"invalid selector: '{text}'; can't understand '{term}'"
    odd = re.search(r"(?<!\\)[=\\]", rest["value"])
    return f"invalid field selector: unescaped character in value: {ord(odd[0]) if odd else 92}"


_TERM = re.compile(r"(?:[^\\,]|\\.|\\$)+", re.DOTALL)


def _split_terms(text: str) -> list[str]:
    """Split at commas that are not escaped by a backslash."""
    return _TERM.findall(text.strip())
