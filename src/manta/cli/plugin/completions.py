"""Completions of `kubectl ray` command lines.

Two ways lead here: argcomplete's script runs `kubectl-ray` with _ARGCOMPLETE set, and kubectl's own
completion runs `kubectl_complete-ray WORD...`, which prints one proposal a line and a last line
`:4` (no file names).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import argcomplete
import argcomplete.finders

from manta.api.ray.names import LABEL_IS_RAY_NODE
from manta.api.ray.resources import RAY_CLUSTERS, RAY_CRON_JOBS, RAY_JOBS, RAY_SERVICES
from manta.api.resources import PODS
from manta.cli.plugin.main import build_parser, verb_of
from manta.cli.server.completions import (
    OF_ANY,
    OF_VERB,
    Completer,
    any_of,
    contexts,
    from_server,
    names_in,
    names_of,
)
from manta.cli.server.connection import GivenDirectory, namespace_of
from manta.kube.client import Client

NO_FILES: Final = ":4"


async def _groups(client: Client, args: argparse.Namespace, _: str) -> list[str]:
    wanted = getattr(args, "ray_cluster", "") or getattr(args, "name", "") or ""
    found = (await client.list(RAY_CLUSTERS, namespace_of(args))).items
    return [
        group["groupName"]
        for one in found
        if args.what == "workergroup" or one["metadata"]["name"] == wanted
        for group in one["spec"].get("workerGroupSpecs") or ()
    ]


async def _nodes(client: Client, args: argparse.Namespace, _: str) -> list[str]:
    found = await client.list(PODS, namespace_of(args), labels=f"{LABEL_IS_RAY_NODE}=yes")
    return [one["metadata"]["name"] for one in found.items]


def _words(*proposals: str) -> Completer:
    def completer(**_: Any) -> list[str]:
        return list(proposals)

    return completer


_CLUSTERS = names_of(RAY_CLUSTERS)
_TYPED = tuple(
    names_of(one, f"{one.kind.lower()}/") for one in (RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES)
)
_TARGET = from_server(any_of(_CLUSTERS, *_TYPED))
_ANY_TARGET = from_server(any_of(_CLUSTERS, *_TYPED, names_of(RAY_CRON_JOBS, "raycronjob/")))
OF_COMMAND: Final[Mapping[tuple[str, str], Completer]] = {
    ("get cluster", "name"): from_server(_CLUSTERS),
    ("get token", "name"): from_server(_CLUSTERS),
    ("get workergroup", "name"): from_server(_groups),
    ("get node", "name"): from_server(_nodes),
    ("get rayjob", "names"): from_server(names_of(RAY_JOBS)),
    ("get rayservice", "names"): from_server(names_of(RAY_SERVICES)),
    ("get raycronjob", "names"): from_server(names_of(RAY_CRON_JOBS)),
    ("get raycluster", "names"): from_server(_CLUSTERS),
    ("scale cluster", "name"): from_server(_CLUSTERS),
    ("scale cluster", "worker_group"): from_server(_groups),
    ("delete", "targets"): _ANY_TARGET,
    ("suspend", "targets"): _ANY_TARGET,
    ("resume", "targets"): _ANY_TARGET,
    ("status", "target"): _ANY_TARGET,
    ("session", "target"): _TARGET,
    ("log", "target"): _TARGET,
    ("log", "node_type"): _words("all", "head", "worker"),
    ("log", "link"): _words("gke"),
    ("create cluster", "autoscaler"): _words("v1", "v2"),
}
_ANYWHERE: Final[Mapping[str, Completer]] = {
    "ray_cluster": from_server(_CLUSTERS),
    "output": _words("json", "yaml", "wide", "name", "jsonpath="),
    "kube_cluster": names_in(lambda file: file.clusters),
    "kube_user": names_in(lambda file: file.users),
    "context": contexts,
}


def completed_parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser for these words, with completers."""
    verb = verb_of([word for word in words if not word.startswith("-")])
    parser, verbs = build_parser(verb)
    if verb in verbs.choices:
        _attach(verbs.choices[verb], verb)
    return parser


def _attach(parser: argparse.ArgumentParser, command: str) -> None:
    for action in parser._actions:  # noqa: SLF001  # argparse has no other way to list them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for name, child in dict(action.choices).items():
                what = str(child.get_default("what") or name)
                _attach(child, f"{command} {what}")
            continue
        places = (OF_COMMAND.get((command, action.dest)), _ANYWHERE.get(action.dest))
        manta = (OF_VERB.get((command, action.dest)), OF_ANY.get(action.dest))
        completer = next((one for one in (*places, *manta) if one is not None), None)
        if completer is not None:
            action.completer = completer  # type: ignore[attr-defined]


def complete() -> None:
    """Print the completions of the line in the environment, and exit."""
    line = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])]
    words = line.split()[1:]
    done = words if line.endswith(" ") else words[:-1]
    argcomplete.finders.safe_actions.add(GivenDirectory)
    argcomplete.autocomplete(completed_parser(done), always_complete_options=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """`kubectl_complete-ray WORD... PREFIX`: print the proposals for the last word."""
    words = list(sys.argv[1:] if arguments is None else arguments) or [""]
    for text in proposals(words):
        print(text)
    print(NO_FILES)
    return 0


def proposals(words: Sequence[str]) -> list[str]:
    """What may stand in the place of the last word, sorted."""
    *done, prefix = words
    argcomplete.finders.safe_actions.add(GivenDirectory)
    finder = argcomplete.finders.CompletionFinder(
        completed_parser(done), always_complete_options=False
    )
    find: Any = finder._get_completions  # noqa: SLF001  # the only way without a shell's variables
    found = find(["kubectl ray", *done], prefix, "", None)
    return sorted({text.strip() for text in found if text.strip()})
