"""Writing: create, update, delete. Everything between reading and storing happens in one turn of
the event loop, so that no other writer can come between.

The order is the real server's: decode, fill in, admit, validate, note who owns which field, store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from manta.localplane.apiserver import deletion, machinery, metadata, rendering
from manta.localplane.apiserver.admission import Admission
from manta.localplane.apiserver.core import Call, Core, Written
from manta.localplane.apiserver.definitions import Definitions
from manta.localplane.apiserver.deletion import Keep, Mark, Remove
from manta.localplane.apiserver.options import DeleteOptions, WriteOptions
from manta.localplane.apiserver.schema.causes import Cause
from manta.localplane.apiserver.served import Served
from manta.localplane.apiserver.status_errors import (
    already_exists,
    bad_request,
    conflict,
    invalid,
    not_found,
    plain_failure,
)
from manta.localplane.store.objects import Record, key_of

Produce = Callable[[dict[str, Any]], dict[str, Any]]
"""From the object as it is to the object as it shall be: a replacement or a patch."""

_encode = msgspec.json.Encoder().encode
_GENERATE_ATTEMPTS = 8


class Writer:
    def __init__(self, core: Core, admission: Admission) -> None:
        self._core = core
        self._admission = admission
        self._definitions = Definitions(core)

    # ── create ───────────────────────────────────────────────────────────────────────────
    def create(
        self, call: Call, namespace: str, obj: dict[str, Any], options: WriteOptions
    ) -> Written:
        served = call.served
        meta = obj.setdefault("metadata", {})
        if meta.get("resourceVersion"):
            raise plain_failure("resourceVersion should not be set on objects to be created")
        _check_namespace(meta, namespace)
        obj["kind"], obj["apiVersion"] = served.kind, served.api_version
        if served.namespaced:
            meta["namespace"] = namespace
        obj["metadata"] = metadata.begin(obj, served, self._core.now_text(), self._core.random)
        self._admission.check_namespace(call, obj)
        obj = self._filled(call, obj, None)
        obj = self._admission.admit(call, obj, None)
        self._refuse_invalid(served, obj, self._causes(served, obj, None))
        if served.kind == "CustomResourceDefinition":
            obj = self._definitions.accept(obj)
        key = self._free_key(served, obj)
        obj = machinery.track(served, None, obj, options.manager, self._core.now_text(), "")
        self._admission.charge(call, obj, None, dry_run=options.dry_run)
        return Written(self._store(served, key, obj, options), created=True)

    def _free_key(self, served: Served, obj: dict[str, Any]) -> str:
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
        served = call.served
        record = self._must_find(served, key)
        old = rendering.whole(served, record)
        new = produce(old)
        self._check_identity(call, old, new)
        applied = (new.get("metadata") or {}).get("managedFields")
        new = self._merged(served, old, new, subresource)
        new = self._filled(call, new, old, subresource)
        new = self._admission.admit(call, new, old, subresource)
        self._refuse_invalid(served, new, self._change_causes(served, new, old, subresource))
        new["metadata"].pop("managedFields", None)
        if applied is not None:
            new["metadata"]["managedFields"] = applied
        now = self._core.now_text()
        if call.verb != "apply":
            new = machinery.track(served, old, new, options.manager, now, subresource)
        if machinery.same(old, new):
            return Written(record)
        self._count_generation(served, old, new)
        if served.kind == "CustomResourceDefinition" and not subresource:
            new = self._definitions.accept(new, old)
        if deletion.ready_to_go(new):
            return self._remove_updated(served, key, new, record, options)
        self._admission.charge(call, new, old, dry_run=options.dry_run)
        return Written(self._store(served, key, new, options))

    def amend(self, call: Call, key: str, produce: Produce, options: WriteOptions) -> Written:
        """A change that the server itself makes, such as a binding: trusted, and no new
        generation."""
        record = self._must_find(call.served, key)
        old = rendering.whole(call.served, record)
        new = produce(old)
        now = self._core.now_text()
        subresource = call.route.subresource
        new = machinery.track(call.served, old, new, options.manager, now, subresource)
        if machinery.same(old, new):
            return Written(record)
        return Written(self._store(call.served, key, new, options))

    def _check_identity(self, call: Call, old: dict[str, Any], new: dict[str, Any]) -> None:
        """Name, namespace, uid and revision of what the client sends must be those stored."""
        served, before, meta = call.served, old["metadata"], new.setdefault("metadata", {})
        name = before["name"]
        if call.verb == "update" and not meta.get("name"):
            meta["name"] = name
        if not meta.get("name"):
            raise bad_request(
                f"the name of the object ({name} based on URL) was undeterminable: name must be "
                "provided"
            )
        if meta.get("name") != name:
            raise bad_request(
                f"the name of the object ({meta.get('name')}) does not match the name on the URL "
                f"({name})"
            )
        _check_namespace(meta, before.get("namespace", ""))
        asked = meta.get("resourceVersion")
        if not asked and call.verb == "update" and not served.unconditional_update():
            cause = Cause(
                "FieldValueInvalid",
                "Invalid value: 0: must be specified for an update",
                "metadata.resourceVersion",
            )
            raise invalid(served.plural, served.group, name, [cause])
        if asked and asked not in ("0", before["resourceVersion"]):
            raise conflict(served.plural, served.group, name)
        if call.verb == "update" and meta.get("uid") and meta["uid"] != before["uid"]:
            why = (
                f"StorageError: invalid object, Code: 4, Key: /registry/{served.plural}/"
                f"{key_of(before.get('namespace', ''), name)}, ResourceVersion: 0, "
                f"AdditionalErrorMsg: Precondition failed: UID in precondition: {meta['uid']}, "
                f"UID in object meta: {before['uid']}"
            )
            raise conflict(served.plural, served.group, name, why)

    def _merged(
        self, served: Served, old: dict[str, Any], new: dict[str, Any], subresource: str
    ) -> dict[str, Any]:
        """Which parts of the sent object count: a status write writes status and nothing else."""
        new = new | {"kind": served.kind, "apiVersion": served.api_version}
        if subresource == "status":
            merged = old | {"status": new["status"]} if "status" in new else _without_status(old)
            if served.custom is None:
                merged["metadata"] = metadata.carry_over(old, new, served)
            return merged
        merged = new | {"metadata": metadata.carry_over(old, new, served)}
        if served.has_status:
            merged.pop("status", None)
            if "status" in old:
                merged["status"] = old["status"]
        return merged

    def _count_generation(self, served: Served, old: dict[str, Any], new: dict[str, Any]) -> None:
        if not served.generation:
            return
        apart = {"metadata", "kind", "apiVersion"} | ({"status"} if served.has_status else set())
        names = (old.keys() | new.keys()) - apart
        changed = any(old.get(name) != new.get(name) for name in names)
        if served.kind == "Deployment" and not changed:
            changed = old["metadata"].get("annotations") != new["metadata"].get("annotations")
        if changed:
            generation = int(old["metadata"].get("generation") or 0) + 1
            new["metadata"] = new["metadata"] | {"generation": generation}

    def _remove_updated(
        self,
        served: Served,
        key: str,
        new: dict[str, Any],
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

    def _take_away(self, served: Served, key: str, last: dict[str, Any]) -> Record:
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

    def _filled(
        self,
        call: Call,
        obj: dict[str, Any],
        old: dict[str, Any] | None,
        subresource: str = "",
    ) -> dict[str, Any]:
        """Defaults, and for custom resources: unknown fields away."""
        served = call.served
        if served.custom is not None:
            call.warn(served.custom.warning)
            if old is None and served.has_status:
                obj.pop("status", None)
            return served.custom.schema.default(obj)
        if old is None:
            return machinery.prepare_create(served, obj, self._core)
        return machinery.prepare_update(served, old, obj, self._core, subresource)

    def _causes(
        self, served: Served, obj: dict[str, Any], old: dict[str, Any] | None
    ) -> list[Cause]:
        causes = metadata.check(obj, served)
        if served.custom is not None:
            return causes + served.custom.schema.validate(obj, old, earlier=causes)
        if served.kind == "CustomResourceDefinition":
            return causes + self._definitions.check(obj)
        return causes + machinery.validate(served, obj, old)

    def _change_causes(
        self, served: Served, new: dict[str, Any], old: dict[str, Any], subresource: str
    ) -> list[Cause]:
        causes = metadata.check_change(old, new)
        if subresource == "status" and served.custom is None:
            return causes
        return causes + self._causes(served, new, old)

    def _refuse_invalid(self, served: Served, obj: dict[str, Any], causes: list[Cause]) -> None:
        if causes:
            raise invalid(served.kind, served.group, obj["metadata"].get("name", ""), causes)

    def _store(
        self, served: Served, key: str, obj: dict[str, Any], options: WriteOptions
    ) -> Record:
        storage = self._core.registry.storage_of(served)
        if storage is not served and storage.custom is not None:
            obj = storage.custom.schema.default(storage.custom.schema.prune(obj))
        epoch = rendering.epoch_of(storage)
        body = rendering.stored_form(served, obj)
        body["metadata"] = dict(body["metadata"])
        if options.dry_run:
            revision = int(body["metadata"].get("resourceVersion") or 0)
            return Record(key, _encode(body), revision, epoch)
        record = self._core.store.put(served.shelf, key, body, epoch=epoch)
        if served.kind == "CustomResourceDefinition":
            self._definitions.stored(record)
        return record


def _check_namespace(meta: dict[str, Any], namespace: str) -> None:
    if meta.get("namespace") and meta["namespace"] != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def _without_status(obj: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in obj.items() if name != "status"}
