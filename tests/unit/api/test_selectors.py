"""Label and field selectors."""

from __future__ import annotations

from typing import Any

import pytest

from manta.api.selectors import (
    EVERYTHING,
    NOTHING,
    SelectorError,
    from_object,
    parse_field_selector,
    parse_label_selector,
)

LABELS = {"app": "ray", "tier": "gpu", "size": "8", "empty": ""}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("  ", True),
        ("app=ray", True),
        ("app==ray", True),
        ("app = ray", True),
        ("app=other", False),
        ("absent=x", False),
        ("app!=other", True),
        ("absent!=x", True),
        ("app!=ray", False),
        ("app in (ray, dask)", True),
        ("app in (dask)", False),
        ("absent in (x)", False),
        ("app notin (dask)", True),
        ("absent notin (x)", True),
        ("app notin (ray,dask)", False),
        ("app", True),
        ("absent", False),
        ("!absent", True),
        ("!app", False),
        ("! app", False),
        ("size>7", True),
        ("size>8", False),
        ("size<9", True),
        ("size < 8", False),
        ("app>1", False),
        ("absent<1", False),
        ("empty=", True),
        ("app=", False),
        ("empty in (,x)", True),
        ("app=ray,tier=gpu", True),
        ("app=ray,tier=cpu", False),
        ("app=ray,tier in (gpu),!absent,size>1", True),
        ("in=x", False),
    ],
)
def test_a_selector_matches_as_kubernetes_does(text: str, matches: bool) -> None:
    assert parse_label_selector(text).matches(LABELS) is matches


@pytest.mark.parametrize(
    "text",
    [
        ",",
        "app=ray,",
        ",app=ray",
        "app in",
        "app in ()x",
        "app in (ray",
        "app in ray",
        "app notin)",
        "=ray",
        "!",
        "app ray",
        "app=ray tier=gpu",
        "app=(",
        "-bad=x",
        "app=-bad-",
        "a/b/c=x",
        "app>high",
        "app===ray",
    ],
)
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(SelectorError):
        parse_label_selector(text)


def test_a_selector_prints_in_a_stable_order() -> None:
    text = "!z,b notin (y,x),a in (two,one),c=1,d!=2,e,f>3"
    printed = "a in (one,two),b notin (x,y),c=1,d!=2,e,f>3,!z"
    assert str(parse_label_selector(text)) == printed
    assert parse_label_selector(printed) == parse_label_selector(text)


def test_an_object_without_requirements_selects_everything_and_none_nothing() -> None:
    assert from_object({}).matches({})
    assert from_object({}).empty
    assert from_object(None) is NOTHING
    assert not NOTHING.matches(LABELS)
    assert EVERYTHING.matches(LABELS)


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ({"matchLabels": {"app": "ray"}}, True),
        ({"matchLabels": {"app": "ray", "tier": "cpu"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["ray"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["ray"]}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist", "values": None}]}, False),
    ],
)
def test_a_selector_object_matches(selector: dict[str, Any], matches: bool) -> None:
    assert from_object(selector).matches(LABELS) is matches


@pytest.mark.parametrize(
    "expression",
    [
        {"key": "app", "operator": "Gt", "values": ["1"]},
        {"key": "app", "operator": "In", "values": []},
        {"key": "app", "operator": "Exists", "values": ["x"]},
        {"key": "", "operator": "Exists"},
        {},
    ],
)
def test_a_wrong_expression_is_refused(expression: dict[str, Any]) -> None:
    with pytest.raises(SelectorError):
        from_object({"matchExpressions": [expression]})


def test_the_selector_of_a_service_wants_all_its_labels() -> None:
    selector = from_object({"matchLabels": {"tier": "gpu", "app": "ray"}})
    assert selector.matches(LABELS)
    assert not selector.matches({"app": "ray"})
    assert str(selector) == "app=ray,tier=gpu"


FIELDS = {"metadata.name": "a", "metadata.namespace": "n", "status.phase": "Running"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("metadata.name=a", True),
        ("metadata.name==a", True),
        ("metadata.name=b", False),
        ("metadata.name!=b", True),
        ("status.phase!=Running", False),
        ("metadata.name=a,metadata.namespace=n", True),
        ("spec.nodeName=", True),
        ("metadata.name=a,,", True),
    ],
)
def test_a_field_selector_matches(text: str, matches: bool) -> None:
    assert parse_field_selector(text).matches(FIELDS) is matches


def test_a_field_selector_escapes_commas_and_equal_signs() -> None:
    selector = parse_field_selector(r"involvedObject.name=a\,b\=c\\d")
    assert selector.requirements[0].value == r"a,b=c\d"
    assert parse_field_selector(str(selector)) == selector


def test_a_field_selector_tells_the_one_name_that_it_wants() -> None:
    selector = parse_field_selector("metadata.name=a,status.phase!=Failed")
    assert selector.exact("metadata.name") == "a"
    assert selector.exact("status.phase") is None


@pytest.mark.parametrize("text", ["metadata.name", "=a", "metadata.name=a=b", "!x"])
def test_what_is_no_field_selector_is_refused(text: str) -> None:
    with pytest.raises(SelectorError, match="selector"):
        parse_field_selector(text)
