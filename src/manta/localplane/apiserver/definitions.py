"""The life of CustomResourceDefinitions beside their storage: established, changed, removed.

There is no controller for this: a definition is served in the same turn in which it is stored,
and it goes when the last of its objects has gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from manta.localplane.apiserver import custom_resources
from manta.localplane.apiserver.core import Core
from manta.localplane.apiserver.deletion import CRD_CLEANUP
from manta.localplane.apiserver.schema.causes import Cause
from manta.localplane.apiserver.served import Served
from manta.localplane.store.objects import Record

SHELF = "customresourcedefinitions.apiextensions.k8s.io"


class Definitions:
    def __init__(self, core: Core) -> None:
        self._core = core

    def check(self, crd: dict[str, Any]) -> list[Cause]:
        return custom_resources.check(crd)

    def accept(self, crd: dict[str, Any], old: dict[str, Any] | None = None) -> dict[str, Any]:
        crd = custom_resources.with_defaults(crd)
        if old is None:
            crd.pop("status", None)
        return custom_resources.established(crd, self._core.now_text())

    def stored(self, record: Record) -> None:
        """Serve it from now on, and let watchers of a changed schema begin again."""
        before = {one.shelf: one.custom for one in self._core.registry.custom(record.name)}
        versions = self._core.registry.establish(record.name, record.raw)
        served_before = set(before)
        for shelf in served_before - {one.shelf for one in versions}:
            self._core.store.close_watches(shelf)

    def load_all(self) -> None:
        """After a start: serve every definition that the journal holds."""
        for record in self._core.store.select(SHELF):
            self._core.registry.establish(record.name, record.raw)

    def reverted(self, shelf: str, name: str) -> None:
        """The store took a definition's latest state back: serve the one before, or none."""
        if shelf != SHELF:
            return
        record = self._core.store.get(SHELF, name)
        if record is None:
            self.removed(name)
        else:
            self.stored(record)

    # ── removal ──────────────────────────────────────────────────────────────────────────
    def begin_removal(self, crd: dict[str, Any]) -> dict[str, Any]:
        """Before a definition goes, its objects go."""
        meta = dict(crd["metadata"])
        names = [name for name in meta.get("finalizers") or () if name != CRD_CLEANUP]
        if not self._is_empty(meta["name"]):
            names.append(CRD_CLEANUP)
            crd = custom_resources.terminating(crd, self._core.now_text())
        meta["finalizers"] = names
        return crd | {"metadata": meta}

    def instances_of(self, name: str) -> Iterable[Served]:
        return self._core.registry.custom(name)[:1]

    def finish_removal(self, name: str) -> None:
        """The last object may have gone: then the definition may go too."""
        record = self._core.store.get(SHELF, name)
        if record is None or not self._is_empty(name):
            return
        crd = record.decode()
        meta = crd["metadata"]
        if "deletionTimestamp" not in meta:
            return
        meta["finalizers"] = [one for one in meta.get("finalizers") or () if one != CRD_CLEANUP]
        if meta["finalizers"]:
            self._core.store.put(SHELF, name, crd)
            return
        self._core.store.remove(SHELF, name, crd)
        self.removed(name)

    def removed(self, name: str) -> None:
        for served in self._core.registry.withdraw(name):
            self._core.store.close_watches(served.shelf)

    def _is_empty(self, name: str) -> bool:
        return not any(
            len(self._core.store.shelf(served.shelf)) for served in self.instances_of(name)
        )
