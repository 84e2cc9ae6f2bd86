"""Names that are cut to fit, as KubeRay cuts them."""

from __future__ import annotations

import pytest

from manta.api.ray.naming import (
    check_label,
    check_name,
    check_route_name,
    fixed_pod_name,
    pod_name_prefix,
    trim_job_name,
)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("raycluster", "raycluster"),
        ("x" * 10 + "a" * 50, "a" * 50),
        ("1cluster", "rcluster"),
        ("-cluster", "rcluster"),
        ("x" * 5 + "9" + "b" * 49, "r" + "b" * 49),
        ("x" * 5 + "-" + "b" * 49, "r" + "b" * 49),
        ("", ""),
    ],
)
def test_a_name_keeps_its_last_fifty_characters_and_starts_with_a_letter(
    text: str, name: str
) -> None:
    assert check_name(text) == name


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("cluster-head", "cluster-head"),
        ("x" * 7 + "a" * 63, "a" * 63),
        ("1cluster", "1cluster"),
        (".cluster", "rcluster"),
        ("_cluster", "rcluster"),
    ],
)
def test_a_label_keeps_its_last_63_characters_and_may_start_with_a_digit(
    text: str, label: str
) -> None:
    assert check_label(text) == label
    assert trim_job_name(text) == label


def test_a_pod_keeps_the_first_fifty_characters_of_its_prefix() -> None:
    assert pod_name_prefix("Cluster", "head") == "cluster-head-"
    assert pod_name_prefix("a" * 50 + "b", "worker") == "a" * 50 + "-worker-"


def test_a_fixed_name_that_is_cut_ends_with_a_suffix() -> None:
    """R3: clusters whose names differ only behind the cut never share a name."""
    assert fixed_pod_name("Cluster", "head", "x2c4d") == "cluster-head"
    assert fixed_pod_name("a" * 50, "head", "x2c4d") == "a" * 50 + "-head"
    assert fixed_pod_name("a" * 51, "head", "x2c4d") == "a" * 44 + "-x2c4d-head"


def test_a_route_leaves_room_for_its_namespace() -> None:
    assert check_route_name("c" * 60, "default") == "c" * 44
    assert check_route_name("1-route", "default") == "r-route"
