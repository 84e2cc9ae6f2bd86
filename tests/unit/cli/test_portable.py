"""The plugin and the client verbs of `manta` work without modules that only Linux or Unix has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from manta.cli.main import VERBS
from manta.cli.plugin.main import VERBS as PLUGIN_VERBS
from support.other_platform import run_elsewhere

ONLY_LINUX = frozenset(("up", "down", "apiserver", "operator", "webhook", "backup"))
"""Verbs that run a part of the control plane."""
CLIENT_VERBS = sorted(set(VERBS) - ONLY_LINUX)


def test_all_client_verbs_of_manta_can_be_imported_and_parsed() -> None:
    code = """
import json
from manta.cli.main import _parser
done = []
for verb in json.loads(sys.argv[1]):
    parser, _ = _parser(verb)
    try:
        parser.parse_args([verb, "--help"])
    except SystemExit as stop:
        assert stop.code == 0, verb
    done.append(verb)
print("DONE", *done)
"""
    ran = run_elsewhere(code, json.dumps(CLIENT_VERBS))
    assert f"DONE {' '.join(CLIENT_VERBS)}" in ran.stdout, ran.stderr


def test_all_verbs_of_the_plugin_can_be_imported_and_parsed() -> None:
    code = """
import argparse, importlib, pkgutil
import manta.cli.plugin
from manta.cli.plugin.main import VERBS, build_parser
for verb in VERBS:
    build_parser(verb)
for one in pkgutil.iter_modules(manta.cli.plugin.__path__):
    importlib.import_module(f"manta.cli.plugin.{one.name}")
print("DONE", len(VERBS))
"""
    ran = run_elsewhere(code)
    assert f"DONE {len(PLUGIN_VERBS)}" in ran.stdout, ran.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("create", "cluster", "demo", "--dry-run"),
        ("job", "submit", "--dry-run", "--name", "j", "--working-dir", "{dir}", "--", "true"),
        ("completion", "fish"),
    ],
    ids=lambda words: words[0],
)
def test_commands_without_a_server_run(tmp_path: Path, words: tuple[str, ...]) -> None:
    code = "from manta.cli.plugin.main import main\nsys.exit(main(sys.argv[1:]))"
    ran = run_elsewhere(code, *(word.replace("{dir}", str(tmp_path)) for word in words))
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout


def test_a_client_reads_from_a_server(tmp_path: Path) -> None:
    """With a kubeconfig, over TLS or without: here a refused connection, which names the server."""
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    (tmp_path / "config").write_text(json.dumps(config))
    code = "from manta.cli.plugin.main import main\nsys.exit(main(['get', 'cluster']))"
    ran = run_elsewhere(code, KUBECONFIG=str(tmp_path / "config"))
    assert (ran.returncode, "127.0.0.1:1" in ran.stderr) == (1, True), ran.stderr
