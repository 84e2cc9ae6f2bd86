"""`manta completion SHELL`: the script that lets a shell complete verbs, flags, kinds and names.

At each Tab the script runs this command (`cli/server/completions.py`).
"""

from __future__ import annotations

import argparse
from typing import Any

from manta.cli.output.help import examples

SHELLS = ("bash", "zsh", "fish")


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "completion",
        **examples(
            ('eval "$(manta completion bash)"', "in ~/.bashrc"),
            ('eval "$(manta completion zsh)"', "in ~/.zshrc, after compinit"),
            ("manta completion fish | source", "in ~/.config/fish/config.fish"),
        ),
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell")


def run(args: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode

    print(shellcode(["manta"], shell=args.shell))
    return 0
