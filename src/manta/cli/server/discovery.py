"""Kinds as users write them (`po`, `raycluster`, `rayclusters.ray.io`), by API discovery."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from manta.api.meta import Key
from manta.api.resources import Resource
from manta.api.usage import UsageError, did_you_mean
from manta.kube.client import Client

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"

# The only names that kubectl does not know.
SHORTHAND = {"cluster": "rayclusters", "clusters": "rayclusters"}


class Kinds:
    """The kinds of an API server, read once per command."""

    def __init__(self, found: list[tuple[Resource, frozenset[str]]]) -> None:
        self._found = found

    @classmethod
    async def discover(cls, client: Client) -> Kinds:
        found: list[tuple[Resource, frozenset[str]]] = []
        for path in ("/api", "/apis"):
            response = await client.send("GET", path, headers={"Accept": AGGREGATED})
            document = msgspec.json.decode(response.body)
            for group in document.get("items", ()):
                found.extend(_resources(group))
        return cls(found)

    def named(self, word: str) -> Resource:
        """The resource with this name. Core kinds win over others of the same name. Raises UsageError."""
        wanted = SHORTHAND.get(word, word).lower()
        for resource, names in self._found:
            if wanted in names:
                return resource
        known = {name for _, names in self._found for name in names}
        raise UsageError(
            f'the server has no resource type "{word}"{did_you_mean(word, known)}; '
            "`manta get --kinds` lists all"
        )

    def of(self, api_version: str, kind: str) -> Resource:
        """The resource of a document. Raises UsageError for an unknown kind."""
        for resource, _ in self._found:
            if resource.api_version == api_version and resource.kind == kind:
                return resource
        raise UsageError(
            f"the server does not know {kind} of {api_version}: is its CRD installed? "
            "(`manta crds | kubectl apply --server-side -f -` installs those of Ray)"
        )

    def locate(self, document: Mapping[str, Any], namespace: str) -> tuple[Resource, Key]:
        """The resource and key of a manifest; `namespace` if it names none. Raises UsageError."""
        resource, meta = self.of(document["apiVersion"], document["kind"]), document["metadata"]
        where = meta.get("namespace", namespace) if resource.namespaced else ""
        return resource, Key(where, meta["name"])

    def __iter__(self) -> Iterator[Resource]:
        return iter(resource for resource, _ in self._found)


def _resources(group: dict[str, Any]) -> Iterator[tuple[Resource, frozenset[str]]]:
    group_name = group.get("metadata", {}).get("name", "")
    # The first version is the preferred one; others are selected by their apiVersion only.
    for number, version in enumerate(group.get("versions", ())):
        for entry in version.get("resources", ()):
            resource = Resource(
                group_name,
                version["version"],
                entry["resource"],
                entry["responseKind"]["kind"],
                namespaced=entry["scope"] == "Namespaced",
            )
            yield resource, _names(resource, entry) if number == 0 else frozenset()


def _names(resource: Resource, entry: dict[str, Any]) -> frozenset[str]:
    singular = entry.get("singularResource") or resource.kind.lower()
    plain = {resource.plural, singular, resource.kind.lower(), *entry.get("shortNames", ())}
    full = {f"{name}.{resource.group}" for name in (resource.plural, singular) if resource.group}
    return frozenset(plain | full)
