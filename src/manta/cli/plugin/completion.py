"""`kubectl ray completion SHELL`: the script that completes `kubectl-ray`.

For `kubectl ray` itself, kubectl's own completion calls `kubectl_complete-ray`, which the wheel installs.
"""

from __future__ import annotations

import argparse
from typing import Any

from manta.cli.completion import SHELLS
from manta.cli.output.help import examples

COMMAND = "kubectl-ray"


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "completion",
        description="Print the script that lets a shell complete kubectl-ray. `kubectl ray` needs "
        "only kubectl's own completion.",
        **examples(
            ('eval "$(kubectl completion bash)"', "in ~/.bashrc: completes kubectl ray too"),
            ('eval "$(kubectl ray completion zsh)"', "completes kubectl-ray"),
        ),
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell")


def run(args: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode

    print(shellcode([COMMAND], shell=args.shell))
    return 0
