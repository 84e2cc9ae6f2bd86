"""The token subresource of ServiceAccounts, optionally bound to a Pod, Secret or Node."""

from __future__ import annotations

from typing import Any

from manta.api.times import format_time
from manta.httpserver.messages import HttpResponse, json_response
from manta.localplane.apiserver.auth.tokens import AUDIENCES, Binding, Named, Tokens, uid_of
from manta.localplane.apiserver.builtin_resources.registration import builtin
from manta.localplane.apiserver.core import Call, Core
from manta.localplane.apiserver.field_managers import FieldManager
from manta.localplane.apiserver.metadata import new_uid
from manta.localplane.apiserver.options import write_options
from manta.localplane.apiserver.schema.causes import Cause
from manta.localplane.apiserver.status_errors import bad_request, conflict, invalid, not_found
from manta.localplane.store.objects import Record, key_of

MIN_SECONDS, DEFAULT_SECONDS, MAX_SECONDS = 600, 3600, 1 << 32
TOKEN_REQUESTS = builtin("authentication.k8s.io/v1/tokenrequests", "TokenRequest")
_BINDABLE = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}


def issue_token(
    core: Core, tokens: Tokens, account: Record, body: dict[str, Any], call: Call
) -> HttpResponse:
    spec = TOKEN_REQUESTS.strategy.canonicalize(body, []).get("spec") or {}
    seconds = _seconds(spec.get("expirationSeconds"))
    reference = spec.get("boundObjectRef")
    binding = _binding(core, account, reference)
    audiences = list(spec.get("audiences") or AUDIENCES)
    token, end = tokens.issue(binding, seconds, audiences, new_uid(core.random))
    answer: dict[str, Any] = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            "name": account.name,
            "namespace": account.namespace,
            "uid": uid_of(account),
            "creationTimestamp": core.now_text(),
        },
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": reference},
        "status": {"token": token, "expirationTimestamp": format_time(end)},
    }
    answer["metadata"]["managedFields"] = _owners(core, call, spec | {"expirationSeconds": seconds})
    return json_response(201, answer, call.headers())


def _owners(core: Core, call: Call, spec: dict[str, Any]) -> list[dict[str, Any]]:
    options = write_options(call.request, "CreateOptions")
    manager = FieldManager(options.manager, core.now_text(), "token")
    return manager.update(TOKEN_REQUESTS, None, {"metadata": {}, "spec": spec})


def _seconds(requested: Any) -> int:
    if requested is None:
        return DEFAULT_SECONDS
    problem = ""
    if not isinstance(requested, int) or requested < MIN_SECONDS:
        problem = "may not specify a duration less than 10 minutes"
    elif requested > MAX_SECONDS:
        problem = "may not specify a duration larger than 2^32 seconds"
    if problem:
        message = f"Invalid value: {requested}: {problem}"
        cause = Cause("FieldValueInvalid", message, "spec.expirationSeconds")
        raise invalid("TokenRequest", "authentication.k8s.io", "", [cause])
    return int(requested)


def _binding(core: Core, account: Record, reference: dict[str, Any] | None) -> Binding:
    owner = Named(account.name, uid_of(account))
    if not reference:
        return Binding(account.namespace, owner)
    kind, name = reference.get("kind", ""), reference.get("name", "")
    if kind not in _BINDABLE:
        raise bad_request(f"cannot bind token for serviceaccount to kind {kind!r}")
    resource = _BINDABLE[kind]
    namespace = "" if kind == "Node" else account.namespace
    record = core.store.get(resource, key_of(namespace, name))
    if record is None:
        raise not_found(resource, "", name)
    uid = uid_of(record)
    if reference.get("uid") and reference["uid"] != uid:
        why = (
            f"the UID in the bound object reference ({reference['uid']}) does not match the UID "
            f"in record. The object might have been deleted and then recreated"
        )
        raise conflict(resource, "", name, why)
    bound = Named(name, uid)
    return Binding(
        account.namespace,
        owner,
        pod=bound if kind == "Pod" else None,
        secret=bound if kind == "Secret" else None,
        node=bound if kind == "Node" else None,
    )
