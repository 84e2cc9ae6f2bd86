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


def read_kinds(*documents: Mapping[str, Any]) -> dict[tuple[str, str], tuple[Kind, ...]]:
    """Each kind, by group and plural, in all its versions; the preferred one comes first."""
    found: dict[tuple[str, str], tuple[Kind, ...]] = {}
    for document in documents:
        for kind in _kinds(document):
            address = (kind.resource.group, kind.resource.plural)
            if address not in IGNORED:
                found[address] = (*found.get(address, ()), kind)
    return found


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
