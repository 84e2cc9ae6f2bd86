"""Everything that is served now: the built-in resources and those of the CRDs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from manta.localplane.apiserver.catalogue import builtin_resources
from manta.localplane.apiserver.custom_resources import Schemas, served_versions
from manta.localplane.apiserver.served import Served


class Registry:
    def __init__(self) -> None:
        self.version = 0
        """Counts changes, so that discovery documents can be kept until something changes."""
        self._schemas = Schemas()
        self._custom: dict[str, tuple[Served, ...]] = {}
        self._index: dict[tuple[str, str, str], Served] = {}
        self._versions: set[tuple[str, str]] = set()
        self._builtin = builtin_resources()
        self._rebuild()

    def find(self, group: str, version: str, plural: str) -> Served | None:
        return self._index.get((group, version, plural))

    def has_version(self, group: str, version: str) -> bool:
        return (group, version) in self._versions

    def has_group(self, group: str) -> bool:
        return any(group == known for known, _ in self._versions)

    def all(self) -> Iterator[Served]:
        yield from self._builtin
        for versions in self._custom.values():
            yield from versions

    def by_kind(self, api_version: str, kind: str) -> Served | None:
        for served in self.all():
            if served.kind == kind and served.api_version == api_version:
                return served
        return None

    def storage_of(self, served: Served) -> Served:
        """The version in which a custom resource is stored; built-in ones have only one."""
        if served.custom is None or served.custom.storage:
            return served
        versions = self._custom.get(served.group_resource, ())
        return next((one for one in versions if one.custom and one.custom.storage), served)

    # ── custom resources ─────────────────────────────────────────────────────────────────
    def establish(self, name: str, raw: bytes) -> tuple[Served, ...]:
        """Serve what this stored CRD defines, from now on."""
        versions = served_versions(raw, self._schemas)
        self._custom[name] = versions
        self._rebuild()
        return versions

    def withdraw(self, name: str) -> Iterable[Served]:
        gone = self._custom.pop(name, ())
        self._rebuild()
        return gone

    def custom(self, name: str) -> tuple[Served, ...]:
        return self._custom.get(name, ())

    def _rebuild(self) -> None:
        self.version += 1
        self._index = {(one.group, one.version, one.plural): one for one in self.all()}
        self._versions = {(one.group, one.version) for one in self.all()}
        self._schemas.keep_only({one.custom.epoch for one in self.all() if one.custom})
