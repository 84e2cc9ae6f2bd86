"""`spec.runtimeEnvYAML`: read as KubeRay reads it; no text raises."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manta.rules.runtime_env import parse_runtime_env
from manta.rules.serve_config import parse_serve_config
from manta.rules.validation.violation import Violation


def test_dates_and_times_are_text() -> None:
    """S2: a date raised in the plan, and 12:30:00 became 45000."""
    text = "env_vars: {DAY: 2024-01-01, AT: 12:30:00, BAD: 2020-99-99}\n"
    found = parse_runtime_env(text)
    assert found == {"env_vars": {"DAY": "2024-01-01", "AT": "12:30:00", "BAD": "2020-99-99"}}
    assert json.dumps(found)


@pytest.mark.parametrize("text", ["", " \n", "# later\n", "---\n", "~", "# a\n---\n# b\n"])
def test_a_text_that_says_nothing_is_an_empty_map(text: str) -> None:
    """S2: comment-only text was refused."""
    assert parse_runtime_env(text) == parse_serve_config(text) == {}


@pytest.mark.parametrize(
    "text",
    [
        "z: !!timestamp 2020-99-99x",
        "z: !!int " + "1" * 5000,
        "a: " + "[" * 40_000,
        "a: " + "[" * 950 + "]" * 950,
        "z: .inf",
        "? [a]\n: b",
        "a: *b",
        "a: 1\n---\nb: 2",
        "\ud800",
        "- a",
        "text",
    ],
)
def test_what_cannot_be_read_is_a_violation(text: str) -> None:
    """X14, S2: an exception out of a review is a bypass of the webhook under `Ignore`."""
    for parse in (parse_runtime_env, parse_serve_config):
        found = parse(text)
        assert isinstance(found, Violation)
        assert found.value == text


@given(st.text())
def test_no_text_raises(text: str) -> None:
    for parse in (parse_runtime_env, parse_serve_config):
        assert isinstance(parse(text), Violation | dict)


def test_of_a_key_that_is_given_twice_the_last_counts() -> None:
    """As in KubeRay: a RayJob that it runs must not fail under Manta."""
    assert parse_runtime_env("env_vars: {A: b, A: c}") == {"env_vars": {"A": "c"}}
