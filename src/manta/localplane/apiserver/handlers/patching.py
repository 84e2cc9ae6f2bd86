"""patch: JSON patch, merge patch, strategic merge patch and server-side apply."""

from __future__ import annotations

from typing import Any

from manta.httpserver.messages import HttpRequest, HttpResponse
from manta.localplane.apiserver import changes, decoding, field_validation, patches
from manta.localplane.apiserver.api_resources import ApiResource
from manta.localplane.apiserver.auth.authorizer import Authorizer
from manta.localplane.apiserver.core import Call, Core, Written
from manta.localplane.apiserver.field_managers import FieldManager
from manta.localplane.apiserver.handlers.responses import written_response
from manta.localplane.apiserver.handlers.writing import authorize_create
from manta.localplane.apiserver.options import WriteOptions, write_options
from manta.localplane.apiserver.patches import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from manta.localplane.apiserver.patching.go_text import go_text
from manta.localplane.apiserver.resource_store import Produce, ResourceStore
from manta.localplane.apiserver.schema.causes import Cause
from manta.localplane.apiserver.status_errors import (
    StatusError,
    bad_request,
    conflict,
    invalid_options,
    invalid_patch,
    not_found,
    plain_failure,
    unknown_patch_type,
    unsupported_media_type,
)

Object = dict[str, Any]


class PatchHandlers:
    def __init__(self, core: Core, store: ResourceStore, authorizer: Authorizer) -> None:
        self._core = core
        self._store = store
        self._authorizer = authorizer

    async def patch(self, call: Call) -> HttpResponse:
        options = write_options(call.request, "PatchOptions")
        if media_type(call.request) == APPLY_PATCH:
            written = self._apply(call, options)
        else:
            produce = _patcher(call, options)
            subresource = call.route.subresource
            written = self._store.update(call, call.key, produce, options, subresource)
        return await written_response(self._core, call, written)

    def _apply(self, call: Call, options: WriteOptions) -> Written:
        """Server-side apply: create the object, or merge into it."""
        resource, subresource = call.resource, call.route.subresource
        config = _applied_config(call)
        manager = FieldManager(options.manager, self._core.now_text(), subresource, options.force)
        call.verb = "apply"
        if self._core.store.get(resource.storage_name, call.key) is None:
            if subresource:
                raise not_found(resource.plural, resource.group, call.route.name)
            return self._apply_new(call, config, options, manager)

        def produce(old: Object) -> Object:
            wanted = config["metadata"].get("resourceVersion")
            if wanted and wanted != old["metadata"]["resourceVersion"]:
                raise conflict(resource.plural, resource.group, call.route.name)
            changes.check_uid(resource, old, config["metadata"].get("uid"))
            new = manager.apply(resource, old, config)
            return new if new is old else resource.strategy.canonicalize(new, [])

        return self._store.update(call, call.key, produce, options, subresource)

    def _apply_new(
        self, call: Call, config: Object, options: WriteOptions, manager: FieldManager
    ) -> Written:
        authorize_create(self._authorizer, call)
        changes.check_name(config["metadata"], call.route.name)
        made = manager.apply(call.resource, None, config)
        owners = made["metadata"]["managedFields"]
        made = call.resource.strategy.canonicalize(made, [])
        return self._store.create(call, made, options, owners)


def _applied_config(call: Call) -> Object:
    if not call.request.param("fieldManager"):
        message = "Required value: is required for apply patch"
        cause = Cause("FieldValueRequired", message, "fieldManager")
        raise invalid_options("PatchOptions", cause)
    try:
        found = decoding.read_yaml(call.request.body)
    except decoding.Malformed as error:
        raise bad_request(f"error decoding YAML: {error}") from None
    resource = call.resource
    config: Object = found if isinstance(found, dict) else {}
    if (config.get("apiVersion"), config.get("kind")) != (resource.api_version, resource.kind):
        raise bad_request(f"invalid object type: {_type_name(config)}")
    decoding.check_metadata(config, resource)
    if config.setdefault("metadata", {}).get("name"):
        changes.check_name(config["metadata"], call.route.name)
    unknown: list[str] = []
    resource.strategy.canonicalize(config, unknown)
    if unknown:
        meta = config["metadata"]
        place = f"{meta.get('namespace', '')}/{meta.get('name', '')}; {_type_name(config)}"
        raise plain_failure(
            f"failed to create typed patch object ({place}): .{unknown[0]}: field not "
            "declared in schema"
        )
    return config


def _patcher(call: Call, options: WriteOptions) -> Produce:
    resource, strategy = call.resource, call.resource.strategy
    media = media_type(call.request)
    if call.request.param("force"):
        message = "Forbidden: may not be specified for non-apply patch"
        raise invalid_options("PatchOptions", Cause("FieldValueForbidden", message, "force"))
    if media not in (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH):
        raise unknown_patch_type()
    if media not in strategy.patch_types:
        raise unsupported_media_type(strategy.patch_types)
    patch = _read_patch(call.request.body, media)

    def produce(old: Object) -> Object:
        new = _patched(old, patch, media, resource)
        try:
            decoding.check_metadata(new, resource)
            return field_validation.canonical(call, new, options)
        except StatusError as error:
            shown = go_text(patch) if media == STRATEGIC_PATCH else decoding.escaped_json(new)
            raise strategy.patch_error(error, shown) from None

    return produce


def _patched(old: Object, patch: Any, media: str, resource: ApiResource) -> Object:
    if media == STRATEGIC_PATCH:
        return _strategic(old, patch, resource)
    new = (patches.json_patch if media == JSON_PATCH else patches.merge_patch)(old, patch)
    resource.strategy.check_patched_type(new)
    return new


def _strategic(old: Object, patch: Object, resource: ApiResource) -> Object:
    """The type in a strategic merge patch is ignored, as long as it is text."""
    new = patches.strategic_patch(old, patch, resource.strategy.schema_node())
    if not all(isinstance(new.get(name, ""), str) for name in ("kind", "apiVersion")):
        raise invalid_patch("unrecognized type: string", go_text(patch))
    return new | {"kind": resource.kind, "apiVersion": resource.api_version}


def _read_patch(body: bytes, media: str) -> Any:
    try:
        patch = decoding.read_json(body)
    except decoding.Malformed as error:
        raise bad_request(f"error decoding patch: {error}") from None
    if patch is None and media == STRATEGIC_PATCH:
        return {}
    if not isinstance(patch, list if media == JSON_PATCH else dict):
        wanted = "a list" if media == JSON_PATCH else "an object"
        raise bad_request(f"error decoding patch: it must be {wanted}")
    return patch


def media_type(request: HttpRequest) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip()


def _type_name(obj: Object) -> str:
    """A type as Go prints it: `apps/v1, Kind=Deployment`, and `/v1` for the core group."""
    group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
    return f"{group}/{version}, Kind={obj.get('kind') or ''}"
