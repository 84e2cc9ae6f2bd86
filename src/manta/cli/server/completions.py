"""Completions of a `manta` command line, for a shell.

Loaded only if a shell requests them (it sets _ARGCOMPLETE). Names come from the API server, which has
one second to answer. An error gives no completions, since the shell does not show errors.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import argcomplete
import argcomplete.finders

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES
from manta.api.resources import NAMESPACES, PODS, Resource
from manta.api.usage import UsageError
from manta.cli.server.connection import GivenDirectory, namespace_of, open_client
from manta.cli.server.discovery import SHORTHAND, Kinds
from manta.kube.client import Client
from manta.kube.errors import MantaError

if TYPE_CHECKING:
    from manta.kube.kubeconfig_file import KubeconfigFile

TIMEOUT_SECONDS: Final = 1.0
"""Seconds for the API server: the user waits after pressing Tab."""

Find = Callable[[Client, argparse.Namespace, str], Awaitable[Iterable[str]]]
Completer = Callable[..., list[str]]


def complete(parser_of: Callable[[str], tuple[argparse.ArgumentParser, Any]]) -> None:
    """Print the completions of the line in the environment, and exit."""
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
    """Set the completers of the arguments of a verb."""
    for action in parser._actions:  # noqa: SLF001  # argparse has no other way to list them
        completer = OF_VERB.get((verb, action.dest)) or OF_ANY.get(action.dest)
        if completer is not None:
            action.completer = completer  # type: ignore[attr-defined]


# ── names from the API server ────────────────────────────────────────────────────────────


def from_server(find: Find) -> Completer:
    def completer(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
        async def fetch() -> list[str]:
            async with asyncio.timeout(TIMEOUT_SECONDS), open_client(args) as client:
                return sorted(await find(client, args, prefix))

        args = _with_defaults(parsed_args)
        try:
            return asyncio.run(fetch())
        except (MantaError, UsageError, TimeoutError, OSError):
            return []

    return completer


def _with_defaults(parsed: argparse.Namespace) -> argparse.Namespace:
    """Flags after the cursor have not been parsed."""
    flags = {"kubeconfig": None, "context": None, "namespace": None, "dir": None}
    return argparse.Namespace(**{**flags, **vars(parsed)})


async def _names(client: Client, resource: Resource, namespace: str) -> list[str]:
    listed = await client.list(resource, namespace if resource.namespaced else "")
    return [one["metadata"]["name"] for one in listed.items]


def names_of(resource: Resource, prefix: str = "") -> Find:
    async def find(client: Client, args: argparse.Namespace, _: str) -> list[str]:
        found = await _names(client, resource, namespace_of(args))
        return [prefix + name for name in found]

    return find


def any_of(*finds: Find) -> Find:
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


def names_in(pick: Callable[[KubeconfigFile], Iterable[Any] | None]) -> Completer:
    """The names of these entries of the kubeconfig."""

    def completer(*, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
        from manta.kube.config import kubeconfig_paths
        from manta.kube.kubeconfig_file import read_file

        given = getattr(parsed_args, "kubeconfig", None)
        paths = [given] if given else kubeconfig_paths(os.environ)
        try:
            files = [read_file(path) for path in paths if path.exists()]
        except (MantaError, OSError):
            return []
        return [one.name for file in files for one in pick(file) or ()]

    return completer


contexts = names_in(lambda file: file.contexts)


OF_ANY: Final[Mapping[str, Completer]] = {
    "namespace": from_server(names_of(NAMESPACES)),
    "watch_namespace": from_server(names_of(NAMESPACES)),
    "context": contexts,
    "kind": from_server(_kinds),
    "container": from_server(_containers),
    "cluster": from_server(names_of(RAY_CLUSTERS)),
}
_CLUSTERS = names_of(RAY_CLUSTERS, "cluster/")
_SERVICES = names_of(RAY_SERVICES, "rayservice/")
_JOBS = names_of(RAY_JOBS, "rayjob/")
OF_VERB: Final[Mapping[tuple[str, str], Completer]] = {
    ("get", "names"): from_server(_names_of_kind),
    ("describe", "names"): from_server(_names_of_kind),
    ("delete", "names"): from_server(_names_of_kind),
    ("events", "object"): from_server(_kinds),
    ("logs", "target"): from_server(any_of(names_of(PODS), _CLUSTERS, _SERVICES, _JOBS)),
    ("exec", "pod"): from_server(any_of(names_of(PODS), names_of(RAY_CLUSTERS))),
    ("dashboard", "target"): from_server(names_of(RAY_CLUSTERS)),
    ("scale", "target"): from_server(names_of(RAY_CLUSTERS)),
    ("upgrade", "name"): from_server(names_of(RAY_SERVICES)),
}
