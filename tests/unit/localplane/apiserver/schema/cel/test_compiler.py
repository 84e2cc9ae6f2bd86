from __future__ import annotations

import pytest

from manta.localplane.apiserver.schema.cel import (
    BadExpressionError,
    EvaluationError,
    compile_expression,
)

SELF = {
    "a": 1,
    "b": {"c": "x"},
    "list": [1, 2, 3],
    "names": ["ab", "cd"],
    "map": {"k": 1},
    "f": 1.5,
    "t": True,
    "a-b": 7,
    "namespace": "ns",
    "n": None,
}


def run(text: str, **variables):
    return compile_expression(text).evaluate({"self": SELF, **variables})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("self.a == 1 && self.b.c != 'y'", True),
        ("has(self.a) && !has(self.zzz)", True),
        ("has(self.n)", False),
        ("self.a in [1, 2]", True),
        ("'k' in self.map", True),
        ("self.b.c in ['x', 'y'] ? 'yes' : 'no'", "yes"),
        ("1 + 2 * 3 - 4 / 2 % 3", 5),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("7.0 / 2.0", 3.5),
        ("self.f == 1.5 && 1 == 1.0", True),
        ("'a' + \"b\" + r'\\n'", "ab\\n"),
        ("'\\u0041\\n'", "A\n"),
        ("'''it's'''", "it's"),
        ("size(self.list) == 3 && self.b.c.size() == 1", True),
        ("'hello'.startsWith('he') && 'hello'.endsWith('lo') && 'hello'.contains('ell')", True),
        ("'abc'.matches('^[a-c]+$')", True),
        ("self.list.all(x, x > 0)", True),
        ("self.list.exists(x, x == 2)", True),
        ("self.list.exists_one(x, x >= 2)", False),
        ("self.list.map(x, x * 2)", [2, 4, 6]),
        ("self.list.map(x, x > 1, x * 2)", [4, 6]),
        ("self.list.filter(x, x % 2 == 1)", [1, 3]),
        ("self.map.all(k, k == 'k')", True),
        ("self.list[0] == 1 && self['a'] == 1", True),
        ("{'x': [1]}", {"x": [1]}),
        ("self.a__dash__b == 7 && self.__namespace__ == 'ns'", True),
        ("self.?zzz.orValue('d') + self.b.?c.orValue('e')", "dx"),
        ("self.?b.?c.hasValue()", True),
        ("!(false || false)", True),
        ("true || self.zzz == 1", True),
        ("self.zzz == 1 || true", True),
        ("self.zzz == 1 && false", False),
        ("self.names.join(',') == 'ab,cd' && 'a,b'.split(',').size() == 2", True),
        ("string(self.a) + string(1.0) + string(true)", "11true"),
        ("int('3') + int(2.9)", 5),
        ("duration('1h30m') > duration('60s')", True),
        ("timestamp('2026-01-01T00:00:00Z') < timestamp('2026-01-02T00:00:00Z')", True),
        ("type(self.a) == int && type(self.b) == map", True),
        ("self.list.sum() == 6 && self.list.max() == 3 && self.list.isSorted()", True),
        ("'abcd'.substring(1, 3) == 'bc' && 'abcd'.indexOf('c') == 2", True),
        ("1 == 1 // a remark", True),
        ("true == 1", False),
        ("0x10", 16),
    ],
)
def test_an_expression_has_its_value(text, value) -> None:
    assert run(text) == value


def test_old_self_is_noticed() -> None:
    assert compile_expression("self == oldSelf").uses_old_self
    assert not compile_expression("self.oldSelf == 1").uses_old_self
    assert run("self.a > oldSelf.a", oldSelf={"a": 0}) is True


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("self.zzz == 1", "no such key: zzz"),
        ("self.a && true", "no such overload"),
        ("self.a < 'x'", "no such overload"),
        ("self.list[9]", "index out of bounds"),
        ("1 / 0", "division by zero"),
        ("9223372036854775807 + 1", "overflow"),
        ("self.b.c.matches('(')", "error parsing regexp"),
        ("self.list.all(x, x.y == 1)", "no such overload"),
        ("self.a.startsWith('x')", "no such overload"),
    ],
)
def test_a_failing_evaluation_says_why(text, error) -> None:
    with pytest.raises(EvaluationError, match=error):
        run(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "self.",
        "self ==",
        "(self",
        "frob(self)",
        "self.frob()",
        "other == 1",
        "self.all(x)",
        "has(self)",
        "self.size(1)",
        "'open",
        "1 # 2",
        "(" * 100 + "1" + ")" * 100,
    ],
)
def test_what_is_no_expression_is_refused_when_compiled(text) -> None:
    with pytest.raises(BadExpressionError):
        compile_expression(text)


def test_an_evaluation_cannot_run_forever() -> None:
    body = "self.all(a, self.all(b, self.all(c, true)))"
    with pytest.raises(EvaluationError, match="cost limit exceeded"):
        compile_expression(body).evaluate({"self": list(range(100))})
