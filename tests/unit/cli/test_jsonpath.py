"""kubectl's JSONPath templates (P11)."""

from __future__ import annotations

import pytest

from manta.api.usage import UsageError
from manta.cli.output.jsonpath import render

PODS = {
    "items": [
        {"metadata": {"name": "a", "labels": {"x.y/z": "1"}}, "spec": {"n": 1}, "ok": True},
        {"metadata": {"name": "b"}, "spec": {"n": 2, "deep": {"name": "c"}}},
    ]
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.items[*].metadata.name}", "a b"),
        ("{.items[0].metadata.name}", "a"),
        ("{.items[-1].metadata.name}", "b"),
        ("{.items[0:1].metadata.name}", "a"),
        ("{.items[0,1].spec.n}", "1 2"),
        ("{.items[7].metadata.name}", ""),
        ("{.items[0].ok}", "true"),
        ("{.items[0].spec}", '{"n":1}'),
        ("{.items[0].metadata.labels.x\\.y/z}", "1"),
        ("{.items[0].metadata.labels['x.y/z']}", "1"),
        ("{.items[0]['metadata'].name}", "a"),
        ("{..name}", "a b c"),
        ('{range .items[*]}{.metadata.name}{"\\t"}{.spec.n}{"\\n"}{end}', "a\t1\nb\t2\n"),
        ('{.items[?(@.metadata.name=="b")].spec.n}', "2"),
        ("{.items[?(@.spec.n>1)].metadata.name}", "b"),
        ("{.items[?(@.spec.deep)].metadata.name}", "b"),
        ("name: {.items[0].metadata.name}!", "name: a!"),
        ("{$.items[0].metadata.name}", "a"),
        (".items[0].metadata.name", "a"),
        ("items[0].metadata.name", "a"),
    ],
)
def test_a_template_is_filled_in(template: str, text: str) -> None:
    assert render(template, PODS) == text


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{.a", "brace"),
        ("{range .items[*]}x", "without its {end}"),
        ("{end}", "without its {range}"),
        ("{.items[x]}", "not an index"),
        ("{.items[?(x)]}", "not a filter"),
    ],
)
def test_what_cannot_be_read_is_named(template: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        render(template, PODS)
