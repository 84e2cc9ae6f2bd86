"""The resource store: create, update and delete objects as the strategy of their resource demands.

The order is that of kube-apiserver: default, admit, validate, store. Everything between reading and storing an
object happens in one turn of the event loop, so that no other writer can intervene.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from manta.httpserver.messages import HttpRequest
from manta.localplane.apiserver import changes, deletion, metadata, rendering
from manta.localplane.apiserver.admission import Admission
from manta.localplane.apiserver.api_resources import ApiResource
from manta.localplane.apiserver.auth.authenticator import ADMIN
from manta.localplane.apiserver.builtin_kinds.context import AdmissionDeniedError, Context
from manta.localplane.apiserver.core import Call, Core, Written
from manta.localplane.apiserver.deletion import Keep, Mark, Remove
from manta.localplane.apiserver.field_managers import FieldManager
from manta.localplane.apiserver.options import DeleteOptions, WriteOptions
from manta.localplane.apiserver.routes import Route
from manta.localplane.apiserver.schema.causes import Cause
from manta.localplane.apiserver.status_errors import (
    already_exists,
    forbidden,
    invalid,
    method_not_allowed,
    not_found,
    object_too_large,
    plain_failure,
)
from manta.localplane.store.objects import Record, key_of
from manta.localplane.store.store import ObjectTooLarge

Object = dict[str, Any]
Produce = Callable[[Object], Object]
"""Computes the wanted object from the stored one: a replacement or a patch."""

_encode = msgspec.json.Encoder().encode
_GENERATE_ATTEMPTS = 8


class ResourceStore:
    def __init__(self, core: Core, admission: Admission, context: Context) -> None:
        self._core = core
        self._admission = admission
        self._context = context

    # ── create ───────────────────────────────────────────────────────────────────────────
    def ensure(self, resource: ApiResource, obj: Object) -> None:
        """Create an object as the server itself, unless it exists."""
        meta = obj["metadata"]
        namespace = meta.get("namespace", "")
        if self._core.store.get(resource.storage_name, key_of(namespace, meta["name"])) is None:
            route = Route(resource.group, resource.version, resource.plural, namespace)
            call = Call(HttpRequest("POST", "", user=ADMIN), route, resource, "create")
            self.create(call, obj, WriteOptions(manager="manta"))

    def create(
        self, call: Call, obj: Object, options: WriteOptions, owners: list[Object] | None = None
    ) -> Written:
        """Store a new object. `owners` are the managedFields of an apply; None computes them.

        Raises StatusError: the object exists, is denied or is invalid.
        """
        resource, strategy = call.resource, call.resource.strategy
        obj = strategy.default(self._with_metadata(call, obj))
        if owners is None:
            owners = self._field_manager(options).update(resource, None, obj)
        obj = self._prepare_create(resource, self._admission.apply_limit_defaults(call, obj))
        obj = self._admission.admit(call, obj, None)
        self._check(resource, obj, None)
        self._admission.check_bounds(call, obj, None)
        for text in strategy.warnings(obj, None):
            call.warn(text)
        key = self._free_key(resource, obj)
        obj["metadata"] = obj["metadata"] | {"managedFields": owners} if owners else obj["metadata"]
        self._admission.charge(call, obj, None, dry_run=options.dry_run)
        return Written(self._put(resource, key, obj, options), created=True)

    def _with_metadata(self, call: Call, obj: Object) -> Object:
        """The new object with its type, namespace, name, uid and creation time."""
        resource, namespace = call.resource, call.route.namespace
        if resource.namespaced and not namespace:
            raise method_not_allowed()
        meta = dict(obj.get("metadata") or {})
        if meta.get("resourceVersion"):
            raise plain_failure("resourceVersion should not be set on objects to be created")
        changes.check_namespace(meta, namespace)
        if resource.namespaced:
            meta["namespace"] = namespace
        new: Object = {"kind": resource.kind, "apiVersion": resource.api_version} | obj
        new["metadata"] = metadata.new_metadata(
            meta, resource, self._core.now_text(), self._core.random
        )
        self._admission.check_namespace(call, new)
        return new

    def _prepare_create(self, resource: ApiResource, obj: Object) -> Object:
        try:
            return resource.strategy.prepare_create(obj, self._context)
        except AdmissionDeniedError as error:
            name = obj["metadata"].get("name", "")
            raise forbidden(resource.plural, resource.group, name, str(error)) from None

    def _field_manager(self, options: WriteOptions, subresource: str = "") -> FieldManager:
        # kube-apiserver records no time for a write to `scale`.
        now = "" if subresource == "scale" else self._core.now_text()
        return FieldManager(options.manager, now, subresource, options.force)

    def _free_key(self, resource: ApiResource, obj: Object) -> str:
        meta = obj["metadata"]
        for _ in range(_GENERATE_ATTEMPTS):
            key = key_of(meta.get("namespace", ""), meta["name"])
            if self._core.store.get(resource.storage_name, key) is None:
                return key
            if not meta.get("generateName"):
                break
            meta["name"] = metadata.generated_name(meta["generateName"], self._core.random)
        raise already_exists(resource.plural, resource.group, meta["name"])

    # ── update ───────────────────────────────────────────────────────────────────────────
    def update(
        self, call: Call, key: str, produce: Produce, options: WriteOptions, subresource: str = ""
    ) -> Written:
        """Change an object. An apply has computed the managedFields; other writes get them here.

        Raises StatusError: the object does not exist, or the change is in conflict, denied or invalid.
        """
        resource, strategy = call.resource, call.resource.strategy
        record = self._must_find(resource, key)
        old = rendering.decode_object(resource, record)
        new, owners = self._changed(call, old, produce(old), options, subresource)
        new = strategy.prepare_update(old, new, self._context, subresource)
        new = self._admission.admit(call, new, old, subresource)
        self._check(resource, new, old, subresource)
        self._admission.check_bounds(call, new, old, subresource)
        for text in strategy.warnings(new, old):
            call.warn(text)
        new = new | {"metadata": _with_owners(new["metadata"], owners)}
        if old == new:
            return Written(record)
        changes.count_generation(resource, old, new, subresource)
        if deletion.is_removable(new):
            return self._remove_updated(resource, key, new, record, options)
        self._admission.charge(call, new, old, dry_run=options.dry_run)
        return Written(self._put(resource, key, new, options))

    def _changed(
        self, call: Call, old: Object, sent: Object, options: WriteOptions, subresource: str
    ) -> tuple[Object, list[Object]]:
        """The object with the sent parts that this endpoint writes, and its managedFields."""
        resource, strategy = call.resource, call.resource.strategy
        changes.check_identity(resource, old, sent, replace=call.verb == "update")
        owners = sent["metadata"].get("managedFields") if call.verb == "apply" else None
        narrow = changes.NARROW.get(subresource)
        part = sent if narrow is None else narrow(old, sent)
        new = strategy.default(changes.written_parts(resource, old, part, subresource))
        if owners is None:
            tracked = changes.tracked_parts(resource, old, sent, new, subresource)
            if narrow is not None:
                tracked = strategy.default(tracked)
            owners = self._field_manager(options, subresource).update(resource, old, tracked)
        return new, owners

    def amend(self, call: Call, key: str, produce: Produce, options: WriteOptions) -> Written:
        """Change an object as the server itself, such as for a binding.

        The change is not checked, gets no field manager and is no new generation.
        """
        record = self._must_find(call.resource, key)
        old = rendering.decode_object(call.resource, record)
        new = produce(old)
        if old == new:
            return Written(record)
        return Written(self._put(call.resource, key, new, options))

    def _remove_updated(
        self, resource: ApiResource, key: str, new: Object, record: Record, options: WriteOptions
    ) -> Written:
        """The update took the last finalizer: answer with the object, and remove it."""
        body = rendering.stored_form(resource, new)
        shown = Record(key, _encode(body), record.revision, resource.strategy.epoch)
        if not options.dry_run:
            self._remove(resource, key, new)
        return Written(shown, removed=True)

    # ── delete ───────────────────────────────────────────────────────────────────────────
    def delete(self, call: Call, key: str, options: DeleteOptions) -> Written:
        """Remove an object, or mark it until its finalizers and its grace period are over.

        Raises StatusError: it does not exist, a precondition fails, or it may not be deleted.
        """
        resource, strategy = call.resource, call.resource.strategy
        record = self._must_find(resource, key)
        old = rendering.decode_object(resource, record)
        deletion.check_preconditions(old, options, resource)
        if not options.propagation:
            call.warn(strategy.delete_warning)
        old = strategy.begin_delete(self._core, old)
        decision = deletion.decide(old, options, resource, self._core.now())
        match decision:
            case Keep():
                return Written(record)
            case Mark(marked):
                saved = self._put(resource, key, marked, WriteOptions(options.dry_run))
                if not options.dry_run:
                    strategy.after_mark(self._core, saved, self._delete_dependent(call))
                return Written(saved)
            case Remove(last):
                if options.dry_run:
                    return Written(record, removed=True)
                return Written(self._remove(resource, key, last), removed=True)

    def _delete_dependent(self, call: Call) -> Callable[[ApiResource, str], object]:
        def delete(resource: ApiResource, key: str) -> None:
            below = Call(call.request, call.route, resource, "delete")
            self.delete(below, key, DeleteOptions("Background"))

        return delete

    # ── storage ──────────────────────────────────────────────────────────────────────────
    def _must_find(self, resource: ApiResource, key: str) -> Record:
        record = self._core.store.get(resource.storage_name, key)
        if record is None:
            raise not_found(resource.plural, resource.group, key.rpartition("/")[2])
        return record

    def _check(
        self, resource: ApiResource, obj: Object, old: Object | None, subresource: str = ""
    ) -> None:
        """Raise a 422 with every error of the object."""
        changed: list[Cause] = [] if old is None else metadata.check_change(old, obj, resource)
        causes = metadata.check(obj, resource)
        causes = changed + causes + resource.strategy.validate(obj, old, subresource, causes)
        if causes:
            # Events belong to the core group, whichever group they are written through.
            group = "" if resource.storage_name == "events" else resource.group
            raise invalid(resource.kind, group, obj["metadata"].get("name", ""), causes)

    def _put(self, resource: ApiResource, key: str, obj: Object, options: WriteOptions) -> Record:
        storage = self._core.registry.storage_of(resource)
        if storage is not resource:
            obj = storage.strategy.convert(obj)
        epoch = storage.strategy.epoch
        body = rendering.stored_form(resource, obj)
        body["metadata"] = dict(body["metadata"])
        try:
            if options.dry_run:
                revision = int(body["metadata"].get("resourceVersion") or 0)
                raw = _encode(body)
                self._core.store.check_size(resource.storage_name, key, raw)
                return Record(key, raw, revision, epoch)
            record = self._core.store.put(resource.storage_name, key, body, epoch=epoch)
        except ObjectTooLarge as error:
            name = key.rpartition("/")[2]
            raise object_too_large(resource.plural, resource.group, name, str(error)) from None
        return resource.strategy.after_write(self._core, record)

    def _remove(self, resource: ApiResource, key: str, last: Object) -> Record:
        body = rendering.stored_form(resource, last)
        body["metadata"] = dict(body["metadata"])
        epoch = resource.strategy.epoch
        record = self._core.store.remove(resource.storage_name, key, body, epoch=epoch)
        return resource.strategy.after_delete(self._core, record)


def _with_owners(meta: Object, owners: list[Object]) -> Object:
    kept = {name: value for name, value in meta.items() if name != "managedFields"}
    return kept | {"managedFields": owners} if owners else kept
