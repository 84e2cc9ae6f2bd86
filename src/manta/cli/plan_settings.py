"""Whose settings a plan is made with: those of the operator that would carry it out.

In this order: what `manta plan` was told (the flags and the file of `manta operator`); the operator of
the plane on this machine; the operator's Deployment on the server, with its ConfigMap; the
environment and the defaults. What was chosen is said, because a gate can change the whole plan.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manta.api.meta import Key
from manta.api.resources import CONFIG_MAPS, DEPLOYMENTS
from manta.cli.connection import kubeconfig_paths
from manta.cli.operator_options import (
    OPTIONS,
    Configuration,
    Options,
    add_flags,
    options_from,
    parse_configuration,
)
from manta.cli.planeprocess import plane_processes, read_record
from manta.cli.usage import UsageError
from manta.kube.client import Client
from manta.kube.credentials import load
from manta.kube.errors import Forbidden, NotFound

Json = Mapping[str, Any]
COMMAND = ["manta", "operator"]
_ODD = "surrogateescape"
"""Variables may hold any bytes."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Settings, and whose they are."""

    what: str
    options: Options

    def covers(self, namespace: str) -> bool:
        return not self.options.namespaces or namespace in self.options.namespaces


def add_settings_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "settings", "As of `manta operator`. Without any: those of the operator that runs."
    )
    add_flags(group)


async def find_origins(args: argparse.Namespace, client: Client) -> list[Origin]:
    """The first that covers a namespace is its operator's; the last one covers all."""
    told = options_from(args, os.environ)
    if was_told(args):
        return [Origin("those that were given", told)]
    found = list(_of_plane(args))
    try:
        found += await _of_deployments(client)
        why = "the defaults, as no operator was found for this namespace"
    except (Forbidden, NotFound):  # who may not look still gets a plan
        why = "the defaults, as you may not list Deployments to find the operator"
    return [*found, Origin(why, told)]


def origin_for(origins: Sequence[Origin], namespace: str) -> Origin:
    return next((one for one in origins if one.covers(namespace)), origins[-1])


def was_told(args: argparse.Namespace) -> bool:
    given = any(getattr(args, option.name) is not None for option in OPTIONS)
    return given or bool(args.config or args.feature_gates)


# ── an operator's own words ──────────────────────────────────────────────────────────────


def words_to_options(
    words: Sequence[str],
    environment: Mapping[str, str],
    configuration: Configuration | None = None,
) -> Options:
    """Of an operator's command line. What only a newer operator knows is passed over."""
    args = _parse(words)
    if configuration is None:
        return options_from(args, environment)
    return options_from(args, environment, read=lambda _: configuration)


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    add_flags(parser)
    try:
        return parser.parse_known_args(list(words))[0]
    except argparse.ArgumentError as error:
        raise UsageError(f"the operator's command line is not understood: {error}") from error


def _of_plane(args: argparse.Namespace) -> Iterator[Origin]:
    """`manta up` starts the operator as a process: what it was started with can be read."""
    for pid in (pid for one in _planes(args) for pid in plane_processes(one)):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_text(errors=_ODD).split("\0")
            pairs = Path(f"/proc/{pid}/environ").read_text(errors=_ODD).split("\0")
        except OSError:  # it has just ended, or is another user's
            continue
        if "operator" in words:
            environment = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
            options = words_to_options(words[words.index("operator") + 1 :], environment)
            yield Origin("the operator of the plane on this machine", options)


def _planes(args: argparse.Namespace) -> Iterator[Path]:
    """Those whose server is the one that is asked: KUBECONFIG may name others beside it."""
    paths = kubeconfig_paths(args)
    for directory in {path.parent for path in paths}:
        record = read_record(directory)
        if record is None:
            continue
        if record.url == load(paths, context=args.context, environment=os.environ).server:
            yield directory


async def _of_deployments(client: Client) -> list[Origin]:
    deployments = (await client.list(DEPLOYMENTS)).items
    found = [await _of_deployment(client, one) for one in deployments]
    return [one for one in found if one is not None]


async def _of_deployment(client: Client, deployment: Json) -> Origin | None:
    meta, pod = deployment["metadata"], deployment["spec"]["template"]["spec"]
    container = next((one for one in pod["containers"] if _is_operator(one)), None)
    if container is None or deployment["spec"].get("replicas", 1) == 0:
        return None
    what = f"Deployment {meta['namespace']}/{meta['name']}"
    environment = {one["name"]: one.get("value", "") for one in container.get("env") or ()}
    words = container.get("args") or []
    path = _parse(words).config
    configuration = None
    if path is not None:
        mounted = await _mounted(client, meta["namespace"], pod, container, path)
        if mounted is None:
            raise UsageError(f"{what} is configured by {path}: give that file with --config FILE")
        configuration = parse_configuration(mounted, what)
    return Origin(what, words_to_options(words, environment, configuration))


def _is_operator(container: Json) -> bool:
    """By its command, which the chart and `manta install` both write; labels are the user's."""
    return (container.get("command") or [])[:2] == COMMAND


async def _mounted(
    client: Client, namespace: str, pod: Json, container: Json, path: Path
) -> str | None:
    """The text of a file that a container gets from a ConfigMap."""
    volumes = {one["name"]: one for one in pod.get("volumes") or ()}
    for mount in container.get("volumeMounts") or ():
        source = volumes.get(mount["name"], {}).get("configMap")
        if source is None or Path(mount["mountPath"]) != path.parent:
            continue
        try:
            found = await client.get(CONFIG_MAPS, Key(namespace, source["name"]))
        except (Forbidden, NotFound):
            return None
        text = (found.get("data") or {}).get(path.name)
        return None if text is None else str(text)
    return None
