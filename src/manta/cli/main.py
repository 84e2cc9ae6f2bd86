"""The command `manta`: loads the module of one verb, and runs it.

Each verb is a module with `add_parser(subparsers)` and `run(args) -> int`, and a row of `VERBS`.
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
from manta.api.usage import UsageError, did_you_mean
from manta.cli.output.encoding import write_utf8

VERBS: Mapping[str, str] = {
    "operator": "run the operator against a Kubernetes API server",
    "webhook": "run the webhook that validates Ray objects",
    "crds": "print the CustomResourceDefinitions",
    "apiserver": "run only the embedded API server",
    "up": "start a control plane and a node on this machine",
    "down": "stop what `manta up` started",
    "backup": "write the objects and keys of the plane to a file",
    "status": "show the plane, its operator and its objects",
    "top": "show the fleet in the terminal, as it changes",
    "console": "serve pages on which people see and steer Ray clusters",
    "dashboard": "open the dashboard of a Ray cluster",
    "apply": "create or change objects from files",
    "delete": "delete objects",
    "get": "show objects",
    "describe": "show one object with its conditions and Events",
    "events": "show Events, oldest first",
    "scale": "change the number of workers of a cluster",
    "logs": "print the log of a Pod, a cluster or a job",
    "history": "show logs, tasks and errors of clusters that are gone",
    "collect": "ship the logs and events of one Ray Pod to the history store",
    "exec": "run a command in a Pod",
    "submit": "run a script as a job on a Ray cluster",
    "suspend": "stop the Pods of Ray objects, and keep the objects",
    "resume": "start suspended Ray objects again",
    "activator": "wake Ray clusters that sleep when somebody connects to them",
    "usage": "show CPU- and GPU-hours of Ray clusters, used and idle",
    "upgrade": "upgrade a RayService and watch the progress",
    "rollout": "follow, undo or pause the rolling update of a RayCluster",
    "plan": "show what the operator would do",
    "replay": "show recorded reconciles, and what this version would do",
    "bugreport": "pack what a maintainer needs, without secrets",
    "doctor": "diagnose problems and suggest fixes",
    "install": "install the operator into a Kubernetes cluster",
    "uninstall": "remove the operator from a Kubernetes cluster",
    "completion": "print the completion script for a shell",
    "version": "show the versions of this command and of the API server",
}

WITH_COMMAND = frozenset(("exec", "submit"))
"""Verbs with a command after `--`: it goes to `args.command`, and not through argparse."""


def module_of(verb: str) -> str | None:
    """The module of a verb; None if this build has none."""
    name = f"manta.cli.{verb}"
    return name if verb in VERBS and importlib.util.find_spec(name) else None


def main(arguments: Sequence[str] | None = None) -> int:
    # Imports create many objects and hardly any garbage. With the default thresholds the collector
    # would traverse them all dozens of times before the command starts.
    gc.set_threshold(10_000, 20, 50)
    write_utf8()
    try:
        if "_ARGCOMPLETE" in os.environ:  # a shell requests completions
            from manta.cli.server.completions import complete

            complete(_parser)
        return _run(parse(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:  # at any time, also during imports
        return 130


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The arguments of the verb. Exits with 2 and a message if they are invalid."""
    wanted = next((word for word in arguments if not word.startswith("-")), "")
    parser, subparsers = _parser(wanted)
    if wanted and wanted not in VERBS:
        parser.error(f"unknown command {wanted!r}{did_you_mean(wanted, VERBS)} (see manta -h)")
    words, command = list(arguments), None
    if wanted in WITH_COMMAND:
        words, command = split_command(arguments)
    args, unknown = parser.parse_known_args(words)
    if unknown:  # with the usage of the verb
        hint = "; a command and its flags go after --" if wanted in WITH_COMMAND else ""
        subparsers.choices[args.verb].error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    if command is not None:
        args.command = command
    return args


def _parser(wanted: str) -> tuple[argparse.ArgumentParser, Any]:
    """The parser, with the flags of one verb only, and its subparsers."""
    parser = argparse.ArgumentParser(
        prog="manta", description="A Kubernetes operator for Ray, and a control plane to run it on."
    )
    parser.add_argument("--version", action="version", version=f"manta {__version__}")
    subparsers = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for verb, about in VERBS.items():
        if not module_of(verb):
            continue
        if verb == wanted:
            _module(verb).add_parser(_WithHelp(subparsers, about))
        else:
            subparsers.add_parser(verb, help=about, add_help=False)
    return parser, subparsers


class _WithHelp:
    """The subparsers that a verb gets: adds its help text, and describes it if it does not."""

    def __init__(self, subparsers: Any, about: str) -> None:
        self._subparsers = subparsers
        self._about = about

    def add_parser(self, verb: str, **options: Any) -> argparse.ArgumentParser:
        description = f"{self._about[:1].upper()}{self._about[1:]}."
        options = {"description": description, **options}
        parser: argparse.ArgumentParser = self._subparsers.add_parser(
            verb, help=self._about, **options
        )
        return parser


def split_command(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words before the first `--`, and the command after it."""
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
