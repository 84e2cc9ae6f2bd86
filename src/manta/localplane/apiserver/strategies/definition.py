"""The strategy of CustomResourceDefinitions: a stored definition is served at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from manta.localplane.apiserver.builtin_kinds.context import Context
from manta.localplane.apiserver.definition_checks import check_definition
from manta.localplane.apiserver.definitions import (
    CLEANUP_FINALIZER,
    finish_removal,
    has_objects,
    serve_definition,
    withdraw_definition,
)
from manta.localplane.apiserver.schema.causes import Cause
from manta.localplane.apiserver.strategies.base import Object
from manta.localplane.apiserver.strategies.builtin import BuiltinStrategy
from manta.localplane.store.objects import Record

if TYPE_CHECKING:
    from manta.localplane.apiserver.api_resources import ApiResource
    from manta.localplane.apiserver.core import Core


class DefinitionStrategy(BuiltinStrategy):
    __slots__ = ()

    def prepare_create(self, obj: Object, context: Context) -> Object:
        return established(super().prepare_create(obj, context), context.now())

    def prepare_update(
        self, old: Object, new: Object, context: Context, subresource: str = ""
    ) -> Object:
        changed = super().prepare_update(old, new, context, subresource)
        return changed if subresource else established(changed, context.now())

    def validate(
        self,
        obj: Object,
        old: Object | None = None,
        subresource: str = "",
        earlier: list[Cause] | None = None,
    ) -> list[Cause]:
        return check_definition(obj)

    def begin_delete(self, core: Core, obj: Object) -> Object:
        """The definition with a finalizer while it has objects: they are removed first."""
        meta = dict(obj["metadata"])
        names = [name for name in meta.get("finalizers") or () if name != CLEANUP_FINALIZER]
        if has_objects(core, meta["name"]):
            names.append(CLEANUP_FINALIZER)
            obj = terminating(obj, core.now_text())
        meta["finalizers"] = names
        return obj | {"metadata": meta}

    def after_write(self, core: Core, record: Record) -> Record:
        return serve_definition(core, record)

    def after_mark(
        self, core: Core, record: Record, delete: Callable[[ApiResource, str], object]
    ) -> Record:
        for resource in core.registry.custom(record.name)[:1]:
            for instance in core.store.select(resource.storage_name):
                delete(resource, instance.key)
        finish_removal(core, record.name)
        return record

    def after_delete(self, core: Core, record: Record) -> Record:
        withdraw_definition(core, record.name)
        return record


def established(crd: dict[str, Any], now: str) -> dict[str, Any]:
    """The CRD with the status that its controller would write: accepted and established."""
    status = dict(crd.get("status") or {})
    before = {one.get("type"): one for one in status.get("conditions") or ()}
    fresh = [
        _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
        _condition(
            "Established", "InitialNamesAccepted", "the initial names have been accepted", now
        ),
    ]
    conditions = [before.pop(one["type"], one) for one in fresh] + list(before.values())
    stored = list(status.get("storedVersions") or ())
    storage = next(
        (one["name"] for one in crd["spec"].get("versions") or () if one.get("storage")), None
    )
    if storage and storage not in stored:
        stored.append(storage)
    status |= {
        "conditions": conditions,
        "acceptedNames": crd["spec"]["names"],
        "storedVersions": stored,
    }
    return crd | {"status": status}


def terminating(crd: dict[str, Any], now: str) -> dict[str, Any]:
    status = dict(crd.get("status") or {})
    kept = [one for one in status.get("conditions") or () if one.get("type") != "Terminating"]
    status["conditions"] = [
        *kept,
        _condition(
            "Terminating",
            "InstanceDeletionInProgress",
            "CustomResource deletion is in progress",
            now,
        ),
    ]
    return crd | {"status": status}


def _condition(kind: str, reason: str, message: str, now: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": "True",
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }
