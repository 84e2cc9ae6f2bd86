"""`manta up` refuses what cannot be, and names the field, the value and the cure."""

from __future__ import annotations

import argparse

import pytest

from manta.api.usage import UsageError
from manta.cli import up


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    up.add_parser(parser.add_subparsers())
    return parser.parse_args(["up", *words])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--nodes", "-1"), r"--nodes -1: must be 0 or more"),
        (("--fake-nodes", "-2"), r"--fake-nodes -2: must be 0"),
        (("--cpus", "0"), r"--cpus 0: must be more than 0"),
        (("--memory", "much"), r"--memory much: "),
        (("--port", "70000"), r"--port 70000: must be between 1 and 65535"),
        (("--timeout", "0"), r"--timeout 0: must be more than 0 seconds"),
        (("--service-cidr", "x"), r"--service-cidr x: .* write it as 10.96.0.0/16"),
        (("--pod-cidr", "10.0.0.0/4"), r"--pod-cidr 10.0.0.0/4: "),
        (("--pod-cidr", "10.0.0.0/30"), r"choose a prefix between /8 and /26"),
    ],
)
def test_a_value_that_cannot_be_is_named(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        up._check_arguments(arguments(*words))


def test_other_systems_than_linux_get_a_hint_where_to_run_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(UsageError, match="inside a Linux virtual machine"):
        up._check_arguments(arguments())
    up._check_arguments(arguments("--nodes", "0"))


def test_flags_that_a_running_plane_cannot_follow_are_named() -> None:
    assert up._flags_for_new_planes(arguments()) == ""
    asked = arguments("--nodes", "3", "--cpus", "4", "--pod-cidr", "10.0.0.0/16", "--with", "x")
    assert up._flags_for_new_planes(asked) == "--nodes, --cpus, --pod-cidr"
