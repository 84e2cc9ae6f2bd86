"""Subresources with a body of their own: binding, eviction, scale and token.

The others need nothing special: they are updates of which only a part counts (`changes`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from manta.api.selectors import SelectorError, from_object
from manta.localplane.apiserver import changes, decoding, machinery, rendering
from manta.localplane.apiserver.auth.token_requests import issue_token
from manta.localplane.apiserver.auth.tokens import Tokens
from manta.localplane.apiserver.core import Call, Core
from manta.localplane.apiserver.messages import HttpResponse, json_response
from manta.localplane.apiserver.options import delete_options, write_options
from manta.localplane.apiserver.schema.causes import Cause, quoted
from manta.localplane.apiserver.schema.causes import invalid as invalid_value
from manta.localplane.apiserver.served import ScalePaths, Served
from manta.localplane.apiserver.status_errors import (
    Refusal,
    bad_request,
    conflict,
    internal,
    invalid,
    method_not_allowed,
    no_such_resource,
    not_acceptable,
    not_found,
    plain_failure,
    too_many_requests,
    unknown_patch_type,
)
from manta.localplane.apiserver.writing import Produce, Writer
from manta.localplane.store.objects import Record, key_of

Object = dict[str, Any]

_DISRUPTED = "DisruptionTarget"
_BINDINGS = Served("", "v1", "bindings", "Binding")
_EVICTIONS = Served("policy", "v1", "evictions", "Eviction")
_EARLIER_EVICTIONS = "policy/v1beta1"
_TOKENS = Served("authentication.k8s.io", "v1", "tokenrequests", "TokenRequest")
_SCALES = Served("autoscaling", "v1", "scales", "Scale")
_BUILTIN_SCALE = ScalePaths(("spec", "replicas"), ("status", "replicas"), ())


class Subresources:
    def __init__(self, core: Core, writer: Writer, tokens: Tokens | None) -> None:
        self._core = core
        self._writer = writer
        self._tokens = tokens
        self._performers: Mapping[str, Callable[[Call], Awaitable[HttpResponse]]] = {
            "binding": self._bind,
            "eviction": self._evict,
            "scale": self._scale,
            "token": self._token,
        }
        self.names = frozenset(self._performers)

    async def perform(self, call: Call) -> HttpResponse:
        return await self._performers[call.route.subresource](call)

    # ── binding ──────────────────────────────────────────────────────────────────────────
    async def bind_named(self, call: Call) -> HttpResponse:
        """A Binding that is sent without a path of its own: it names its Pod."""
        if not call.route.namespace:
            raise no_such_resource()
        if call.answer.shape == "Table":
            raise not_acceptable(shape=True)
        binding = _typed(_BINDINGS, decoding.read_object(call.request, call.served))
        meta = binding.get("metadata") or {}
        changes.check_namespace(meta, call.route.namespace)
        _bound_node(binding.get("target") or {})
        if not meta.get("name"):
            raise bad_request("Name parameter required.")
        pods = self._core.registry.find("", "v1", "pods")
        assert pods is not None
        route = replace(call.route, plural="pods", name=meta["name"], subresource="binding")
        return await self._bind(Call(call.request, route, pods, "create", call.answer))

    async def _bind(self, call: Call) -> HttpResponse:
        options = write_options(call.request, "CreateOptions")
        binding = _typed(_BINDINGS, decoding.read_object(call.request, _BINDINGS))
        named = (binding.get("metadata") or {}).get("name")
        if named and named != call.route.name:
            raise bad_request("name in URL does not match name in Binding object")
        node = _bound_node(binding.get("target") or {})
        written = self._writer.amend(
            call,
            key_of(call.route.namespace, call.route.name),
            lambda pod: self._bound(pod, node, binding),
            options,
        )
        await self._core.store.settled(written.record.revision)
        return _success(201)

    def _bound(self, pod: Object, node: str, binding: Object) -> Object:
        name = pod["metadata"]["name"]
        spec = pod.get("spec") or {}
        if "deletionTimestamp" in pod["metadata"]:
            why = f"pod {name} is being deleted, cannot be assigned to a host"
            raise conflict("pods/binding", "", name, why)
        if spec.get("nodeName"):
            why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
            raise conflict("pods/binding", "", name, why)
        if spec.get("schedulingGates"):
            why = f"pod {name} has non-empty .spec.schedulingGates"
            raise conflict("pods/binding", "", name, why)
        status = dict(pod.get("status") or {})
        others = [one for one in status.get("conditions") or () if one["type"] != "PodScheduled"]
        scheduled = {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": self._core.now_text(),
        }
        status["conditions"] = [*others, scheduled]
        status.pop("nominatedNodeName", None)  # the promise is kept
        meta = dict(pod["metadata"])
        annotations = (binding.get("metadata") or {}).get("annotations") or {}
        if annotations:
            meta["annotations"] = (meta.get("annotations") or {}) | annotations
        return pod | {"metadata": meta, "spec": spec | {"nodeName": node}, "status": status}

    # ── eviction ─────────────────────────────────────────────────────────────────────────
    async def _evict(self, call: Call) -> HttpResponse:
        write = write_options(call.request, "CreateOptions")
        sent = decoding.read_object(call.request, _EVICTIONS, _EARLIER_EVICTIONS)
        eviction = _typed(_EVICTIONS, sent)
        name = (eviction.get("metadata") or {}).get("name") or call.route.name
        if name != call.route.name:
            raise bad_request("name in URL does not match name in Eviction object")
        body = dict(eviction.get("deleteOptions") or {})
        if write.dry_run:
            body["dryRun"] = ["All"]
        options = delete_options(call.request, body)
        key = key_of(call.route.namespace, name)
        record = self._core.store.get(call.served.shelf, key)
        if record is not None:
            self._spend_budget(record, dry_run=options.dry_run)
            if not options.dry_run:
                self._writer.amend(call, key, self._disrupted, write)
        self._writer.delete(call, key, options)
        await self._core.store.settled(self._core.store.revision)
        return _success(201)

    def _disrupted(self, pod: Object) -> Object:
        """Why a Pod goes, for whoever looks at it afterwards."""
        if "deletionTimestamp" in pod["metadata"]:
            return pod
        status = dict(pod.get("status") or {})
        others = [one for one in status.get("conditions") or () if one["type"] != _DISRUPTED]
        told = {
            "type": _DISRUPTED,
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": self._core.now_text(),
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
        return pod | {"status": status | {"conditions": [*others, told]}}

    def _spend_budget(self, pod: Record, *, dry_run: bool) -> None:
        """A PodDisruptionBudget must allow one more; the eviction uses it up."""
        phase = (pod.decode().get("status") or {}).get("phase")
        if phase in ("Succeeded", "Failed", "Pending"):
            return
        for record in self._core.store.select("poddisruptionbudgets.policy", pod.namespace):
            budget = record.decode()
            if not _covers(budget, pod):
                continue
            status = dict(budget.get("status") or {})
            allowed = int(status.get("disruptionsAllowed") or 0)
            if allowed <= 0:
                message = f"The disruption budget {record.name} needs more healthy pods"
                cause = Cause("DisruptionBudget", message, "")
                raise too_many_requests(
                    "Cannot evict pod as it would violate the pod's disruption budget.", [cause], 0
                )
            if not dry_run:
                status["disruptionsAllowed"] = allowed - 1
                body = budget | {"status": status}
                self._core.store.put("poddisruptionbudgets.policy", record.key, body)

    # ── token ────────────────────────────────────────────────────────────────────────────
    async def _token(self, call: Call) -> HttpResponse:
        if self._tokens is None:
            raise internal("this server holds no key for service account tokens")
        body = decoding.read_object(call.request, _TOKENS)
        namespace, name = call.route.namespace, call.route.name
        account = self._core.store.get("serviceaccounts", key_of(namespace, name))
        if account is None:
            raise not_found("serviceaccounts", "", name)
        return issue_token(self._core, self._tokens, account, body, call)

    # ── scale ────────────────────────────────────────────────────────────────────────────
    async def _scale(self, call: Call) -> HttpResponse:
        key = key_of(call.route.namespace, call.route.name)
        paths = _scale_paths(call.served)
        if call.verb == "get":
            record = self._core.store.get(call.served.shelf, key)
            if record is None:
                raise not_found(call.served.plural, call.served.group, call.route.name)
            await self._core.store.settled(record.revision)
        else:
            kind = "UpdateOptions" if call.verb == "update" else "PatchOptions"
            options = write_options(call.request, kind)
            produce = self._scaled(call, paths)
            written = self._writer.update(call, key, produce, options, "scale")
            record = written.record
            await self._core.store.settled(record.revision)
        obj = rendering.whole(call.served, record)
        return json_response(200, _scale_of(call.served, obj, paths), call.headers())

    def _scaled(self, call: Call, paths: ScalePaths) -> Produce:
        def produce(old: Object) -> Object:
            shown = _scale_of(call.served, old, paths)
            wanted = self._wanted_scale(call, shown)
            changes.check_name(wanted.get("metadata") or {}, call.route.name)
            asked = (wanted.get("metadata") or {}).get("resourceVersion")
            if asked and asked != old["metadata"]["resourceVersion"]:
                raise conflict(call.served.plural, call.served.group, call.route.name)
            replicas = (wanted.get("spec") or {}).get("replicas", 0)
            if replicas < 0:
                served = call.served
                custom = served.custom is not None
                cause = invalid_value(
                    ".spec.replicas" if custom else "spec.replicas",
                    replicas,
                    "should be a non-negative integer"
                    if custom
                    else "must be greater than or equal to 0",
                )
                kind, group = (served.kind, served.group) if custom else ("Scale", "autoscaling")
                raise invalid(kind, group, call.route.name, [cause])
            return _with(old, paths.spec_replicas, replicas)

        return produce

    def _wanted_scale(self, call: Call, shown: Object) -> Object:
        if call.verb == "update":
            return _typed(_SCALES, decoding.read_object(call.request, _SCALES))
        media = call.request.headers.get("content-type", "").partition(";")[0].strip()
        try:
            patch = decoding.read_json(call.request.body)
        except decoding.Malformed as error:
            raise bad_request(f"error decoding patch: {error}") from None
        if media == "application/json-patch+json":
            made = machinery.json_patch(shown, patch)
        elif media.startswith("application/"):
            made = machinery.merge_patch(shown, patch)
        else:
            raise unknown_patch_type()
        try:
            decoding.check_patched_type(made, _SCALES)
            return _typed(_SCALES, made)
        except Refusal as refusal:
            raise decoding.unpatchable(refusal, "{}", _SCALES) from None


def _typed(served: Served, body: Object) -> Object:
    """A body whose fields have the types of its kind; else a 400 that names the field."""
    return machinery.canonical(served, body, [])


def _bound_node(target: Object) -> str:
    faults = []
    if target.get("kind") and target["kind"] != "Node":
        supported = 'supported values: "Node", "<empty>"'
        faults.append(f"target.kind: Unsupported value: {quoted(target['kind'])}: {supported}")
    if not target.get("name"):
        faults.append("target.name: Required value")
    if faults:
        raise plain_failure(faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]")
    return str(target["name"])


def _covers(budget: Object, pod: Record) -> bool:
    try:
        return from_object((budget.get("spec") or {}).get("selector")).matches(pod.labels)
    except SelectorError:
        return False


def _scale_paths(served: Served) -> ScalePaths:
    if served.custom is None:
        return _BUILTIN_SCALE
    if served.custom.scale is None:
        raise method_not_allowed()
    return served.custom.scale


def _scale_of(served: Served, obj: Object, paths: ScalePaths) -> Object:
    meta = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Object = {"replicas": _at(obj, paths.status_replicas) or 0}
    selector = _at(obj, paths.label_selector) if paths.label_selector else None
    if served.custom is None:
        given = (obj.get("spec") or {}).get("selector")
        plain = {"matchLabels": given} if served.kind == "ReplicationController" else given
        selector = str(from_object(plain)) if plain else None
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: meta[name] for name in kept if name in meta},
        "spec": {"replicas": _at(obj, paths.spec_replicas) or 0},
        "status": status,
    }


def _at(obj: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(part)
    return obj


def _with(obj: Object, path: tuple[str, ...], value: Any) -> Object:
    first, *rest = path
    if not rest:
        return obj | {first: value}
    below = obj.get(first)
    return obj | {first: _with(below if isinstance(below, dict) else {}, tuple(rest), value)}


def _success(code: int) -> HttpResponse:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": code,
    }
    return json_response(code, body)
