"""serveConfigV2: what is a config, which applications it declares, and when two are equal."""

from __future__ import annotations

from typing import Any

import pytest

from manta.rules.serve_config import (
    application_names,
    config_hash,
    parse_serve_config,
    with_capacity,
)
from manta.rules.text_cache import MAX_TEXT
from manta.rules.validation.violation import Violation


def test_an_empty_text_is_an_empty_config() -> None:
    assert parse_serve_config("") == parse_serve_config(" \n") == {}


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("applications: [", "not valid YAML"),
        ("just words", "must be a map"),
        ("- a\n- b", "must be a map"),
        ("import_path: a.b", "must contain a list `applications`"),
        ("applications: {a: b}", "must contain a list `applications`"),
        ("applications: [a, b]", "must contain a list `applications`"),
        ("applications: [{name: a}, {name: a}]", "names application a twice"),
        ("applications: [{import_path: a}, {import_path: b}]", "names application default twice"),
        ("applications: []\nx: {null: a}", "cannot be a map key"),
    ],
)
def test_what_ray_would_refuse_is_found_with_its_cure(text: str, cure: str) -> None:
    found = parse_serve_config(text)
    assert isinstance(found, Violation)
    assert found.field == "spec.serveConfigV2"
    assert cure in found.message


def test_applications_without_a_name_are_rays_default() -> None:
    config = parse_serve_config("applications: [{name: a}, {import_path: b.c}, {name: ''}]")
    assert isinstance(config, Violation)  # two of them are called default
    config = parse_serve_config("applications: [{name: a}, {import_path: b.c}]")
    assert not isinstance(config, Violation)
    assert application_names(config) == ("a", "default")


def test_equal_configs_have_equal_hashes_whatever_their_order() -> None:
    one = parse_serve_config("applications: [{name: a, import_path: x}]\nproxy_location: HeadOnly")
    other = parse_serve_config(
        "proxy_location: HeadOnly\napplications: [{import_path: x, name: a}]"
    )
    assert not isinstance(one, Violation)
    assert not isinstance(other, Violation)
    assert config_hash(one) == config_hash(other)
    assert config_hash(one) != config_hash({**one, "proxy_location": "EveryNode"})


def test_a_share_is_part_of_what_is_submitted() -> None:
    config: dict[str, Any] = {"applications": []}
    assert with_capacity(config, None) is config
    assert with_capacity(config, 25) == {"applications": [], "target_capacity": 25}
    assert config_hash(with_capacity(config, 25)) != config_hash(config)


@pytest.mark.parametrize(
    "text", ["applications: [{name: 1}]", "applications: [{name: 2026-01-01}]"]
)
def test_names_that_yaml_takes_for_something_else_are_names(text: str) -> None:
    config = parse_serve_config(text)
    assert not isinstance(config, Violation)
    assert all(isinstance(name, str) for name in application_names(config))


def test_of_a_key_that_is_given_twice_the_last_counts() -> None:
    """As in KubeRay: a RayService that runs must not become invalid when Manta takes it over."""
    text = "applications:\n- {name: a, import_path: b.c, args: {x: 1, x: 2}}\n"
    assert parse_serve_config(text) == {
        "applications": [{"name": "a", "import_path": "b.c", "args": {"x": 2}}]
    }


def test_the_longest_text_is_parsed_and_one_character_more_is_not() -> None:
    text = "applications: [] #".ljust(MAX_TEXT, "x")
    assert parse_serve_config(text) == {"applications": []}
    longer = parse_serve_config(f"{text}x")
    assert isinstance(longer, Violation)
    assert str(MAX_TEXT) in longer.message
