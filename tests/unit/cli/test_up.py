"""`manta up` refuses what cannot be, and names the field, the value and the cure."""

from __future__ import annotations

import argparse

import pytest

from manta.cli import up
from manta.cli.usage import UsageError


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    up.add_parser(parser.add_subparsers())
    return parser.parse_args(["up", *words])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--nodes", "-1"), r"--nodes -1: a number of nodes is 0 or more"),
        (("--fake-nodes", "-2"), r"--fake-nodes -2: a number of nodes"),
        (("--cpus", "0"), r"--cpus 0: a node needs more than 0 CPUs"),
        (("--memory", "much"), r"--memory much: "),
        (("--port", "70000"), r"--port 70000: choose one between 1 and 65535"),
        (("--timeout", "0"), r"--timeout 0: give the manifests some seconds"),
        (("--service-cidr", "x"), r"--service-cidr x: .* write it as 10.96.0.0/16"),
        (("--pod-cidr", "10.0.0.0/4"), r"--pod-cidr 10.0.0.0/4: "),
        (("--pod-cidr", "10.0.0.0/30"), r"choose a prefix between /8 and /26"),
    ],
)
def test_a_value_that_cannot_be_is_named(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        up._refuse_nonsense(arguments(*words))


def test_other_systems_than_linux_are_told_where_to_run_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(UsageError, match="inside a Linux virtual machine"):
        up._refuse_nonsense(arguments())
    up._refuse_nonsense(arguments("--nodes", "0"))


def test_flags_that_a_running_plane_cannot_follow_are_named() -> None:
    assert up._flags_of_a_new_plane(arguments()) == ""
    asked = arguments("--nodes", "3", "--cpus", "4", "--pod-cidr", "10.0.0.0/16", "--with", "x")
    assert up._flags_of_a_new_plane(asked) == "--nodes, --cpus, --pod-cidr"
