"""`manta completion SHELL`: the script that lets a shell complete verbs, flags, kinds and names.

The script asks this command itself at each Tab (`completion_answers.py`).
"""

from __future__ import annotations

import argparse
from typing import Any

from manta.cli.usage import examples

SHELLS = ("bash", "zsh", "fish")


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "completion",
        help="print the script for completion in a shell",
        **examples(
            ('eval "$(manta completion bash)"', "in ~/.bashrc"),
            ('eval "$(manta completion zsh)"', "in ~/.zshrc, after compinit"),
            ("manta completion fish | source", "in ~/.config/fish/config.fish"),
        ),
    )
    parser.add_argument("shell", choices=SHELLS, help="for which shell")


def run(args: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode

    print(shellcode(["manta"], shell=args.shell))
    return 0
