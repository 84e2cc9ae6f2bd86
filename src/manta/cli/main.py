"""The command `manta`: finds the module of a verb, and loads no other.

Each verb is one module with `add_parser(subparsers)` and `run(args) -> int`.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from manta import __version__
from manta.cli.usage import UsageError, did_you_mean

VERBS: Mapping[str, str] = {
    "operator": "run the controllers against a Kubernetes API server",
    "webhook": "refuse invalid Ray objects at admission",
    "crds": "print the CustomResourceDefinitions",
    "apiserver": "run only the embedded API server",
    "up": "start a control plane and a node on this machine",
    "down": "stop what `manta up` started",
    "backup": "write the plane's objects and keys to a file",
    "status": "show what runs and how it is",
    "dashboard": "open the dashboard of a Ray cluster",
    "apply": "create or change objects from files",
    "delete": "delete objects",
    "get": "show objects",
    "describe": "show one object with its conditions and Events",
    "events": "show what happened, oldest first",
    "scale": "change how many workers a cluster has",
    "logs": "show what a Pod, a cluster or a job prints",
    "exec": "run a command in a Pod",
    "submit": "run a script as a job on a Ray cluster",
    "upgrade": "upgrade a RayService and watch it",
    "plan": "show what the operator would do",
    "doctor": "diagnose problems and suggest fixes",
    "install": "install the operator into a Kubernetes cluster",
    "uninstall": "remove it again",
    "completion": "print the script for completion in a shell",
    "version": "show the versions of this command and of the server",
}

WITH_COMMAND = frozenset(("exec", "submit"))
"""Verbs whose arguments after `--` are a command: `args.command`, which argparse never sees."""


def module_of(verb: str) -> str | None:
    """The module of a verb; None when this build has none."""
    name = f"manta.cli.{verb}"
    return name if verb in VERBS and importlib.util.find_spec(name) else None


def main(arguments: Sequence[str] | None = None) -> int:
    # Loading makes many objects and hardly any garbage: by default the collector would walk
    # through all of them dozens of times before the first line of work.
    gc.set_threshold(10_000, 20, 50)
    try:
        if "_ARGCOMPLETE" in os.environ:  # a shell asks what may stand at the cursor
            from manta.cli.completion_answers import answer

            answer(_parser)
        return _run(parse(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:  # at any moment, also while we load
        return 130


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The flags of the verb that is named. Ends the process with 2, and says why, if they are wrong."""
    wanted = next((word for word in arguments if not word.startswith("-")), "")
    parser, subparsers = _parser(wanted)
    if wanted and wanted not in VERBS:
        parser.error(f"there is no command {wanted!r}{did_you_mean(wanted, VERBS)} (see manta -h)")
    words, command = list(arguments), None
    if wanted in WITH_COMMAND:
        words, command = split_command(arguments)
    args, unknown = parser.parse_known_args(words)
    if unknown:  # said by the verb, which knows its own flags
        hint = "; a command and its flags go after --" if wanted in WITH_COMMAND else ""
        subparsers.choices[args.verb].error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    if command is not None:
        args.command = command
    return args


def _parser(wanted: str) -> tuple[argparse.ArgumentParser, Any]:
    """The parser, with the flags of the one verb that is wanted; and the parsers of the verbs."""
    parser = argparse.ArgumentParser(
        prog="manta", description="A Kubernetes operator for Ray, and a control plane to run it on."
    )
    parser.add_argument("--version", action="version", version=f"manta {__version__}")
    subparsers = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for verb, about in VERBS.items():
        if not module_of(verb):
            continue
        if verb == wanted:
            _module(verb).add_parser(subparsers)
        else:
            subparsers.add_parser(verb, help=about, add_help=False)
    return parser, subparsers


def split_command(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """What stands before the first `--`, and the command after it."""
    words = list(arguments)
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


def _run(args: argparse.Namespace) -> int:
    from manta.kube.errors import MantaError

    try:
        return int(_module(args.verb).run(args))
    except BrokenPipeError:
        return 0  # `manta get ... | head`
    except MantaError as error:
        print(f"manta: {error}", file=sys.stderr)
        return 1
    except UsageError as error:
        print(f"manta: {error}", file=sys.stderr)
        return 2


def _module(verb: str) -> Any:
    name = module_of(verb)
    if name is None:
        raise ModuleNotFoundError(f"this build has no verb {verb!r}")
    return importlib.import_module(name)


if __name__ == "__main__":
    sys.exit(main())
