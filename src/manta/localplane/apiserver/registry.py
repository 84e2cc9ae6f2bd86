"""The resources that the server serves: the built-in ones and those of the CRDs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from manta.localplane.apiserver.api_resources import ApiResource
from manta.localplane.apiserver.builtin_resources import builtin_resources
from manta.localplane.apiserver.custom_resources import Schemas, defined_resources


class Registry:
    def __init__(self) -> None:
        self.version = 0
        """Counts changes: discovery documents are rebuilt when it grows."""
        self._schemas = Schemas()
        self._custom: dict[str, tuple[ApiResource, ...]] = {}
        self._index: dict[tuple[str, str, str], ApiResource] = {}
        self._versions: set[tuple[str, str]] = set()
        self._storage: dict[str, ApiResource] = {}
        self._builtin = builtin_resources()
        self._rebuild()

    def find(self, group: str, version: str, plural: str) -> ApiResource | None:
        return self._index.get((group, version, plural))

    def has_version(self, group: str, version: str) -> bool:
        return (group, version) in self._versions

    def has_group(self, group: str) -> bool:
        return any(group == known for known, _ in self._versions)

    def all(self) -> Iterator[ApiResource]:
        yield from self._builtin
        for versions in self._custom.values():
            yield from versions

    def by_kind(self, api_version: str, kind: str) -> ApiResource | None:
        for resource in self.all():
            if resource.kind == kind and resource.api_version == api_version:
                return resource
        return None

    def storage_of(self, resource: ApiResource) -> ApiResource:
        """The version in which a resource is stored; built-in resources have only one."""
        return self._storage.get(resource.group_resource, resource)

    # ── custom resources ─────────────────────────────────────────────────────────────────
    def establish(self, name: str, raw: bytes) -> tuple[ApiResource, ...]:
        """Serve what this stored CRD defines."""
        versions = defined_resources(raw, self._schemas)
        self._custom[name] = versions
        self._rebuild()
        return versions

    def withdraw(self, name: str) -> Iterable[ApiResource]:
        withdrawn = self._custom.pop(name, ())
        self._rebuild()
        return withdrawn

    def custom(self, name: str) -> tuple[ApiResource, ...]:
        return self._custom.get(name, ())

    def _rebuild(self) -> None:
        self.version += 1
        self._index = {(one.group, one.version, one.plural): one for one in self.all()}
        self._versions = {(one.group, one.version) for one in self.all()}
        custom = [one for versions in self._custom.values() for one in versions]
        self._storage = {
            one.group_resource: one for one in custom if one.strategy.is_storage_version
        }
        self._schemas.keep_only({one.strategy.epoch for one in custom})
