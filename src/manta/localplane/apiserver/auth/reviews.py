"""Questions about oneself and others: reviews are answered and never stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from manta.localplane.apiserver import decoding, machinery
from manta.localplane.apiserver.auth.authenticator import Authenticator
from manta.localplane.apiserver.auth.authorizer import Authorizer
from manta.localplane.apiserver.auth.rules import Attempt, as_json
from manta.localplane.apiserver.auth.tokens import AUDIENCES, Tokens
from manta.localplane.apiserver.core import Call, Core
from manta.localplane.apiserver.messages import HttpResponse, User, json_response
from manta.localplane.apiserver.options import write_options
from manta.localplane.apiserver.schema.causes import Cause
from manta.localplane.apiserver.schema.causes import invalid as invalid_value
from manta.localplane.apiserver.status_errors import (
    bad_request,
    invalid,
    no_such_resource,
    not_acceptable,
)

Object = dict[str, Any]


def _ambiguous(spec: Object) -> list[Cause]:
    """A question is about a resource or about a path, never about both or neither."""
    if bool(spec.get("resourceAttributes")) != bool(spec.get("nonResourceAttributes")):
        return []
    message = (
        "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be "
        "specified"
    )
    return [Cause("FieldValueInvalid", message, "spec.resourceAttributes")]


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
        served = call.served
        if call.answer.shape:
            raise not_acceptable(shape=True)
        sent = decoding.read_object(call.request, served)
        review = machinery.canonical(served, sent, [])
        spec = review.get("spec") or {}
        status = self._answers[served.kind](call, spec)
        body: Object = {"kind": served.kind, "apiVersion": served.api_version, "metadata": {}}
        if served.namespaced:
            body["metadata"] = {"namespace": call.route.namespace}
        if served.kind == "SelfSubjectReview":
            body["metadata"] = {"creationTimestamp": self._core.now_text()}
        else:
            body["spec"] = spec
            body["metadata"]["managedFields"] = self._owners(call, body)
        return json_response(201, body | {"status": status})

    def _owners(self, call: Call, review: Object) -> list[Object]:
        """Reviews are not stored; the real server tells whose they are all the same."""
        options = write_options(call.request, "CreateOptions")
        writing = machinery.Writing(options.manager, self._core.now_text())
        return machinery.track(call.served, None, review, writing)

    def _who_am_i(self, call: Call, _: Object) -> Object:
        return {"userInfo": user_info(call.user)}

    def _token(self, call: Call, spec: Object) -> Object:
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

    def _may_i(self, call: Call, spec: Object) -> Object:
        return self._verdict(call, call.user, spec)

    def _may_they(self, call: Call, spec: Object) -> Object:
        user = User(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "")
        if user.name or user.groups:
            return self._verdict(call, user, spec)
        message = 'Invalid value: "": at least one of user or group must be specified'
        causes = [*_ambiguous(spec), Cause("FieldValueInvalid", message, "spec.user")]
        raise invalid("", call.served.group, "", causes)

    def _may_they_here(self, call: Call, spec: Object) -> Object:
        """Only of this namespace: its admin may ask nothing about the rest of the cluster."""
        if not call.route.namespace:
            raise no_such_resource()
        causes = []
        attributes = spec.get("resourceAttributes")
        if attributes is not None and attributes.get("namespace") != call.route.namespace:
            asked = attributes.get("namespace", "")
            wish = "must match metadata.namespace"
            causes.append(invalid_value("spec.resourceAttributes.namespace", asked, wish))
        if spec.get("nonResourceAttributes") is not None:
            wish = "disallowed on this kind of request"
            asked = spec["nonResourceAttributes"]
            causes.append(invalid_value("spec.nonResourceAttributes", asked, wish))
        if causes:
            raise invalid("LocalSubjectAccessReview", call.served.group, "", causes)
        return self._may_they(call, spec)

    def _verdict(self, call: Call, user: User, spec: Object) -> Object:
        causes = _ambiguous(spec)
        if causes:
            raise invalid("", call.served.group, "", causes)
        resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        return {"allowed": self._authorizer.may(user, _attempt(resource or {}, path or {}))}

    def _what_may_i(self, call: Call, spec: Object) -> Object:
        namespace = spec.get("namespace") or ""
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
