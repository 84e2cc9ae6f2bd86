"""Writing: create, update, delete. Everything between reading and storing happens in one turn of
the event loop, so that no other writer can come between.

The order is the real server's: decode, fill in, admit, validate, note who owns which field, store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from manta.localplane.apiserver import changes, deletion, machinery, metadata, rendering
from manta.localplane.apiserver.admission import Admission
from manta.localplane.apiserver.builtin_kinds.context import Context
from manta.localplane.apiserver.core import Call, Core, Written
from manta.localplane.apiserver.definitions import Definitions
from manta.localplane.apiserver.deletion import Keep, Mark, Remove
from manta.localplane.apiserver.options import DeleteOptions, WriteOptions
from manta.localplane.apiserver.schema.causes import Cause
from manta.localplane.apiserver.served import Served
from manta.localplane.apiserver.status_errors import (
    already_exists,
    invalid,
    not_found,
    object_too_large,
    plain_failure,
)
from manta.localplane.store.objects import Record, key_of
from manta.localplane.store.store import ObjectTooLarge

Object = dict[str, Any]
Produce = Callable[[Object], Object]
"""From the object as it is to the object as it shall be: a replacement or a patch."""

_encode = msgspec.json.Encoder().encode
_GENERATE_ATTEMPTS = 8


class Writer:
    def __init__(self, core: Core, admission: Admission, surroundings: Context) -> None:
        self._core = core
        self._admission = admission
        self._surroundings = surroundings
        self._definitions = Definitions(core)

    # ── create ───────────────────────────────────────────────────────────────────────────
    def create(
        self,
        call: Call,
        namespace: str,
        obj: Object,
        options: WriteOptions,
        owners: list[Object] | None = None,
    ) -> Written:
        """`owners` are the managedFields that an apply has made; otherwise they are found here."""
        served = call.served
        obj = self._begun(call, namespace, obj)
        obj = machinery.with_defaults(served, obj)
        if owners is None:
            owners = machinery.track(served, None, obj, self._writing(options))
        obj = self._admission.fill_in(call, obj)
        obj = machinery.prepare_create(served, obj, self._surroundings)
        obj = self._admission.admit(call, obj, None)
        self._refuse_invalid(served, obj, self._causes(served, obj, None))
        self._admission.check_bounds(call, obj, None)
        for text in machinery.warnings(served, obj, None):
            call.warn(text)
        if served.kind == "CustomResourceDefinition":
            obj = self._definitions.accept(obj)
        key = self._free_key(served, obj)
        obj["metadata"] = obj["metadata"] | {"managedFields": owners} if owners else obj["metadata"]
        self._admission.charge(call, obj, None, dry_run=options.dry_run)
        return Written(self._store(served, key, obj, options), created=True)

    def _begun(self, call: Call, namespace: str, obj: Object) -> Object:
        """Type, namespace and metadata of a new object."""
        served = call.served
        meta = dict(obj.get("metadata") or {})
        if meta.get("resourceVersion"):
            raise plain_failure("resourceVersion should not be set on objects to be created")
        changes.check_namespace(meta, namespace)
        if served.namespaced:
            meta["namespace"] = namespace
        begun: Object = {"kind": served.kind, "apiVersion": served.api_version} | obj
        begun["metadata"] = metadata.begin(meta, served, self._core.now_text(), self._core.random)
        if served.custom is not None:
            call.warn(served.custom.warning)
        self._admission.check_namespace(call, begun)
        return begun

    def _writing(self, options: WriteOptions, subresource: str = "") -> machinery.Writing:
        # The real server tells no time of those who scale.
        now = "" if subresource == "scale" else self._core.now_text()
        return machinery.Writing(options.manager, now, subresource, options.force)

    def _free_key(self, served: Served, obj: Object) -> str:
        meta = obj["metadata"]
        for _ in range(_GENERATE_ATTEMPTS):
            key = key_of(meta.get("namespace", ""), meta["name"])
            if self._core.store.get(served.shelf, key) is None:
                return key
            if not meta.get("generateName"):
                break
            meta["name"] = metadata.generated_name(meta["generateName"], self._core.random)
        raise already_exists(served.plural, served.group, meta["name"])

    # ── update ───────────────────────────────────────────────────────────────────────────
    def update(
        self, call: Call, key: str, produce: Produce, options: WriteOptions, subresource: str = ""
    ) -> Written:
        """Change an object. An apply has made the managedFields itself; others get them here."""
        served = call.served
        record = self._must_find(served, key)
        old = rendering.whole(served, record)
        sent = produce(old)
        changes.check_identity(served, old, sent, replace=call.verb == "update")
        owners = sent["metadata"].get("managedFields") if call.verb == "apply" else None
        narrow = changes.NARROW.get(subresource)
        part = sent if narrow is None else narrow(old, sent)
        new = changes.counted_parts(served, old, part, subresource)
        new = machinery.with_defaults(served, new)
        if owners is None:
            told = changes.tracked_parts(served, old, sent, new, subresource)
            if narrow is not None:
                told = machinery.with_defaults(served, told)
            owners = machinery.track(served, old, told, self._writing(options, subresource))
        new = machinery.prepare_update(served, old, new, self._surroundings, subresource)
        new = self._admission.admit(call, new, old, subresource)
        self._refuse_invalid(served, new, self._change_causes(served, new, old, subresource))
        self._admission.check_bounds(call, new, old, subresource)
        for text in machinery.warnings(served, new, old):
            call.warn(text)
        new = new | {"metadata": _with_owners(new["metadata"], owners)}
        if machinery.same(old, new):
            return Written(record)
        changes.count_generation(served, old, new, subresource)
        if served.kind == "CustomResourceDefinition" and not subresource:
            new = self._definitions.accept(new, old)
        if deletion.ready_to_go(new):
            return self._remove_updated(served, key, new, record, options)
        self._admission.charge(call, new, old, dry_run=options.dry_run)
        return Written(self._store(served, key, new, options))

    def amend(self, call: Call, key: str, produce: Produce, options: WriteOptions) -> Written:
        """A change that the server itself makes, such as a binding: trusted, owned by nobody,
        and no new generation."""
        record = self._must_find(call.served, key)
        old = rendering.whole(call.served, record)
        new = produce(old)
        if machinery.same(old, new):
            return Written(record)
        return Written(self._store(call.served, key, new, options))

    def _remove_updated(
        self,
        served: Served,
        key: str,
        new: Object,
        record: Record,
        options: WriteOptions,
    ) -> Written:
        """The last finalizer went: the writer sees the object once more, then it is gone."""
        body = rendering.stored_form(served, new)
        shown = Record(key, _encode(body), record.revision, rendering.epoch_of(served))
        if not options.dry_run:
            self._take_away(served, key, new)
        return Written(shown, removed=True)

    # ── delete ───────────────────────────────────────────────────────────────────────────
    def delete(self, call: Call, key: str, options: DeleteOptions) -> Written:
        served = call.served
        record = self._must_find(served, key)
        old = rendering.whole(served, record)
        deletion.check_preconditions(old, options, served)
        if served.kind == "Job" and not options.propagation:
            call.warn(deletion.JOB_WARNING)
        if served.kind == "CustomResourceDefinition":
            old = self._definitions.begin_removal(old)
        decision = deletion.decide(old, options, served, self._core.now())
        match decision:
            case Keep():
                return Written(record)
            case Mark(marked):
                saved = self._store(served, key, marked, WriteOptions(options.dry_run))
                return self._marked(call, saved, options)
            case Remove(last):
                if options.dry_run:
                    return Written(record, removed=True)
                return Written(self._take_away(served, key, last), removed=True)

    def _marked(self, call: Call, saved: Record, options: DeleteOptions) -> Written:
        if call.served.kind == "CustomResourceDefinition" and not options.dry_run:
            for served in self._definitions.instances_of(saved.name):
                for instance in self._core.store.select(served.shelf):
                    below = Call(call.request, call.route, served, "delete")
                    self.delete(below, instance.key, DeleteOptions("Background"))
            self._definitions.finish_removal(saved.name)
        return Written(saved)

    def _take_away(self, served: Served, key: str, last: Object) -> Record:
        body = rendering.stored_form(served, last)
        body["metadata"] = dict(body["metadata"])
        record = self._core.store.remove(served.shelf, key, body, epoch=rendering.epoch_of(served))
        if served.kind == "CustomResourceDefinition":
            self._definitions.removed(record.name)
        elif served.custom is not None:
            self._definitions.finish_removal(served.group_resource)
        return record

    # ── shared ───────────────────────────────────────────────────────────────────────────
    def _must_find(self, served: Served, key: str) -> Record:
        record = self._core.store.get(served.shelf, key)
        if record is None:
            raise not_found(served.plural, served.group, key.rpartition("/")[2])
        return record

    def _causes(
        self, served: Served, obj: Object, old: Object | None, subresource: str = ""
    ) -> list[Cause]:
        causes = metadata.check(obj, served)
        if served.kind == "CustomResourceDefinition":
            return causes + self._definitions.check(obj)
        return causes + machinery.validate(served, obj, old, subresource, causes)

    def _change_causes(
        self, served: Served, new: Object, old: Object, subresource: str
    ) -> list[Cause]:
        return metadata.check_change(old, new, served) + self._causes(served, new, old, subresource)

    def _refuse_invalid(self, served: Served, obj: Object, causes: list[Cause]) -> None:
        if causes:
            # Events are one kind, whichever group they come by.
            group = "" if served.shelf == "events" else served.group
            raise invalid(served.kind, group, obj["metadata"].get("name", ""), causes)

    def _store(self, served: Served, key: str, obj: Object, options: WriteOptions) -> Record:
        storage = self._core.registry.storage_of(served)
        if storage is not served and storage.custom is not None:
            obj = storage.custom.schema.default(storage.custom.schema.prune(obj))
        epoch = rendering.epoch_of(storage)
        body = rendering.stored_form(served, obj)
        body["metadata"] = dict(body["metadata"])
        try:
            if options.dry_run:
                revision = int(body["metadata"].get("resourceVersion") or 0)
                raw = _encode(body)
                self._core.store.check_size(served.shelf, key, raw)
                return Record(key, raw, revision, epoch)
            record = self._core.store.put(served.shelf, key, body, epoch=epoch)
        except ObjectTooLarge as error:
            name = key.rpartition("/")[2]
            raise object_too_large(served.plural, served.group, name, str(error)) from None
        if served.kind == "CustomResourceDefinition":
            self._definitions.stored(record)
        return record


def _with_owners(meta: Object, owners: list[Object]) -> Object:
    kept = {name: value for name, value in meta.items() if name != "managedFields"}
    return kept | {"managedFields": owners} if owners else kept
