"""Subresources with a body of their own: binding, eviction and token."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from manta.api.selectors import SelectorError, from_object
from manta.httpserver.messages import HttpResponse
from manta.localplane.apiserver import changes, decoding
from manta.localplane.apiserver.auth.token_requests import TOKEN_REQUESTS, issue_token
from manta.localplane.apiserver.auth.tokens import Tokens
from manta.localplane.apiserver.builtin_resources.registration import builtin
from manta.localplane.apiserver.core import Call, Core
from manta.localplane.apiserver.handlers.responses import created_response
from manta.localplane.apiserver.options import delete_options, write_options
from manta.localplane.apiserver.resource_store import ResourceStore
from manta.localplane.apiserver.schema.causes import Cause, quoted
from manta.localplane.apiserver.status_errors import (
    bad_request,
    conflict,
    internal,
    no_such_resource,
    not_acceptable,
    not_found,
    plain_failure,
    too_many_requests,
)
from manta.localplane.store.objects import Record

Object = dict[str, Any]

_DISRUPTED: Final = "DisruptionTarget"
_BINDINGS: Final = builtin("v1/bindings", "Binding")
_EVICTIONS: Final = builtin("policy/v1/evictions", "Eviction")
_EARLIER_EVICTIONS: Final = "policy/v1beta1"


class SubresourceHandlers:
    def __init__(self, core: Core, store: ResourceStore, tokens: Tokens | None) -> None:
        self._core = core
        self._store = store
        self._tokens = tokens

    # ── binding ──────────────────────────────────────────────────────────────────────────
    async def bind_named(self, call: Call) -> HttpResponse:
        """A Binding that is posted to `bindings`: it names its Pod itself."""
        if not call.route.namespace:
            raise no_such_resource()
        if call.answer.shape == "Table":
            raise not_acceptable(shape=True)
        binding = _BINDINGS.strategy.canonicalize(
            decoding.read_object(call.request, call.resource), []
        )
        meta = binding.get("metadata") or {}
        changes.check_namespace(meta, call.route.namespace)
        _bound_node(binding.get("target") or {})
        if not meta.get("name"):
            raise bad_request("Name parameter required.")
        pods = self._core.registry.find("", "v1", "pods")
        assert pods is not None
        route = replace(call.route, plural="pods", name=meta["name"], subresource="binding")
        return await self.bind(Call(call.request, route, pods, "create", call.answer))

    async def bind(self, call: Call) -> HttpResponse:
        options = write_options(call.request, "CreateOptions")
        binding = _BINDINGS.strategy.canonicalize(decoding.read_object(call.request, _BINDINGS), [])
        named = (binding.get("metadata") or {}).get("name")
        if named and named != call.route.name:
            raise bad_request("name in URL does not match name in Binding object")
        node = _bound_node(binding.get("target") or {})
        written = self._store.amend(
            call, call.key, lambda pod: self._bound(pod, node, binding), options
        )
        await self._core.store.wait_durable(written.record.revision)
        return created_response()

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
        status.pop("nominatedNodeName", None)
        meta = dict(pod["metadata"])
        annotations = (binding.get("metadata") or {}).get("annotations") or {}
        if annotations:
            meta["annotations"] = (meta.get("annotations") or {}) | annotations
        return pod | {"metadata": meta, "spec": spec | {"nodeName": node}, "status": status}

    # ── eviction ─────────────────────────────────────────────────────────────────────────
    async def evict(self, call: Call) -> HttpResponse:
        write = write_options(call.request, "CreateOptions")
        sent = decoding.read_object(call.request, _EVICTIONS, _EARLIER_EVICTIONS)
        eviction = _EVICTIONS.strategy.canonicalize(sent, [])
        name = (eviction.get("metadata") or {}).get("name") or call.route.name
        if name != call.route.name:
            raise bad_request("name in URL does not match name in Eviction object")
        body = dict(eviction.get("deleteOptions") or {})
        if write.dry_run:
            body["dryRun"] = ["All"]
        options = delete_options(call.request, body)
        record = self._core.store.get(call.resource.storage_name, call.key)
        if record is not None:
            self._spend_budget(record, dry_run=options.dry_run)
            if not options.dry_run:
                self._store.amend(call, call.key, self._disrupted, write)
        self._store.delete(call, call.key, options)
        await self._core.store.wait_durable(self._core.store.revision)
        return created_response()

    def _disrupted(self, pod: Object) -> Object:
        """The Pod with the condition that tells why it is deleted."""
        if "deletionTimestamp" in pod["metadata"]:
            return pod
        status = dict(pod.get("status") or {})
        others = [one for one in status.get("conditions") or () if one["type"] != _DISRUPTED]
        disrupted = {
            "type": _DISRUPTED,
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": self._core.now_text(),
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
        return pod | {"status": status | {"conditions": [*others, disrupted]}}

    def _spend_budget(self, pod: Record, *, dry_run: bool) -> None:
        """Take one disruption from each PodDisruptionBudget of the Pod. Raises a 429 if none is left."""
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
    async def token(self, call: Call) -> HttpResponse:
        if self._tokens is None:
            raise internal("this server holds no key for service account tokens")
        body = decoding.read_object(call.request, TOKEN_REQUESTS)
        account = self._core.store.get("serviceaccounts", call.key)
        if account is None:
            raise not_found("serviceaccounts", "", call.route.name)
        return issue_token(self._core, self._tokens, account, body, call)


def _bound_node(target: Object) -> str:
    errors = []
    if target.get("kind") and target["kind"] != "Node":
        supported = 'supported values: "Node", "<empty>"'
        errors.append(f"target.kind: Unsupported value: {quoted(target['kind'])}: {supported}")
    if not target.get("name"):
        errors.append("target.name: Required value")
    if errors:
        raise plain_failure(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
    return str(target["name"])


def _covers(budget: Object, pod: Record) -> bool:
    try:
        return from_object((budget.get("spec") or {}).get("selector")).matches(pod.labels)
    except SelectorError:
        return False
