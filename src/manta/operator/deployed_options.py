"""The options of an operator that runs in a cluster, read from its Deployment.

From its flags, its configuration file in a ConfigMap, and its environment with the ConfigMaps and
Secrets that it refers to. What cannot be read is reported and never guessed.
"""

from __future__ import annotations

import argparse
import base64
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manta.api.meta import Key
from manta.api.resources import CONFIG_MAPS, SECRETS, Resource
from manta.api.usage import UsageError
from manta.kube.client import Client
from manta.kube.errors import Forbidden, NotFound
from manta.operator.configuration import Configuration, parse_configuration
from manta.operator.options import Options, add_flags, options_from

Json = Mapping[str, Any]
COMMAND = ["manta", "operator"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Options, and where they come from."""

    what: str
    options: Options

    def covers(self, namespace: str) -> bool:
        return not self.options.namespaces or namespace in self.options.namespaces


@dataclass(frozen=True, slots=True)
class Unread:
    """An operator whose options, and so its namespaces, cannot be read."""

    why: str


def parse_command_line(
    words: Sequence[str], environment: Mapping[str, str], configuration: Configuration | None = None
) -> Options:
    """The options of a command line. Flags of newer operators are ignored. Raises UsageError."""
    args = _parse(words)
    if configuration is None:
        return options_from(args, environment)
    return options_from(args, environment, read=lambda _: configuration)


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    add_flags(parser)
    doubled = [re.sub(r"^-(?=[a-z])", "--", word) for word in words]  # Go accepts one dash for two
    try:
        return parser.parse_known_args(doubled)[0]
    except argparse.ArgumentError as error:
        raise UsageError(f"cannot parse the command line of the operator: {error}") from error


def is_ours(deployment: Json, container: Json) -> bool:
    """Whether this container is an operator of ours, by its command: users may change the labels."""
    runs = deployment["spec"].get("replicas", 1) != 0
    return runs and (container.get("command") or [])[:2] == COMMAND


async def of_deployments(
    client: Client, deployments: Sequence[Json], chosen: Callable[[Json, Json], bool] = is_ours
) -> list[Origin | Unread]:
    """The options of the Deployments with a container that `chosen` selects."""
    found: list[Origin | Unread] = []
    for one in deployments:
        containers = one["spec"]["template"]["spec"]["containers"]
        container = next((its for its in containers if chosen(one, its)), None)
        if container is not None:
            found.append(await _of_container(client, one, container))
    return found


async def _of_container(client: Client, deployment: Json, container: Json) -> Origin | Unread:
    meta, pod = deployment["metadata"], deployment["spec"]["template"]["spec"]
    what, reader = (
        f"Deployment {meta['namespace']}/{meta['name']}",
        _Reader(client, meta["namespace"]),
    )
    words = container.get("args") or []
    try:
        path, configuration = _parse(words).config, None
        if path is not None:
            mounted = await reader.mounted(pod, container, path)
            if mounted is None:
                fix = "give that file with --config FILE"
                return Unread(f"{what} is configured by {path}, which cannot be read: {fix}")
            configuration = parse_configuration(mounted, what)
        environment = await reader.environment(container)
        options = parse_command_line(words, environment, configuration)
    except UsageError as error:
        return Unread(f"{what}: {error}")
    unread = ", ".join(reader.unread)
    return Origin(f"{what} (without {unread}, which cannot be read)" if unread else what, options)


class _Reader:
    """Reads the environment and files of a container; collects what it cannot read."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self.unread: list[str] = []

    async def environment(self, container: Json) -> dict[str, str]:
        """As the kubelet builds it: `envFrom` in order, then `env`; the last one wins."""
        found: dict[str, str] = {}
        for source in container.get("envFrom") or ():
            found |= await self._env_from(source)
        for one in container.get("env") or ():
            value = await self._value(one)
            if value is not None:
                found[one["name"]] = value
        return found

    async def _env_from(self, source: Json) -> dict[str, str]:
        prefix = source.get("prefix") or ""
        for field, resource in (("configMapRef", CONFIG_MAPS), ("secretRef", SECRETS)):
            if (reference := source.get(field)) is None:
                continue
            texts = await self._texts(resource, reference["name"])
            if texts is None and not reference.get("optional"):
                self.unread.append(f"{resource.kind} {reference['name']}")
            return {f"{prefix}{name}": text for name, text in (texts or {}).items()}
        return {}

    async def _value(self, variable: Json) -> str | None:
        source = variable.get("valueFrom")
        if not source:
            return str(variable.get("value", ""))
        field = (source.get("fieldRef") or {}).get("fieldPath", "")
        if field == "metadata.namespace":
            return self._namespace
        for name, resource in (("configMapKeyRef", CONFIG_MAPS), ("secretKeyRef", SECRETS)):
            if (reference := source.get(name)) is not None:
                texts = await self._texts(resource, reference["name"]) or {}
                if reference["key"] in texts:
                    return texts[reference["key"]]
                if reference.get("optional"):
                    return None
        self.unread.append(variable["name"])
        return None

    async def _texts(self, resource: Resource, name: str) -> dict[str, str] | None:
        try:
            found = await self._client.get(resource, Key(self._namespace, name))
        except (Forbidden, NotFound):
            return None
        data = found.get("data") or {}
        if resource is SECRETS:
            return {key: _decoded(text) for key, text in data.items()}
        return {key: str(text) for key, text in data.items()}

    async def mounted(self, pod: Json, container: Json, path: Path) -> str | None:
        """The text of a file that is mounted from a ConfigMap; None if there is none."""
        volumes = {one["name"]: one for one in pod.get("volumes") or ()}
        for mount in container.get("volumeMounts") or ():
            source = volumes.get(mount["name"], {}).get("configMap")
            if source is None or Path(mount["mountPath"]) != path.parent:
                continue
            return (await self._texts(CONFIG_MAPS, source["name"]) or {}).get(path.name)
        return None


def _decoded(text: str) -> str:
    return base64.b64decode(text).decode("utf-8", "surrogateescape")
