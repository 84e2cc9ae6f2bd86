"""In which namespace a command works."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from manta.cli.connection import add_connection_flags, add_namespace_flag, namespace_of

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: team
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts:
- {name: team, context: {cluster: c, user: u, namespace: team-a}}
- {name: plain, context: {cluster: c, user: u}}
"""


@pytest.mark.parametrize(
    ("words", "namespace"),
    [
        ((), "team-a"),
        (("-n", "mine"), "mine"),
        (("--namespace", "mine"), "mine"),
        (("--context", "plain"), "default"),
    ],
)
def test_it_is_the_one_that_is_named_else_that_of_the_context(
    tmp_path: Path, words: tuple[str, ...], namespace: str
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG)
    parser = argparse.ArgumentParser()
    add_namespace_flag(parser)
    add_connection_flags(parser)
    assert namespace_of(parser.parse_args(["--kubeconfig", str(file), *words])) == namespace
