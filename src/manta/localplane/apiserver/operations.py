"""One verb on one resource: the way from a routed request to its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from manta.api.documents.writer import to_yaml
from manta.localplane.apiserver import (
    changes,
    decoding,
    machinery,
    rendering,
    strictness,
    tables,
)
from manta.localplane.apiserver.admission import Admission
from manta.localplane.apiserver.auth.authorizer import Authorizer
from manta.localplane.apiserver.auth.rules import Attempt
from manta.localplane.apiserver.auth.tokens import Tokens
from manta.localplane.apiserver.core import Call, Core, Written
from manta.localplane.apiserver.listing import Page, await_revision, read_page
from manta.localplane.apiserver.messages import ADMIN, HttpRequest, HttpResponse, json_response
from manta.localplane.apiserver.negotiation import Answer
from manta.localplane.apiserver.options import (
    ListOptions,
    WriteOptions,
    delete_options,
    get_revision,
    list_options,
    write_options,
)
from manta.localplane.apiserver.patching.go_text import go_text
from manta.localplane.apiserver.routes import Route
from manta.localplane.apiserver.schema.causes import Cause
from manta.localplane.apiserver.selectors import Selection, select
from manta.localplane.apiserver.served import Served
from manta.localplane.apiserver.status_errors import (
    Refusal,
    bad_request,
    conflict,
    details,
    invalid_options,
    invalid_patch,
    method_not_allowed,
    not_found,
    plain_failure,
    unknown_patch_type,
    unsupported_media_type,
)
from manta.localplane.apiserver.subresources import Subresources
from manta.localplane.apiserver.watching import WatchRequest, open_watch
from manta.localplane.apiserver.writing import Produce, Writer
from manta.localplane.store.objects import Record, key_of

_JSON_PATCH = "application/json-patch+json"
_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_APPLY_PATCH = "application/apply-patch+yaml"


class Operations:
    def __init__(
        self,
        core: Core,
        writer: Writer,
        admission: Admission,
        authorizer: Authorizer,
        tokens: Tokens | None,
    ) -> None:
        self._core = core
        self._admission = admission
        self._writer = writer
        self._authorizer = authorizer
        self._subresources = Subresources(core, writer, tokens)
        self._verbs: dict[str, Callable[[Call], Awaitable[HttpResponse]]] = {
            "get": self._get,
            "list": self._list,
            "watch": self._watch,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }

    async def perform(self, call: Call) -> HttpResponse:
        try:
            return await self._performed(call)
        except Refusal as refusal:  # what was odd about the request is told even then
            for name in refusal.unknown:
                call.warn(f'unknown field "{name}"')
            refusal.headers += call.headers()
            raise

    async def _performed(self, call: Call) -> HttpResponse:
        if call.route.subresource in self._subresources.names:
            return await self._subresources.perform(call)
        if call.served.shelf == "bindings":
            return await self._subresources.bind_named(call)
        act = self._verbs.get(call.verb)
        if act is None:
            raise method_not_allowed()
        return await act(call)

    # ── reading ──────────────────────────────────────────────────────────────────────────
    async def _get(self, call: Call) -> HttpResponse:
        asked = get_revision(call.request)
        if asked > self._core.store.revision:
            await await_revision(self._core, asked)
        record = self._find(call)
        await self._core.store.settled(record.revision)
        await call.request.hold.space()
        return self._one(call, record, 200)

    def _find(self, call: Call) -> Record:
        served, route = call.served, call.route
        record = self._core.store.get(served.shelf, key_of(route.namespace, route.name))
        if record is None:
            raise not_found(served.plural, served.group, route.name)
        return record

    async def _list(self, call: Call) -> HttpResponse:
        options = list_options(call.request, watch=False)
        chosen = self._chosen(call, options)
        page = await read_page(self._core, call.served, chosen, options)
        await call.request.hold.space()
        return self._many(call, page)

    async def _watch(self, call: Call) -> HttpResponse:
        options = list_options(call.request, watch=True)
        chosen = self._chosen(call, options)
        render = None
        if not call.answer.plain:
            render = tables.watch_renderer(
                call.served, call.answer, call.request.param("includeObject"), self._core.now
            )
        asked = WatchRequest(call.served, chosen, options, render, call.request.hold)
        lines = await open_watch(self._core, asked)
        return HttpResponse(200, lines, call.headers())

    def _chosen(self, call: Call, options: ListOptions) -> Selection:
        fields = options.fields
        if call.route.name:
            fields = f"metadata.name={call.route.name}"
        return select(call.served, call.route.namespace, options.labels, fields)

    # ── writing ──────────────────────────────────────────────────────────────────────────
    async def _create(self, call: Call) -> HttpResponse:
        if call.route.name and not call.route.subresource:
            raise method_not_allowed()
        options = write_options(call.request, "CreateOptions")
        obj = decoding.read_object(call.request, call.served)
        obj = strictness.checked(call, obj, options)
        namespace = self._namespace(call)
        await self._admission.await_account(call, obj)
        return await self._written(call, self._writer.create(call, namespace, obj, options))

    def _namespace(self, call: Call) -> str:
        if call.served.namespaced and not call.route.namespace:
            raise method_not_allowed()
        return call.route.namespace

    async def _update(self, call: Call) -> HttpResponse:
        options = write_options(call.request, "UpdateOptions")
        obj = decoding.read_object(call.request, call.served)
        obj = strictness.checked(call, obj, options)
        meta = obj.get("metadata") or {}
        changes.check_namespace(meta, call.route.namespace)
        changes.check_name(meta, call.route.name)
        if self._creates(call):
            return await self._written(call, self._create_at(call, obj, options))
        written = self._writer.update(
            call, self._key(call), lambda _: obj, options, call.route.subresource
        )
        return await self._written(call, written)

    def _creates(self, call: Call) -> bool:
        """Whether this update makes the object: a few kinds may be put where nothing is."""
        if call.route.subresource or not call.served.created_by_update():
            return False
        return self._core.store.get(call.served.shelf, self._key(call)) is None

    def _create_at(self, call: Call, obj: dict[str, Any], options: WriteOptions) -> Written:
        self._may_create(call)
        meta = obj["metadata"]
        changes.check_no_uid(call.served, self._key(call), meta)
        obj["metadata"] = {key: meta[key] for key in meta if key != "resourceVersion"}
        return self._writer.create(call, self._namespace(call), obj, options)

    def _may_create(self, call: Call) -> None:
        route, served = call.route, call.served
        self._authorizer.require(
            call.user,
            Attempt("create", served.group, served.plural, "", route.name, route.namespace),
        )

    async def _patch(self, call: Call) -> HttpResponse:
        options = write_options(call.request, "PatchOptions")
        if _media(call.request) == _APPLY_PATCH:
            return await self._apply(call, options)
        if call.request.param("force"):
            message = "Forbidden: may not be specified for non-apply patch"
            cause = Cause("FieldValueForbidden", message, "force")
            raise invalid_options("PatchOptions", cause)
        produce = self._patcher(call, options)
        written = self._writer.update(
            call, self._key(call), produce, options, call.route.subresource
        )
        return await self._written(call, written)

    async def _apply(self, call: Call, options: WriteOptions) -> HttpResponse:
        """Server-side apply: creates what is not there, merges into what is."""
        config = self._applied_config(call, options)
        subresource = call.route.subresource
        writing = machinery.Writing(
            options.manager, self._core.now_text(), subresource, options.force
        )
        call.verb = "apply"
        if self._core.store.get(call.served.shelf, self._key(call)) is None:
            if subresource:
                raise not_found(call.served.plural, call.served.group, call.route.name)
            written = self._apply_new(call, config, options, writing)
            return await self._written(call, written)

        wanted = config["metadata"].get("resourceVersion")

        def produce(old: dict[str, Any]) -> dict[str, Any]:
            if wanted and wanted != old["metadata"]["resourceVersion"]:
                raise conflict(call.served.plural, call.served.group, call.route.name)
            changes.check_uid(call.served, old, config["metadata"].get("uid"))
            new = machinery.apply(call.served, old, config, writing)
            return new if new is old else machinery.canonical(call.served, new, [])

        written = self._writer.update(call, self._key(call), produce, options, subresource)
        return await self._written(call, written)

    def _apply_new(
        self,
        call: Call,
        config: dict[str, Any],
        options: WriteOptions,
        writing: machinery.Writing,
    ) -> Written:
        served = call.served
        self._may_create(call)
        changes.check_name(config["metadata"], call.route.name)
        made = machinery.apply(served, None, config, writing)
        owners = made["metadata"]["managedFields"]
        made = machinery.canonical(served, made, [])
        return self._writer.create(call, self._namespace(call), made, options, owners)

    def _applied_config(self, call: Call, options: WriteOptions) -> dict[str, Any]:
        if not call.request.param("fieldManager"):
            message = "Required value: is required for apply patch"
            cause = Cause("FieldValueRequired", message, "fieldManager")
            raise invalid_options("PatchOptions", cause)
        try:
            found = decoding.read_yaml(call.request.body)
        except decoding.Malformed as error:
            raise bad_request(f"error decoding YAML: {error}") from None
        served = call.served
        config: dict[str, Any] = found if isinstance(found, dict) else {}
        if (config.get("apiVersion"), config.get("kind")) != (served.api_version, served.kind):
            raise bad_request(f"invalid object type: {_type_name(config)}")
        decoding.check_metadata(config, served)
        if config.setdefault("metadata", {}).get("name"):
            changes.check_name(config["metadata"], call.route.name)
        unknown: list[str] = []
        machinery.canonical(served, config, unknown)
        if unknown:
            meta = config["metadata"]
            place = f"{meta.get('namespace', '')}/{meta.get('name', '')}; {_type_name(config)}"
            raise plain_failure(
                f"failed to create typed patch object ({place}): .{unknown[0]}: field not "
                "declared in schema"
            )
        return config

    def _patcher(self, call: Call, options: WriteOptions) -> Produce:
        media = _media(call.request)
        served = call.served
        if media not in (_JSON_PATCH, _MERGE_PATCH, _STRATEGIC_PATCH):
            raise unknown_patch_type()
        if media == _STRATEGIC_PATCH and served.custom is not None:
            raise unsupported_media_type((_JSON_PATCH, _MERGE_PATCH, _APPLY_PATCH))
        patch = _read_patch(call.request.body, media)

        def produce(old: dict[str, Any]) -> dict[str, Any]:
            if media == _JSON_PATCH:
                new = machinery.json_patch(old, patch)
            elif media == _STRATEGIC_PATCH:
                new = _strategic(old, patch, served)
            else:
                new = machinery.merge_patch(old, patch)
            if media != _STRATEGIC_PATCH:  # of which the type is never read
                decoding.check_patched_type(new, served)
            try:
                decoding.check_metadata(new, served)
                return strictness.checked(call, new, options)
            except Refusal as refusal:
                strategic = media == _STRATEGIC_PATCH
                shown = go_text(patch) if strategic else decoding.quoted(new)
                raise decoding.unpatchable(refusal, shown, served) from None

        return produce

    async def _delete(self, call: Call) -> HttpResponse:
        options = delete_options(call.request, _options_body(call.request))
        written = self._writer.delete(call, self._key(call), options)
        if not options.dry_run:
            await self._core.store.settled(self._core.store.revision)
        if written.removed and not call.served.graceful:
            return self._deleted(call, written.record)
        return self._one(call, written.record, 200)

    def _deleted(self, call: Call, record: Record) -> HttpResponse:
        served = call.served
        uid = record.decode()["metadata"]["uid"]
        body = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": details(record.name, served.plural, served.group, uid=uid),
        }
        return json_response(200, body, call.headers())

    async def _delete_collection(self, call: Call) -> HttpResponse:
        options = delete_options(call.request, _options_body(call.request))
        listing = list_options(call.request, watch=False)
        chosen = self._chosen(call, listing)
        page = await read_page(self._core, call.served, chosen, listing)
        for record in page.records:
            try:
                self._writer.delete(call, record.key, options)
            except Refusal as refusal:
                if refusal.code != 404:
                    raise
        await self._core.store.settled(self._core.store.revision)
        return self._many(call, page)

    def ensure(self, served: Served, obj: dict[str, Any]) -> None:
        """Create an object from inside the server, unless it is there."""
        meta = obj["metadata"]
        namespace = meta.get("namespace", "")
        if self._core.store.get(served.shelf, key_of(namespace, meta["name"])) is None:
            route = Route(served.group, served.version, served.plural, namespace)
            call = Call(HttpRequest("POST", "", user=ADMIN), route, served, "create")
            self._writer.create(call, namespace, obj, WriteOptions(manager="manta"))

    # ── answers ──────────────────────────────────────────────────────────────────────────
    def _key(self, call: Call) -> str:
        return key_of(call.route.namespace, call.route.name)

    async def _written(self, call: Call, written: Written) -> HttpResponse:
        await self._core.store.settled(
            self._core.store.revision if written.removed else written.record.revision
        )
        return self._one(call, written.record, 201 if written.created else 200)

    def _one(self, call: Call, record: Record, status: int) -> HttpResponse:
        answer = call.answer
        if answer.plain:
            return HttpResponse(
                status, rendering.shown(call.served, record) + b"\n", call.headers()
            )
        if answer.yaml:
            return _yaml(status, rendering.shown(call.served, record), call)
        body = tables.one(
            call.served, record, answer, call.request.param("includeObject"), self._core.now()
        )
        return HttpResponse(status, body, call.headers())

    def _many(self, call: Call, page: Page) -> HttpResponse:
        answer: Answer = call.answer
        if answer.shape:
            body = tables.many(
                call.served, page, answer, call.request.param("includeObject"), self._core.now()
            )
            return HttpResponse(200, body, call.headers())
        if answer.yaml:
            return HttpResponse(200, _yaml_list(call, page), call.headers(), "application/yaml")
        body = rendering.listed(
            call.served, page.records, page.revision, page.token, page.remaining
        )
        return HttpResponse(200, body, call.headers())


def _read_patch(body: bytes, media: str) -> Any:
    try:
        patch = decoding.read_json(body)
    except decoding.Malformed as error:
        raise bad_request(f"error decoding patch: {error}") from None
    if patch is None and media == _STRATEGIC_PATCH:
        return {}
    if not isinstance(patch, list if media == _JSON_PATCH else dict):
        wanted = "a list" if media == _JSON_PATCH else "an object"
        raise bad_request(f"error decoding patch: it must be {wanted}")
    return patch


def _strategic(old: dict[str, Any], patch: dict[str, Any], served: Served) -> dict[str, Any]:
    """What kind it says that it is counts for nothing, as long as it is text."""
    new = machinery.strategic_patch(old, patch, served)
    if not all(isinstance(new.get(name, ""), str) for name in ("kind", "apiVersion")):
        raise invalid_patch("unrecognized type: string", go_text(patch))
    return new | {"kind": served.kind, "apiVersion": served.api_version}


def _media(request: HttpRequest) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip()


def _type_name(obj: dict[str, Any]) -> str:
    """A type as Go prints it: `apps/v1, Kind=Deployment`, and `/v1` for the core group."""
    group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
    return f"{group}/{version}, Kind={obj.get('kind') or ''}"


def _options_body(request: HttpRequest) -> dict[str, Any]:
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
        raise bad_request(decoding.unregistered(version, value["kind"]))
    return machinery.delete_options(value)


def _yaml(status: int, body: bytes, call: Call) -> HttpResponse:
    return HttpResponse(status, _sorted_yaml(body), call.headers(), "application/yaml")


def _yaml_list(call: Call, page: Page) -> rendering.Body:
    """Item by item: a long list in one piece would hold everybody up."""
    shell = rendering.listed(call.served, (), page.revision, page.token, page.remaining)
    assert isinstance(shell, bytes)
    if not page.records:
        return _sorted_yaml(shell)
    before, _, after = _sorted_yaml(shell).partition(b"items: []\n")
    items = (_sorted_yaml(b"[%b]" % rendering.item(call.served, record)) for record in page.records)
    return rendering.joined(before + b"items:\n", items, after, between=b"")


def _sorted_yaml(body: bytes) -> bytes:
    ordered = msgspec.json.encode(msgspec.json.decode(body), order="sorted")
    return to_yaml(msgspec.json.decode(ordered)).encode()
