"""With which settings an operator runs in the cluster: its Deployment, read as the operator itself reads it.

Flags, the configuration file in its ConfigMap, and the environment with all that it refers to. What cannot be
read is said and never guessed: a plan with another operator's settings is worse than none.
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
from manta.cli.operator_options import (
    Configuration,
    Options,
    add_flags,
    options_from,
    parse_configuration,
)
from manta.cli.usage import UsageError
from manta.kube.client import Client
from manta.kube.errors import Forbidden, NotFound

Json = Mapping[str, Any]
COMMAND = ["manta", "operator"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Settings, and whose they are."""

    what: str
    options: Options

    def covers(self, namespace: str) -> bool:
        return not self.options.namespaces or namespace in self.options.namespaces


@dataclass(frozen=True, slots=True)
class Unread:
    """An operator that is there, with settings that cannot be known; nor for which namespaces it is."""

    why: str


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
    doubled = [re.sub(r"^-(?=[a-z])", "--", word) for word in words]  # Go takes one dash for two
    try:
        return parser.parse_known_args(doubled)[0]
    except argparse.ArgumentError as error:
        raise UsageError(f"the operator's command line is not understood: {error}") from error


def is_ours(deployment: Json, container: Json) -> bool:
    """By its command, which the chart and `manta install` both write; labels are the user's."""
    runs = deployment["spec"].get("replicas", 1) != 0
    return runs and (container.get("command") or [])[:2] == COMMAND


async def of_deployments(
    client: Client,
    deployments: Sequence[Json],
    chosen: Callable[[Json, Json], bool] = is_ours,
) -> list[Origin | Unread]:
    """Of those whose (Deployment, container) is an operator."""
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
                cure = "give that file with --config FILE"
                return Unread(f"{what} is configured by {path}, which cannot be read: {cure}")
            configuration = parse_configuration(mounted, what)
        environment = await reader.environment(container)
        options = words_to_options(words, environment, configuration)
    except UsageError as error:
        return Unread(f"{what}: {error}")
    unread = ", ".join(reader.unread)
    return Origin(f"{what} (without {unread}, which cannot be read)" if unread else what, options)


class _Reader:
    """Reads what a container is given out of ConfigMaps and Secrets; remembers what it could not."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self.unread: list[str] = []

    async def environment(self, container: Json) -> dict[str, str]:
        """As a kubelet makes it: `envFrom` in order, then `env`, and the last one counts."""
        found: dict[str, str] = {}
        for source in container.get("envFrom") or ():
            found |= await self._whole(source)
        for one in container.get("env") or ():
            value = await self._value(one)
            if value is not None:
                found[one["name"]] = value
        return found

    async def _whole(self, source: Json) -> dict[str, str]:
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
        """The text of a file that a container gets from a ConfigMap."""
        volumes = {one["name"]: one for one in pod.get("volumes") or ()}
        for mount in container.get("volumeMounts") or ():
            source = volumes.get(mount["name"], {}).get("configMap")
            if source is None or Path(mount["mountPath"]) != path.parent:
                continue
            return (await self._texts(CONFIG_MAPS, source["name"]) or {}).get(path.name)
        return None


def _decoded(text: str) -> str:
    return base64.b64decode(text).decode("utf-8", "surrogateescape")
