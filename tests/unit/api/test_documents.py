"""The one reader of JSON and YAML: values as Kubernetes reads them, and limits.

`data/sigs_yaml_1_6.json` is what sigs.k8s.io/yaml v1.6.0 (go.yaml.in/yaml/v2 v2.4.2) made of each
text: `YAMLToJSON`, and `YAMLToJSONStrict` where that refuses what the first takes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from manta.api.documents.limits import FIELD, FILE, REQUEST, DocumentError, Limits
from manta.api.documents.reader import read_documents, read_json, read_yaml

FACTS: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data/sigs_yaml_1_6.json").read_text()
)
TAKEN = {text: fact["json"] for text, fact in FACTS.items() if "json" in fact}
REFUSED = [text for text, fact in FACTS.items() if "error" in fact]
SMALL = Limits(bytes=200, depth=5, nodes=20)


def as_unstructured(value: Any) -> Any:
    """Kubernetes decodes that JSON next: an integer beyond int64 becomes a float64."""
    if isinstance(value, dict):
        return {key: as_unstructured(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [as_unstructured(inner) for inner in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
        return value if value == -(2**63) else float(value)
    return value


@pytest.mark.parametrize("text", TAKEN)
def test_a_yaml_text_means_what_it_means_to_kubernetes(text: str) -> None:
    """P5, S2: the table is the oracle's; the JSON text tells `1` from `true` and from `1.0`."""
    found = read_yaml(text, duplicates=[])
    assert json.dumps(found, sort_keys=True) == json.dumps(
        as_unstructured(TAKEN[text]), sort_keys=True
    )


@pytest.mark.parametrize("text", REFUSED)
def test_what_kubernetes_cannot_read_is_refused(text: str) -> None:
    with pytest.raises(DocumentError):
        read_yaml(text, duplicates=[])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("%YAML 1.2\n---\na: b", {"a": "b"}),
        ('{"a":1.0}', {"a": 1.0}),
        ('{"a":1e3}', {"a": 1000.0}),
    ],
)
def test_where_the_reader_differs_from_the_oracle(text: str, value: Any) -> None:
    """JSON stays JSON, as in kubectl, which does not send it through its YAML reader."""
    assert json.dumps(read_yaml(text)) == json.dumps(value)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("a: 1\na: 2", "a"),
        ("a: {b: 1, b: 2}", "b"),
        ('{"a": {"b": 1, "b": 2}}', "a.b"),
        ("yes: 1\ntrue: 2", "true"),
        ("1: a\n'1': b", "1"),
    ],
)
def test_a_key_that_is_given_twice_is_refused_or_reported(text: str, key: str) -> None:
    with pytest.raises(DocumentError, match=f'key "{key}"'):
        read_yaml(text)
    found: list[str] = []
    read_yaml(text, duplicates=found)
    assert len(found) == 1
    assert f'key "{key}" already set in map' in found[0]


def test_a_merged_key_may_be_overridden() -> None:
    text = "base: &base {a: 1, b: 2}\nmade: {<<: *base, b: 3}"
    assert read_yaml(text)["made"] == {"a": 1, "b": 3}


def test_two_aliases_of_one_anchor_share_nothing() -> None:
    found = read_yaml("a: &x {b: [1]}\nc: *x\nd: *x")
    found["c"]["b"].append(2)
    assert found["a"] == found["d"] == {"b": [1]}


def test_several_documents_are_read_in_order() -> None:
    assert read_documents("a: 1\n---\n# nothing\n---\nb: 2\n") == [{"a": 1}, None, {"b": 2}]
    assert read_yaml("---\n---\na: 1\n---\n") == {"a": 1}
    with pytest.raises(DocumentError, match="2 documents"):
        read_yaml("a: 1\n---\nb: 2\n")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x" * 201, "201 bytes: at most 200"),
        ("[[[[[[]]]]]]", "more than 5 levels"),
        ("- - - - - - a", "more than 5 levels"),
        ("[" + "1," * 20 + "]", "more than 20 values"),
        ("a: &a [1,2,3,4]\nb: &b [*a,*a]\nc: [*b,*b]", "more than 20 values"),
        (f"a: &a {'x' * 60}\nb: [*a,*a,*a]", "more than 200 bytes"),
        ("a: &a [[[1]]]\nb: [[*a]]", "more than 5 levels"),
    ],
)
def test_limits_hold_and_count_aliases_expanded(text: str, why: str) -> None:
    """X1, X3."""
    with pytest.raises(DocumentError, match=why):
        read_yaml(text, SMALL)


@pytest.mark.parametrize("limits", [FILE, REQUEST, FIELD])
@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 40_000,
        "a: " + "{a: " * 40_000,
        "- " * 40_000,
        "? " * 40_000,
        "[" * 40_000 + "]" * 40_000,
        '{"a":' * 40_000 + "1" + "}" * 40_000,
        "".join(f"{' ' * depth}a:\n" for depth in range(1000)),
    ],
    ids=["open lists", "open maps", "block lists", "keys", "json lists", "json maps", "block maps"],
)
def test_deep_nesting_is_an_error_and_no_crash(text: str, limits: Limits) -> None:
    """X1: the C loader recursed for each level and ended the process."""
    with pytest.raises(DocumentError):
        read_yaml(text, limits)


def test_an_alias_bomb_is_refused() -> None:
    """X3: 364 bytes were 1 GB."""
    rows = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    rows += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    with pytest.raises(DocumentError, match="aliases expanded"):
        read_yaml("\n".join(rows))


def test_json_has_the_same_limits() -> None:
    assert read_json("[" * 100 + "]" * 100, REQUEST)
    for text, why in (
        ("[" * 101 + "]" * 101, "100 levels"),
        ("[" * 100_000, "100 levels"),
        ('{"a": ' + "1" * 5000 + "}", "out of range"),
        ('{"a": ' + "1" * 400 + "}", "308 digits"),
        ("{", "truncated"),
    ):
        with pytest.raises(DocumentError, match=why):
            read_json(text, REQUEST)


def test_a_json_integer_beyond_64_bits_is_a_float() -> None:
    found = read_json(b'{"a": [9223372036854775807, 9223372036854775808, -9223372036854775809]}')
    assert [type(one) for one in found["a"]] == [int, float, float]


def test_invalid_utf_8_names_line_byte_and_cure() -> None:
    """U9."""
    for read in (read_json, read_yaml, read_documents):
        with pytest.raises(
            DocumentError, match=r"line 2: byte 0xe9 at offset 9 .*save .* as UTF-8"
        ):
            read(b"a: 1\nb: c\xe9\n")
    with pytest.raises(DocumentError, match="surrogate"):
        read_yaml("a: \ud800")


def test_an_error_names_its_line() -> None:
    with pytest.raises(DocumentError, match="line 2, column 5: mapping values are not allowed"):
        read_yaml("a: 1\nb: c: d\n")
    with pytest.raises(DocumentError, match="line 3: null cannot be a map key"):
        read_yaml("a:\n  b: 1\n  ~: 2\n")
