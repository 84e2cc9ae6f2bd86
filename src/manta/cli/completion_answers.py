"""What may stand at the cursor: the answer to a shell that completes a `manta` command line.

Loaded only when a shell asks (it sets _ARGCOMPLETE). Names come from the API server, which has a
second to answer; whatever goes wrong means that nothing is proposed, since the shell shows no errors.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

import argcomplete
import argcomplete.finders

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES
from manta.api.resources import NAMESPACES, PODS, Resource
from manta.cli.connection import GivenDirectory, namespace_of, open_client
from manta.cli.kinds import SHORTHAND, Kinds
from manta.cli.usage import UsageError
from manta.kube.client import Client
from manta.kube.errors import MantaError

PATIENCE: Final = 1.0
"""Seconds that the API server has: whoever presses Tab waits for it."""

Find = Callable[[Client, argparse.Namespace, str], Awaitable[Iterable[str]]]
Completer = Callable[..., list[str]]


def answer(parser_of: Callable[[str], tuple[argparse.ArgumentParser, Any]]) -> None:
    """Print the proposals for the line of the environment, and end the process."""
    line = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])]
    words = line.split()[1:]
    done = words if line.endswith(" ") else words[:-1]
    verb = next((word for word in done if not word.startswith("-")), "")
    parser, verbs = parser_of(verb)
    if verb in verbs.choices:
        attach(verbs.choices[verb], verb)
    argcomplete.finders.safe_actions.add(GivenDirectory)
    argcomplete.autocomplete(parser, always_complete_options=False)


def attach(parser: argparse.ArgumentParser, verb: str) -> None:
    """Say for the arguments of a verb where their values come from."""
    for action in parser._actions:  # noqa: SLF001  # argparse has no other way to list them
        completer = OF_VERB.get((verb, action.dest)) or OF_ANY.get(action.dest)
        if completer is not None:
            action.completer = completer  # type: ignore[attr-defined]


# ── from the API server ──────────────────────────────────────────────────────────────────


def _asked(find: Find) -> Completer:
    def complete(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
        async def ask() -> list[str]:
            async with asyncio.timeout(PATIENCE), open_client(args) as client:
                return sorted(await find(client, args, prefix))

        args = _with_defaults(parsed_args)
        try:
            return asyncio.run(ask())
        except (MantaError, UsageError, TimeoutError, OSError):
            return []

    return complete


def _with_defaults(parsed: argparse.Namespace) -> argparse.Namespace:
    """Flags that stand behind the cursor have not been read."""
    flags = {"kubeconfig": None, "context": None, "namespace": None, "dir": None}
    return argparse.Namespace(**{**flags, **vars(parsed)})


async def _names(client: Client, resource: Resource, namespace: str) -> list[str]:
    listed = await client.list(resource, namespace if resource.namespaced else "")
    return [one["metadata"]["name"] for one in listed.items]


def _of(resource: Resource, prefix: str = "") -> Find:
    async def find(client: Client, args: argparse.Namespace, _: str) -> list[str]:
        found = await _names(client, resource, namespace_of(args))
        return [prefix + name for name in found]

    return find


def _any_of(*finds: Find) -> Find:
    async def find(client: Client, args: argparse.Namespace, prefix: str) -> list[str]:
        found = await asyncio.gather(
            *(one(client, args, prefix) for one in finds), return_exceptions=True
        )
        return [name for names in found if not isinstance(names, BaseException) for name in names]

    return find


async def _kinds(client: Client, args: argparse.Namespace, prefix: str) -> list[str]:
    """`pods`, `pods,svc`, or `pod/NAME`."""
    kinds = await Kinds.discover(client)
    kind, slash, _ = prefix.partition("/")
    if slash:
        found = await _names(client, kinds.named(kind), namespace_of(args))
        return [f"{kind}/{name}" for name in found]
    before = prefix.rpartition(",")[0]
    first = f"{before}," if before else ""
    return [first + name for name in {*(one.plural for one in kinds), *SHORTHAND}]


async def _names_of_kind(client: Client, args: argparse.Namespace, prefix: str) -> list[str]:
    kind = getattr(args, "kind", None) or ""
    if "/" in kind or not kind:
        return await _kinds(client, args, prefix)
    resource = (await Kinds.discover(client)).named(kind)
    given = getattr(args, "names", None) or ()
    found = await _names(client, resource, namespace_of(args))
    return [name for name in found if name not in given]


async def _containers(client: Client, args: argparse.Namespace, _: str) -> list[str]:
    from manta.cli.logs import pod_key

    target = getattr(args, "pod", None) or getattr(args, "target", None) or ""
    key: Key = await pod_key(client, namespace_of(args), target)
    pod = await client.get(PODS, key)
    return [one["name"] for one in pod["spec"]["containers"]]


def _contexts(*, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    from manta.kube.credentials import kubeconfig_paths
    from manta.kube.kubeconfig_file import read_file

    given = getattr(parsed_args, "kubeconfig", None)
    paths = [given] if given else kubeconfig_paths(os.environ)
    try:
        files = [read_file(path) for path in paths if path.exists()]
    except (MantaError, OSError):
        return []
    return [one.name for file in files for one in file.contexts or ()]


OF_ANY: Final[Mapping[str, Completer]] = {
    "namespace": _asked(_of(NAMESPACES)),
    "watch_namespace": _asked(_of(NAMESPACES)),
    "context": _contexts,
    "kind": _asked(_kinds),
    "container": _asked(_containers),
    "cluster": _asked(_of(RAY_CLUSTERS)),
}
_CLUSTERS = _of(RAY_CLUSTERS, "cluster/")
_SERVICES = _of(RAY_SERVICES, "rayservice/")
_JOBS = _of(RAY_JOBS, "rayjob/")
OF_VERB: Final[Mapping[tuple[str, str], Completer]] = {
    ("get", "names"): _asked(_names_of_kind),
    ("describe", "names"): _asked(_names_of_kind),
    ("delete", "names"): _asked(_names_of_kind),
    ("events", "object"): _asked(_kinds),
    ("logs", "target"): _asked(_any_of(_of(PODS), _CLUSTERS, _SERVICES, _JOBS)),
    ("exec", "pod"): _asked(_any_of(_of(PODS), _of(RAY_CLUSTERS))),
    ("dashboard", "target"): _asked(_of(RAY_CLUSTERS)),
    ("scale", "target"): _asked(_of(RAY_CLUSTERS)),
    ("upgrade", "name"): _asked(_of(RAY_SERVICES)),
}
