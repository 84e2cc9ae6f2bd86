"""The lifecycle of CustomResourceDefinitions: served, changed, removed.

There is no controller for this. A definition is served in the same turn of the event loop in which it
is stored, and it is removed together with the last of its objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from manta.localplane.store.objects import Record

if TYPE_CHECKING:
    from manta.localplane.apiserver.core import Core

CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
STORAGE = "customresourcedefinitions.apiextensions.k8s.io"


def serve_definition(core: Core, record: Record) -> Record:
    """Serve a stored definition, and end the watches of resources that are no longer served."""
    before = {one.storage_name for one in core.registry.custom(record.name)}
    now = {one.storage_name for one in core.registry.establish(record.name, record.raw)}
    for name in before - now:
        core.store.close_watches(name)
    return record


def withdraw_definition(core: Core, name: str) -> None:
    """Stop serving a definition, and end the watches of its objects."""
    for resource in core.registry.withdraw(name):
        core.store.close_watches(resource.storage_name)


def load_definitions(core: Core) -> None:
    """At start: serve every stored definition."""
    for record in core.store.select(STORAGE):
        core.registry.establish(record.name, record.raw)


def revert_definition(core: Core, resource: str, name: str) -> None:
    """The store has rolled back a write: serve the definition before it, or none."""
    if resource != STORAGE:
        return
    record = core.store.get(STORAGE, name)
    if record is None:
        withdraw_definition(core, name)
    else:
        serve_definition(core, record)


def has_objects(core: Core, name: str) -> bool:
    return any(len(core.store.resource(one.storage_name)) for one in core.registry.custom(name)[:1])


def finish_removal(core: Core, name: str) -> None:
    """Remove a definition that is being deleted once it has no objects."""
    record = core.store.get(STORAGE, name)
    if record is None or has_objects(core, name):
        return
    crd = record.decode()
    meta = crd["metadata"]
    if "deletionTimestamp" not in meta:
        return
    meta["finalizers"] = [one for one in meta.get("finalizers") or () if one != CLEANUP_FINALIZER]
    if meta["finalizers"]:
        core.store.put(STORAGE, name, crd)
        return
    core.store.remove(STORAGE, name, crd)
    withdraw_definition(core, name)
