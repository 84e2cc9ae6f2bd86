"""Which kinds the server serves, read from its aggregated discovery documents. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from manta.api.resources import Resource

ACCEPT_AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
)

# Events come and go in masses and own nothing; the real collector ignores them too.
IGNORED = frozenset({("", "events"), ("events.k8s.io", "events")})


@dataclass(frozen=True, slots=True)
class Kind:
    resource: Resource
    verbs: frozenset[str]

    @property
    def is_watchable(self) -> bool:
        return {"list", "watch", "delete"} <= self.verbs


def read_kinds(*documents: Mapping[str, Any]) -> tuple[Kind, ...]:
    """Each kind once, in the version that its group prefers."""
    found: dict[tuple[str, str], Kind] = {}
    for document in documents:
        for kind in _kinds(document):
            address = (kind.resource.group, kind.resource.plural)
            if address not in IGNORED:
                found.setdefault(address, kind)
    return tuple(found.values())


def _kinds(document: Mapping[str, Any]) -> Iterator[Kind]:
    for group in document.get("items") or ():
        name = group.get("metadata", {}).get("name", "")
        for version in group.get("versions") or ():
            yield from _of_version(name, version["version"], version.get("resources") or ())


def _of_version(group: str, version: str, resources: Iterable[Mapping[str, Any]]) -> Iterator[Kind]:
    for one in resources:
        kind = (one.get("responseKind") or {}).get("kind", "")
        resource = Resource(
            group, version, one["resource"], kind, namespaced=one.get("scope") == "Namespaced"
        )
        yield Kind(resource, frozenset(one.get("verbs") or ()))
