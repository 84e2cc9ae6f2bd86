"""Questions about oneself and others: reviews are answered and never stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from manta.api.documents.writer import to_yaml
from manta.localplane.apiserver import changes, decoding, machinery, strictness
from manta.localplane.apiserver.auth.authenticator import Authenticator
from manta.localplane.apiserver.auth.authorizer import Authorizer
from manta.localplane.apiserver.auth.rules import Attempt, as_json
from manta.localplane.apiserver.auth.tokens import AUDIENCES, Tokens
from manta.localplane.apiserver.core import Call, Core
from manta.localplane.apiserver.messages import HttpResponse, User, json_response
from manta.localplane.apiserver.options import WriteOptions, write_options
from manta.localplane.apiserver.schema.causes import Cause, compact_json, required
from manta.localplane.apiserver.schema.causes import invalid as invalid_value
from manta.localplane.apiserver.status_errors import (
    bad_request,
    invalid,
    no_such_resource,
    not_acceptable,
)

Object = dict[str, Any]


_SYSTEM_FIELDS = (
    "uid",
    "selfLink",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
"""What the server writes itself, and never reads from a client."""
_METADATA_ORDER = (
    "name",
    "generateName",
    "namespace",
    "resourceVersion",
    "generation",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)


def _unclear(spec: Object) -> Iterator[Cause]:
    """A question is about a resource or about a path, never about both or neither."""
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        wish = "cannot be specified in combination with resourceAttributes"
        yield invalid_value("spec.nonResourceAttributes", _internal_path(path), wish)
    if resource is None and path is None:
        wish = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        yield invalid_value("spec.resourceAttributes", None, wish)


def _internal_path(path: Object) -> Object:
    """The real server shows its own, internal form."""
    return {"Path": path.get("path", ""), "Verb": path.get("verb", "")}


def _odd_selectors(spec: Object) -> Iterator[Cause]:
    for member in ("fieldSelector", "labelSelector"):
        selector = (spec.get("resourceAttributes") or {}).get(member)
        field = f"spec.resourceAttributes.{member}"
        if selector is None:
            continue
        raw, wanted = selector.get("rawSelector"), selector.get("requirements")
        if raw and wanted:
            wish = "may not specified at the same time as requirements"
            yield invalid_value(f"{field}.rawSelector", raw, wish)
        if not raw and not wanted:
            wish = f"when {field} is specified, requirements or rawSelector is required"
            yield required(f"{field}.requirements", wish)


class Reviews:
    def __init__(
        self,
        core: Core,
        authorizer: Authorizer,
        authenticator: Authenticator | None,
        tokens: Tokens | None,
    ) -> None:
        self._core = core
        self._authorizer = authorizer
        self._authenticator = authenticator
        self._tokens = tokens
        self._answers: Mapping[str, Callable[[Call, Object], Object]] = {
            "SelfSubjectReview": self._who_am_i,
            "TokenReview": self._token,
            "SelfSubjectAccessReview": self._may_i,
            "SubjectAccessReview": self._may_they,
            "LocalSubjectAccessReview": self._may_they_here,
            "SelfSubjectRulesReview": self._what_may_i,
        }

    def is_review(self, kind: str) -> bool:
        return kind in self._answers

    def answer(self, call: Call) -> HttpResponse:
        if call.answer.shape not in ("", "PartialObjectMetadata"):
            raise not_acceptable(shape=True)
        options = write_options(call.request, "CreateOptions")
        sent = decoding.read_object(call.request, call.served)
        review = strictness.checked(call, sent, options)
        body = self._begun(call, review, options)
        status = self._answers[call.served.kind](call, body)
        if call.served.kind == "SelfSubjectRulesReview":
            body |= {"metadata": {}, "spec": {}}  # the real server repeats nothing of it
        return _shown(call, body | {"status": status})

    def _begun(self, call: Call, review: Object, options: WriteOptions) -> Object:
        """The review as it is answered, but for its status, with all of the metadata that was sent."""
        served = call.served
        meta = {k: v for k, v in (review.get("metadata") or {}).items() if k not in _SYSTEM_FIELDS}
        meta.pop("managedFields", None)
        if served.namespaced:
            changes.check_namespace(meta, call.route.namespace)
            meta["namespace"] = call.route.namespace
        else:
            meta.pop("namespace", None)
        body: Object = {"kind": served.kind, "apiVersion": served.api_version, "metadata": meta}
        if served.kind == "SelfSubjectReview":
            return body | {"metadata": {"creationTimestamp": self._core.now_text()}}
        body["spec"] = review.get("spec") or {}
        writing = machinery.Writing(options.manager, self._core.now_text())
        meta["managedFields"] = machinery.track(served, None, body, writing)
        return body

    def _who_am_i(self, call: Call, _: Object) -> Object:
        return {"userInfo": user_info(call.user)}

    def _token(self, _: Call, review: Object) -> Object:
        spec = review["spec"]
        token = spec.get("token") or ""
        if not token:
            raise bad_request("token is required for TokenReview in authentication")
        audiences = tuple(spec.get("audiences") or AUDIENCES)
        accepted = self._authenticator.accept(token, audiences) if self._authenticator else None
        if accepted is None:
            return {"user": {}, "error": self._why_invalid(token, audiences)}
        return {
            "authenticated": True,
            "user": user_info(accepted.user),
            "audiences": list(accepted.audiences),
        }

    def _why_invalid(self, token: str, audiences: tuple[str, ...]) -> str:
        """Of a good token for others its audiences are named: whoever asks may have mistyped them."""
        found = self._tokens.audiences_of(token) if self._tokens else ()
        if not found or set(found) & set(audiences):
            return "invalid bearer token"
        shown = " ".join(f'"{name}"' for name in found)
        wanted = " ".join(f'"{name}"' for name in audiences)
        why = f"token audiences [{shown}] is invalid for the target audiences [{wanted}]"
        return f"[invalid bearer token, {why}]"

    def _may_i(self, call: Call, review: Object) -> Object:
        return self._verdict(call, call.user, review)

    def _may_they(self, call: Call, review: Object, more: Sequence[Cause] = ()) -> Object:
        spec = review["spec"]
        user = User(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "")
        return self._verdict(call, user, review, more)

    def _may_they_here(self, call: Call, review: Object) -> Object:
        """Only of this namespace: its admin may ask nothing about the rest of the cluster."""
        if not call.route.namespace:
            raise no_such_resource()
        causes = []
        spec = review["spec"]
        attributes = spec.get("resourceAttributes")
        if attributes is not None and attributes.get("namespace") != call.route.namespace:
            asked = attributes.get("namespace", "")
            wish = "must match metadata.namespace"
            causes.append(invalid_value("spec.resourceAttributes.namespace", asked, wish))
        if spec.get("nonResourceAttributes") is not None:
            wish = "disallowed on this kind of request"
            asked = _internal_path(spec["nonResourceAttributes"])
            causes.append(invalid_value("spec.nonResourceAttributes", asked, wish))
        return self._may_they(call, review, causes)

    def _verdict(
        self, call: Call, user: User, review: Object, more: Sequence[Cause] = ()
    ) -> Object:
        spec = review["spec"]
        causes = list(_unclear(spec))
        if not user.name and not user.groups:
            wish = "at least one of user or group must be specified"
            causes.append(invalid_value("spec.user", "", wish))
        causes += [*_odd_selectors(spec), *_filled_metadata(call, review["metadata"]), *more]
        if causes:
            raise invalid("", call.served.group, "", causes)
        resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        return {"allowed": self._authorizer.may(user, _attempt(resource or {}, path or {}))}

    def _what_may_i(self, call: Call, review: Object) -> Object:
        namespace = review["spec"].get("namespace") or ""
        if not namespace:
            raise bad_request("no namespace on request")
        rules = list(self._authorizer.rules_for(call.user, namespace))
        everything: list[Object] = []
        if "system:masters" in call.user.groups:
            everything = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
        return {
            "resourceRules": everything
            + [as_json(rule) for rule in rules if not rule.non_resource_urls],
            "nonResourceRules": [as_json(rule) for rule in rules if rule.non_resource_urls],
            "incomplete": False,
        }


def _filled_metadata(call: Call, meta: Object) -> Iterator[Cause]:
    """A question has no name: it is never stored."""
    apart = {"managedFields"} | ({"namespace"} if call.served.namespaced else set())
    if any(meta[name] for name in meta.keys() - apart):
        ordered = {name: meta[name] for name in _METADATA_ORDER if meta.get(name)}
        ordered["managedFields"] = [
            entry | {"fieldsV1": json.loads(compact_json(entry["fieldsV1"]))}
            for entry in meta["managedFields"]
        ]
        text = json.dumps(ordered, ensure_ascii=False, separators=(",", ":"))
        wish = "must be empty except for namespace" if call.served.namespaced else "must be empty"
        yield Cause("FieldValueInvalid", f"Invalid value: {text}: {wish}", "metadata")


def _shown(call: Call, body: Object) -> HttpResponse:
    if call.answer.shape:
        kind = {"kind": call.answer.shape, "apiVersion": f"meta.k8s.io/{call.answer.version}"}
        return json_response(201, kind | {"metadata": body["metadata"]}, call.headers())
    if call.answer.yaml:
        text = to_yaml(json.loads(json.dumps(body, sort_keys=True)))
        return HttpResponse(201, text.encode(), call.headers(), "application/yaml")
    return json_response(201, body, call.headers())


def _attempt(resource: Object, path: Object) -> Attempt:
    if path:
        return Attempt(path.get("verb") or "", path=path.get("path") or "")
    return Attempt(
        resource.get("verb") or "",
        resource.get("group") or "",
        resource.get("resource") or "",
        resource.get("subresource") or "",
        resource.get("name") or "",
        resource.get("namespace") or "",
    )


def user_info(user: User) -> Object:
    info: Object = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {name: list(values) for name, values in user.extra.items()}
    return info
