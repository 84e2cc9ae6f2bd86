"""Selectors: printing and reading agree, and requirements say what they mean."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from manta.api.selectors import (
    FieldRequirement,
    FieldSelector,
    LabelSelector,
    Operator,
    Requirement,
    from_object,
    parse_field_selector,
    parse_label_selector,
)

names = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,8}[A-Za-z0-9])?", fullmatch=True)
keys = st.one_of(names, st.builds(lambda name: f"ray.io/{name}", names))
values = st.one_of(st.just(""), names)
labels = st.dictionaries(keys, values, max_size=5)


@st.composite
def requirements(draw: st.DrawFn) -> Requirement:
    key, operator = draw(keys), draw(st.sampled_from(Operator))
    match operator:
        case Operator.IN | Operator.NOT_IN:
            return Requirement(key, operator, draw(st.frozensets(values, min_size=1, max_size=3)))
        case Operator.GREATER | Operator.LESS:
            return Requirement(key, operator, frozenset((str(draw(st.integers(0, 99))),)))
        case _:
            return Requirement(key, operator)


selectors = st.builds(
    lambda parts: LabelSelector(tuple(sorted(parts, key=lambda one: one.key))),
    st.lists(requirements(), max_size=4, unique_by=lambda one: one.key),
)


@given(selectors)
def test_a_printed_selector_reads_back_as_itself(selector: LabelSelector) -> None:
    assert parse_label_selector(str(selector)) == selector


@given(selectors, labels)
def test_all_requirements_must_hold(selector: LabelSelector, have: dict[str, str]) -> None:
    one_by_one = [LabelSelector((one,)).matches(have) for one in selector.requirements]
    assert selector.matches(have) is all(one_by_one)


@given(keys, st.frozensets(values, min_size=1, max_size=3), labels)
def test_in_and_notin_are_opposites(key: str, wanted: frozenset[str], have: dict[str, str]) -> None:
    inside = Requirement(key, Operator.IN, wanted).matches(have)
    outside = Requirement(key, Operator.NOT_IN, wanted).matches(have)
    assert inside is not outside


@given(labels, labels)
def test_labels_select_exactly_what_has_them_all(
    want: dict[str, str], have: dict[str, str]
) -> None:
    expected = all(have.get(key) == value for key, value in want.items())
    assert from_object({"matchLabels": want}).matches(have) is expected
    assert from_object({"matchLabels": want}).matches({**have, **want})


fields = st.builds(
    FieldRequirement,
    st.sampled_from(["metadata.name", "metadata.namespace", "status.phase", "spec.nodeName"]),
    st.text(max_size=12).filter(lambda text: text == text.strip()),
    equal=st.booleans(),
)


@given(st.lists(fields, max_size=4))
def test_a_printed_field_selector_reads_back_as_itself(parts: list[FieldRequirement]) -> None:
    selector = FieldSelector(tuple(parts))
    assert parse_field_selector(str(selector)) == selector
