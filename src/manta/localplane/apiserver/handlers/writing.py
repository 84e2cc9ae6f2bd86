"""create, update, delete and deletecollection."""

from __future__ import annotations

from typing import Any

from manta.httpserver.messages import HttpRequest, HttpResponse
from manta.localplane.apiserver import changes, decoding, field_validation
from manta.localplane.apiserver.admission import Admission
from manta.localplane.apiserver.auth.authorizer import Authorizer
from manta.localplane.apiserver.auth.rules import Attributes
from manta.localplane.apiserver.builtin_kinds.reading import WrongTypeError, read_object
from manta.localplane.apiserver.core import Call, Core, Written
from manta.localplane.apiserver.handlers.reading import selected
from manta.localplane.apiserver.handlers.responses import (
    deleted_response,
    list_response,
    object_response,
    written_response,
)
from manta.localplane.apiserver.listing import read_page
from manta.localplane.apiserver.options import (
    DeleteOptions,
    WriteOptions,
    delete_options,
    list_options,
    write_options,
)
from manta.localplane.apiserver.resource_store import ResourceStore
from manta.localplane.apiserver.status_errors import StatusError, bad_request, method_not_allowed

Object = dict[str, Any]


class WriteHandlers:
    def __init__(
        self, core: Core, store: ResourceStore, admission: Admission, authorizer: Authorizer
    ) -> None:
        self._core = core
        self._store = store
        self._admission = admission
        self._authorizer = authorizer

    async def create(self, call: Call) -> HttpResponse:
        if call.route.name and not call.route.subresource:
            raise method_not_allowed()
        options = write_options(call.request, "CreateOptions")
        obj = field_validation.canonical(
            call, decoding.read_object(call.request, call.resource), options
        )
        await self._admission.wait_for_account(call, obj)
        return await written_response(self._core, call, self._store.create(call, obj, options))

    async def update(self, call: Call) -> HttpResponse:
        options = write_options(call.request, "UpdateOptions")
        obj = field_validation.canonical(
            call, decoding.read_object(call.request, call.resource), options
        )
        meta = obj.get("metadata") or {}
        changes.check_namespace(meta, call.route.namespace)
        changes.check_name(meta, call.route.name)
        if self._creates(call):
            written = self._create_at(call, obj, options)
        else:
            written = self._store.update(
                call, call.key, lambda _: obj, options, call.route.subresource
            )
        return await written_response(self._core, call, written)

    def _creates(self, call: Call) -> bool:
        """Whether this update creates the object."""
        if call.route.subresource or not call.resource.strategy.allow_create_on_update:
            return False
        return self._core.store.get(call.resource.storage_name, call.key) is None

    def _create_at(self, call: Call, obj: Object, options: WriteOptions) -> Written:
        authorize_create(self._authorizer, call)
        meta = obj["metadata"]
        changes.check_no_uid(call.resource, call.key, meta)
        obj["metadata"] = {key: meta[key] for key in meta if key != "resourceVersion"}
        return self._store.create(call, obj, options)

    async def delete(self, call: Call) -> HttpResponse:
        options = _delete_options(call.request)
        written = self._store.delete(call, call.key, options)
        if not options.dry_run:
            await self._core.store.wait_durable(self._core.store.revision)
        if written.removed and not call.resource.return_deleted_object:
            return deleted_response(call, written.record)
        return object_response(self._core, call, written.record)

    async def delete_collection(self, call: Call) -> HttpResponse:
        options = _delete_options(call.request)
        listing = list_options(call.request, watch=False)
        page = await read_page(self._core, call.resource, selected(call, listing), listing)
        for record in page.records:
            try:
                self._store.delete(call, record.key, options)
            except StatusError as error:
                if error.code != 404:
                    raise
        await self._core.store.wait_durable(self._core.store.revision)
        return list_response(self._core, call, page)


def authorize_create(authorizer: Authorizer, call: Call) -> None:
    """An update or a patch that creates needs the permission to create. Raises a 403."""
    route, resource = call.route, call.resource
    authorizer.require(
        call.user,
        Attributes("create", resource.group, resource.plural, "", route.name, route.namespace),
    )


def _delete_options(request: HttpRequest) -> DeleteOptions:
    return delete_options(request, _options_body(request))


def _options_body(request: HttpRequest) -> Object:
    if not request.body:
        return {}
    try:
        value = decoding.read_body(request.body, request.headers.get("content-type", ""))
    except decoding.Malformed as error:
        raise bad_request(
            "the object provided is unrecognized (must be of type DeleteOptions): couldn't get "
            f"version/kind; {error}"
        ) from None
    if not isinstance(value, dict):
        raise bad_request("the body of a delete must be DeleteOptions")
    if (value.get("kind") or "DeleteOptions") != "DeleteOptions":
        version = str(value.get("apiVersion") or "v1")
        raise bad_request(decoding.not_registered(version, value["kind"]))
    try:
        return read_object("v1", "DeleteOptions", value)
    except WrongTypeError as error:
        raise bad_request(str(error)) from None
