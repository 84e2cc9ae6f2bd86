"""TokenRequest: a token for a service account, bound to a Pod or Secret where the client says so."""

from __future__ import annotations

from typing import Any

from manta.api.times import format_time
from manta.localplane.apiserver import machinery
from manta.localplane.apiserver.auth.tokens import AUDIENCES, Binding, Named, Tokens, uid_of
from manta.localplane.apiserver.core import Call, Core
from manta.localplane.apiserver.messages import HttpResponse, json_response
from manta.localplane.apiserver.metadata import new_uid
from manta.localplane.apiserver.options import write_options
from manta.localplane.apiserver.schema.causes import Cause
from manta.localplane.apiserver.served import Served
from manta.localplane.apiserver.status_errors import bad_request, conflict, invalid, not_found
from manta.localplane.store.objects import Record, key_of

SHORTEST, USUAL, LONGEST = 600, 3600, 1 << 32
_REQUESTS = Served("authentication.k8s.io", "v1", "tokenrequests", "TokenRequest")
_BINDABLE = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}


def issue_token(
    core: Core, tokens: Tokens, account: Record, body: dict[str, Any], call: Call
) -> HttpResponse:
    spec = machinery.canonical(_REQUESTS, body, []).get("spec") or {}
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
        "spec": {
            "audiences": audiences,
            "expirationSeconds": seconds,
            "boundObjectRef": reference,
        },
        "status": {"token": token, "expirationTimestamp": format_time(end)},
    }
    answer["metadata"]["managedFields"] = _owners(core, call, spec | {"expirationSeconds": seconds})
    return json_response(201, answer, call.headers())


def _owners(core: Core, call: Call, spec: dict[str, Any]) -> list[dict[str, Any]]:
    options = write_options(call.request, "CreateOptions")
    writing = machinery.Writing(options.manager, core.now_text(), "token")
    return machinery.track(_REQUESTS, None, {"metadata": {}, "spec": spec}, writing)


def _seconds(asked: Any) -> int:
    if asked is None:
        return USUAL
    problem = ""
    if not isinstance(asked, int) or asked < SHORTEST:
        problem = "may not specify a duration less than 10 minutes"
    elif asked > LONGEST:
        problem = "may not specify a duration larger than 2^32 seconds"
    if problem:
        message = f"Invalid value: {asked}: {problem}"
        cause = Cause("FieldValueInvalid", message, "spec.expirationSeconds")
        raise invalid("TokenRequest", "authentication.k8s.io", "", [cause])
    return int(asked)


def _binding(core: Core, account: Record, reference: dict[str, Any] | None) -> Binding:
    owner = Named(account.name, uid_of(account))
    if not reference:
        return Binding(account.namespace, owner)
    kind, name = reference.get("kind", ""), reference.get("name", "")
    if kind not in _BINDABLE:
        raise bad_request(f"cannot bind token for serviceaccount to kind {kind!r}")
    shelf = _BINDABLE[kind]
    namespace = "" if kind == "Node" else account.namespace
    record = core.store.get(shelf, key_of(namespace, name))
    if record is None:
        raise not_found(shelf, "", name)
    uid = uid_of(record)
    if reference.get("uid") and reference["uid"] != uid:
        why = (
            f"the UID in the bound object reference ({reference['uid']}) does not match the UID "
            f"in record. The object might have been deleted and then recreated"
        )
        raise conflict(shelf, "", name, why)
    bound = Named(name, uid)
    return Binding(
        account.namespace,
        owner,
        pod=bound if kind == "Pod" else None,
        secret=bound if kind == "Secret" else None,
        node=bound if kind == "Node" else None,
    )
