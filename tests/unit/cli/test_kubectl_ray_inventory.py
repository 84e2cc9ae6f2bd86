"""Every command and flag of KubeRay's plugin exists, and a case of the tables uses it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from manta.cli.plugin.main import ALIASES, VERBS, build_parser, parse

INVENTORY = {
    "get cluster": "-A --all-namespaces",
    "get workergroup": "-A --all-namespaces -c --ray-cluster",
    "get node": "-A --all-namespaces -c --ray-cluster",
    "get token": "",
    "create cluster": "--labels --annotations --ray-version --image --head-cpu --head-memory --head-gpu "
    "--head-ephemeral-storage --head-ray-start-params --head-node-selectors --worker-replicas "
    "--worker-cpu --worker-memory --worker-gpu --worker-tpu --worker-ephemeral-storage "
    "--worker-ray-start-params --worker-node-selectors --num-of-hosts --autoscaler --file --dry-run "
    "--wait --timeout",
    "create workergroup": "-c --ray-cluster --ray-version --image --worker-replicas --num-of-hosts "
    "--worker-min-replicas --worker-max-replicas --worker-cpu --worker-gpu --worker-tpu "
    "--worker-memory --worker-ray-start-params --worker-node-selectors",
    "scale cluster": "-w --worker-group -r --replicas --min-replicas --max-replicas",
    "delete": "-y --yes",
    "session": "-v --verbose",
    "log": "--out-dir --node-type --link",
    "job submit": "-f --filename --name --ray-version --image --head-cpu --head-memory --head-gpu "
    "--worker-replicas --worker-cpu --worker-memory --worker-gpu --head-node-selectors "
    "--worker-node-selectors --ttl-seconds-after-finished --dry-run --submission-id --runtime-env "
    "--runtime-env-json --working-dir --headers --verify --entrypoint-resources "
    "--entrypoint-num-cpus --entrypoint-num-gpus --entrypoint-memory --metadata-json --log-style "
    "--log-color --no-wait -v --verbose --address",
    "version": "",
}
EVERYWHERE = [
    "--kubeconfig",
    "--context",
    "--cluster",
    "--user",
    "--namespace",
    "-n",
    "--server",
    "-s",
    "--token",
    "--as",
    "--as-group",
    "--as-uid",
    "--certificate-authority",
    "--client-certificate",
    "--client-key",
    "--insecure-skip-tls-verify",
    "--tls-server-name",
    "--request-timeout",
    "--disable-compression",
    "--cache-dir",
]
SUBCOMMAND_ALIASES = {"clusters": "cluster", "workergroups": "workergroup", "nodes": "node"}
TESTS = Path(__file__).parents[2]


def leaf(command: str) -> argparse.ArgumentParser:
    verb, _, what = command.partition(" ")
    _, verbs = build_parser(verb)
    parser: Any = verbs.choices[verb]
    for action in parser._actions if what else ():
        if isinstance(action, argparse._SubParsersAction):
            parser = action.choices[what]
    assert isinstance(parser, argparse.ArgumentParser)
    return parser


@pytest.mark.parametrize("command", INVENTORY)
def test_a_command_has_all_flags_of_the_inventory(command: str) -> None:
    known = set(leaf(command)._option_string_actions)
    wanted = {*INVENTORY[command].split(), *EVERYWHERE}
    if command == "version":
        wanted -= {"-n", "--namespace"}
    assert not wanted - known


def test_the_aliases_of_the_inventory_exist() -> None:
    assert {"list": "get", "logs": "log"}.items() <= ALIASES.items()
    for alias, name in SUBCOMMAND_ALIASES.items():
        assert leaf(f"get {alias}").get_default("what") == name
    assert set(VERBS) >= {command.split()[0] for command in INVENTORY}


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("apply -f a.yaml", {"verb": "apply", "filename": ["a.yaml"]}),
        ("log --out-dir out demo", {"verb": "log", "target": "demo", "out_dir": "out"}),
        ("-n team get cluster", {"verb": "get", "what": "cluster", "namespace": "team"}),
        ("get -n team cluster one", {"what": "cluster", "name": "one", "namespace": "team"}),
        ("-n team delete -y one", {"verb": "delete", "targets": ["one"], "namespace": "team"}),
    ],
)
def test_flags_may_stand_before_and_after_the_words(line: str, wanted: dict[str, Any]) -> None:
    args = parse(line.split())
    assert args is not None
    found = {name: getattr(args, name) for name in wanted}
    assert {name: str(value) for name, value in found.items()} == {
        name: str(value) for name, value in wanted.items()
    }


def flags() -> Iterator[tuple[str, str]]:
    for command, text in INVENTORY.items():
        yield from ((command, flag) for flag in text.split() if flag.startswith("--"))
    yield from (("", flag) for flag in EVERYWHERE if flag.startswith("--"))


@pytest.mark.parametrize("flag", sorted({flag for _, flag in flags()}))
def test_a_test_uses_the_flag(flag: str) -> None:
    files = [
        TESTS / "support" / "kubectl_ray_cases.py",
        *(TESTS / "cluster").glob("test_kubectl_ray*.py"),
    ]
    text = "".join(path.read_text() for path in files)
    short = {"--all-namespaces": '"-A"', "--namespace": '"-n"', "--kubeconfig": '"--kubeconfig"'}
    assert f'"{flag}' in text or f"{flag}=" in text or short.get(flag, "\0") in text
