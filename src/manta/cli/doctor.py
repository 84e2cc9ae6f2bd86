"""`manta doctor`: check this machine, its plane or a cluster, and suggest fixes.

With `--migrate`: what a migration from KubeRay does (`cli/checks/migration.py`). Checks change nothing; `--fix` does.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from manta.cli.checks import migration
from manta.cli.checks.finding import Level
from manta.cli.checks.gpus import kill_leaks
from manta.cli.checks.machine import check_machine
from manta.cli.checks.server import check_server
from manta.cli.output.gpu_table import leak_text
from manta.cli.output.help import examples
from manta.cli.output.tables import table
from manta.cli.server.connection import add_connection_flags


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "doctor",
        description="Check this machine, its plane (or the cluster of --kubeconfig or --context), the "
        "operator and the objects. Exit code 1: a check failed.",
        **examples(
            ("manta doctor", "this machine and its plane"),
            ("manta doctor --port 6443", "also check this port for `manta up --port`"),
            ("manta doctor --context prod", "also check a cluster"),
            ("manta doctor --fix", "end what gone Pods left on GPUs"),
            ("manta doctor --migrate", "what a migration from KubeRay does"),
        ),
    )
    parser.add_argument("--port", type=int, default=0, help="also check that this port is free")
    parser.add_argument(
        "--fix",
        action="store_true",
        help="end processes of Pods that are gone which still hold memory of a GPU",
    )
    migration.add_flags(parser)
    add_connection_flags(parser)


def run(args: argparse.Namespace) -> int:
    if args.migrate:
        return migration.run(args)
    if args.fix:
        for ended in kill_leaks(args):
            print(f"ended {leak_text(asdict(ended), 'held')}")
    findings = [*check_machine(args), *check_server(args)]
    rows = [(name, finding.level, finding.found) for name, finding in findings]
    print(table(("CHECK", "", "FOUND"), rows))
    for name, finding in findings:
        if finding.fix and finding.level is not Level.OK:
            print(f"\n{name}: {finding.fix}")
    return 1 if any(finding.level is Level.FAIL for _, finding in findings) else 0
