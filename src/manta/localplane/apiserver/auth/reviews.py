"""Questions about oneself and others: reviews are answered and never stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from manta.localplane.apiserver import decoding
from manta.localplane.apiserver.auth.authenticator import Authenticator
from manta.localplane.apiserver.auth.authorizer import Authorizer
from manta.localplane.apiserver.auth.rules import Attempt, as_json
from manta.localplane.apiserver.core import Call, Core
from manta.localplane.apiserver.messages import HttpResponse, User, json_response
from manta.localplane.apiserver.schema.causes import Cause
from manta.localplane.apiserver.status_errors import bad_request, invalid

Object = dict[str, Any]


class Reviews:
    def __init__(
        self, core: Core, authorizer: Authorizer, authenticator: Authenticator | None
    ) -> None:
        self._core = core
        self._authorizer = authorizer
        self._authenticator = authenticator
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
        review = decoding.read_object(call.request, call.served)
        spec = review.get("spec") or {}
        if not isinstance(spec, dict):
            raise decoding.wrong_type(call.served, spec, "spec", "Spec")
        status = self._answers[call.served.kind](call, spec)
        body = {
            "kind": call.served.kind,
            "apiVersion": call.served.api_version,
            "metadata": {"creationTimestamp": self._core.now_text()},
        }
        if call.served.kind != "SelfSubjectReview":
            body["spec"] = spec
        return json_response(201, body | {"status": status})

    def _who_am_i(self, call: Call, _: Object) -> Object:
        return {"userInfo": user_info(call.user)}

    def _token(self, call: Call, spec: Object) -> Object:
        token = spec.get("token") or ""
        if not token:
            raise bad_request("token is required for TokenReview in authentication")
        user = self._authenticator.by_token(token) if self._authenticator else None
        if user is None:
            return {"user": {}, "error": "invalid bearer token"}
        audiences = spec.get("audiences") or ["https://kubernetes.default.svc"]
        return {"authenticated": True, "user": user_info(user), "audiences": audiences}

    def _may_i(self, call: Call, spec: Object) -> Object:
        return self._verdict(call, call.user, spec)

    def _may_they(self, call: Call, spec: Object) -> Object:
        user = User(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "")
        if not user.name and not user.groups:
            cause = Cause(
                "FieldValueInvalid",
                'Invalid value: "": at least one of user or group must be specified',
                "spec.user",
            )
            raise invalid(call.served.kind, call.served.group, "", [cause])
        return self._verdict(call, user, spec)

    def _may_they_here(self, call: Call, spec: Object) -> Object:
        attributes = dict(spec.get("resourceAttributes") or {})
        if attributes.get("namespace", call.route.namespace) != call.route.namespace:
            raise bad_request(
                f"spec.resourceAttributes.namespace must match namespace: {call.route.namespace}"
            )
        return self._may_they(call, spec)

    def _verdict(self, call: Call, user: User, spec: Object) -> Object:
        resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        if bool(resource) == bool(path):
            cause = Cause(
                "FieldValueInvalid",
                "Invalid value: exactly one of nonResourceAttributes or resourceAttributes must "
                "be specified",
                "spec.resourceAttributes",
            )
            raise invalid(call.served.kind, call.served.group, "", [cause])
        allowed = self._authorizer.may(user, _attempt(resource or {}, path or {}))
        return {"allowed": allowed} if allowed else {"allowed": False, "reason": ""}

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
