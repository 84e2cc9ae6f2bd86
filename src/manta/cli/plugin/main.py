"""The command `kubectl ray` (`kubectl-ray`): loads the module of one verb, and runs it.

Verbs of KubeRay's plugin are modules of this package; the others are those of `manta`.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from manta import __version__
from manta.api.usage import UsageError, did_you_mean
from manta.cli.main import split_command
from manta.cli.output.encoding import write_utf8
from manta.cli.plugin.flags import flags_last, plain_booleans, switches_of, valued_of

PROGRAM: Final = "kubectl ray"


@dataclass(frozen=True, slots=True)
class Verb:
    about: str
    module: str


def _own(name: str, about: str) -> Verb:
    return Verb(about, f"manta.cli.plugin.{name}")


def _manta(name: str, about: str) -> Verb:
    return Verb(about, f"manta.cli.{name}")


VERBS: Final[Mapping[str, Verb]] = {
    "get": _own("get", "show Ray clusters, worker groups, nodes, jobs, services, or a token"),
    "create": _own("create", "create a Ray cluster or a worker group"),
    "scale": _own("scale", "change the replicas of a worker group"),
    "delete": _own("delete", "delete Ray objects"),
    "session": _own("session", "forward local ports to a Ray cluster"),
    "log": _own("log", "download the logs of a Ray cluster"),
    "job": _own("job", "submit a Ray job"),
    "status": _own("status", "show the state of a Ray object and what it waits for"),
    "version": _own("version", "show the versions of the plugin and of the operator"),
    "suspend": _manta("suspend", "stop the Pods of Ray objects, and keep the objects"),
    "resume": _manta("resume", "start suspended Ray objects again"),
    "upgrade": _manta("upgrade", "upgrade a RayService and watch the progress"),
    "apply": _manta("apply", "create or change objects from files"),
    "describe": _manta("describe", "show one object with its conditions and Events"),
    "events": _manta("events", "show Events, oldest first"),
    "exec": _manta("exec", "run a command in a Pod"),
    "dashboard": _manta("dashboard", "open the dashboard of a Ray cluster"),
    "plan": _manta("plan", "show what the operator would do"),
    "completion": _own("completion", "print the completion script for a shell"),
}
ALIASES: Final[Mapping[str, str]] = {"list": "get", "logs": "log"}
_WITH_KIND = frozenset(("get", "list", "create", "scale", "job"))
"""Verbs with a second word, such as `get cluster`."""


def main(arguments: Sequence[str] | None = None) -> int:
    gc.set_threshold(10_000, 20, 50)  # as in cli/main.py
    write_utf8()
    try:
        if "_ARGCOMPLETE" in os.environ:
            from manta.cli.plugin.completions import complete

            complete()
        args = parse(sys.argv[1:] if arguments is None else arguments)
        return 0 if args is None else run(args)
    except KeyboardInterrupt:
        return 130


def parse(arguments: Sequence[str]) -> argparse.Namespace | None:
    """The arguments of the verb; None if the help was printed. Exits with 2 if they are invalid."""
    words, command = split_command(arguments)
    words = commands_first(words)
    wanted = verb_of(words)
    parser, subparsers = build_parser(wanted)
    if not wanted:
        parser.parse_args(words)  # -h and --version exit
        parser.print_help()
        return None
    if wanted not in VERBS:
        parser.error(f"unknown command {wanted!r}{did_you_mean(wanted, VERBS)} (see {PROGRAM} -h)")
    chosen = _chosen(subparsers.choices[wanted], words[1:2])
    if chosen is None:
        subparsers.choices[wanted].print_help()
        return None
    try:
        words = [wanted, *plain_booleans(words[1:], switches_of(chosen))]
    except ValueError as error:
        chosen.error(str(error))
    args, unknown = parser.parse_known_args(words)
    if unknown:
        chosen.error(f"unrecognized arguments: {' '.join(unknown)}")
    args.command = command
    return args


def verb_of(words: Sequence[str]) -> str:
    first = words[0] if words and not words[0].startswith("-") else ""
    return ALIASES.get(first, first)


def commands_first(words: Sequence[str]) -> list[str]:
    """Put the verb, and the kind of verbs that have one, before the connection flags in front of them.

    Flags of the verb itself stay: only its own parser knows which of them take a value.
    """
    if not any(word.startswith("-") and word not in ("-h", "--help") for word in words[:2]):
        return list(words)
    from manta.cli.server.connection import add_connection_flags

    parser = argparse.ArgumentParser()
    add_connection_flags(parser, namespace=True)
    valued = valued_of(parser)
    first, *rest = flags_last(words, valued)
    return [first, *(flags_last(rest, valued) if first in _WITH_KIND else rest)]


def _chosen(
    parser: argparse.ArgumentParser, words: Sequence[str]
) -> argparse.ArgumentParser | None:
    """The parser of the subcommand, such as that of `get cluster`; None: the word is missing."""
    for action in parser._actions:  # noqa: SLF001  # argparse has no other way to list them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            if not words or words[0].startswith("-"):
                return None
            if words[0] not in action.choices:
                hint = did_you_mean(words[0], action.choices)
                parser.error(f"unknown command {words[0]!r}{hint} (see {parser.prog} -h)")
            chosen: argparse.ArgumentParser = action.choices[words[0]]
            return chosen
    return parser


def build_parser(wanted: str) -> tuple[argparse.ArgumentParser, Any]:
    """The parser, with the flags of one verb only, and its subparsers."""
    parser = _Parser(
        prog=PROGRAM,
        description="Manage Ray on Kubernetes. Every command takes kubectl's connection flags.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    subparsers = parser.add_subparsers(dest="verb", metavar="COMMAND")
    for name, verb in VERBS.items():
        if name == wanted:
            _module(verb).add_parser(_Described(subparsers, verb.about))
        else:
            subparsers.add_parser(name, help=verb.about, add_help=False)
    return parser, subparsers


class _Parser(argparse.ArgumentParser):
    """Errors without the usage, which is long."""

    def error(self, message: str) -> NoReturn:
        print(f"Error: {message}\nSee '{self.prog} -h'", file=sys.stderr)
        sys.exit(2)


class _Described:
    """The subparsers that a verb gets: adds its help text, and names this program in examples."""

    def __init__(self, subparsers: Any, about: str) -> None:
        self._subparsers = subparsers
        self._about = about

    def add_parser(self, verb: str, **options: Any) -> argparse.ArgumentParser:
        options = {"description": f"{self._about[:1].upper()}{self._about[1:]}.", **options}
        for name in ("epilog", "usage"):
            if name in options:
                options[name] = options[name].replace("manta ", f"{PROGRAM} ")
        parser: argparse.ArgumentParser = self._subparsers.add_parser(
            verb, help=self._about, **{"allow_abbrev": False, **options}
        )
        return parser


def run(args: argparse.Namespace) -> int:
    """Run the verb. Errors go to standard error: 1 for a failure, 2 for wrong usage."""
    from manta.kube.errors import MantaError

    try:
        return int(_module(VERBS[args.verb]).run(args))
    except BrokenPipeError:
        return 0  # `kubectl ray get cluster | head`
    except MantaError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    except UsageError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2


def _module(verb: Verb) -> Any:
    return importlib.import_module(verb.module)


if __name__ == "__main__":
    sys.exit(main())
