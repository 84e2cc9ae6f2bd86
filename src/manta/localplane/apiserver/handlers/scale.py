"""The `scale` subresource: the replicas of any kind that has some, as a Scale object."""

from __future__ import annotations

from typing import Any, Final

from manta.httpserver.messages import HttpResponse, json_response
from manta.localplane.apiserver import changes, decoding, patches, rendering
from manta.localplane.apiserver.api_resources import ApiResource
from manta.localplane.apiserver.builtin_resources.registration import builtin
from manta.localplane.apiserver.core import Call, Core
from manta.localplane.apiserver.handlers.patching import media_type
from manta.localplane.apiserver.options import write_options
from manta.localplane.apiserver.resource_store import Produce, ResourceStore
from manta.localplane.apiserver.status_errors import (
    StatusError,
    bad_request,
    conflict,
    method_not_allowed,
    not_found,
    unknown_patch_type,
)
from manta.localplane.apiserver.strategies.base import ScalePaths, value_at

Object = dict[str, Any]

_SCALES: Final = builtin("autoscaling/v1/scales", "Scale")
_SHOWN_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class ScaleHandler:
    def __init__(self, core: Core, store: ResourceStore) -> None:
        self._core = core
        self._store = store

    async def scale(self, call: Call) -> HttpResponse:
        resource = call.resource
        paths = resource.strategy.scale
        if paths is None:
            raise method_not_allowed()
        if call.verb == "get":
            record = self._core.store.get(resource.storage_name, call.key)
            if record is None:
                raise not_found(resource.plural, resource.group, call.route.name)
        else:
            kind = "UpdateOptions" if call.verb == "update" else "PatchOptions"
            options = write_options(call.request, kind)
            produce = _replicas_writer(call, paths)
            record = self._store.update(call, call.key, produce, options, "scale").record
        await self._core.store.wait_durable(record.revision)
        obj = rendering.decode_object(resource, record)
        return json_response(200, _scale_of(resource, obj, paths), call.headers())


def _replicas_writer(call: Call, paths: ScalePaths) -> Produce:
    resource = call.resource

    def produce(old: Object) -> Object:
        wanted = _wanted_scale(call, _scale_of(resource, old, paths))
        meta = wanted.get("metadata") or {}
        changes.check_name(meta, call.route.name)
        version = meta.get("resourceVersion")
        if version and version != old["metadata"]["resourceVersion"]:
            raise conflict(resource.plural, resource.group, call.route.name)
        replicas = (wanted.get("spec") or {}).get("replicas", 0)
        if replicas < 0:
            raise resource.strategy.invalid_replicas(call.route.name, replicas)
        return _with(old, paths.spec_replicas, replicas)

    return produce


def _wanted_scale(call: Call, shown: Object) -> Object:
    strategy = _SCALES.strategy
    if call.verb == "update":
        return strategy.canonicalize(decoding.read_object(call.request, _SCALES), [])
    media = media_type(call.request)
    try:
        patch = decoding.read_json(call.request.body)
    except decoding.Malformed as error:
        raise bad_request(f"error decoding patch: {error}") from None
    if media == patches.JSON_PATCH:
        made = patches.json_patch(shown, patch)
    elif media.startswith("application/"):
        made = patches.merge_patch(shown, patch)
    else:
        raise unknown_patch_type()
    try:
        strategy.check_patched_type(made)
        return strategy.canonicalize(made, [])
    except StatusError as error:
        raise strategy.patch_error(error, "{}") from None


def _scale_of(resource: ApiResource, obj: Object, paths: ScalePaths) -> Object:
    meta = obj["metadata"]
    status: Object = {"replicas": value_at(obj, paths.status_replicas) or 0}
    selector = resource.strategy.scale_selector(obj)
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: meta[name] for name in _SHOWN_METADATA if name in meta},
        "spec": {"replicas": value_at(obj, paths.spec_replicas) or 0},
        "status": status,
    }


def _with(obj: Object, path: tuple[str, ...], value: Any) -> Object:
    first, *rest = path
    if not rest:
        return obj | {first: value}
    below = obj.get(first)
    return obj | {first: _with(below if isinstance(below, dict) else {}, tuple(rest), value)}
