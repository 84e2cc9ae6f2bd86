"""TokenReview, SubjectAccessReview and the other review kinds, which are never stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from manta.api.documents.writer import to_yaml
from manta.httpserver.messages import HttpResponse, User, json_response
from manta.localplane.apiserver import changes, decoding, field_validation
from manta.localplane.apiserver.auth.authenticator import Authenticator
from manta.localplane.apiserver.auth.authorizer import Authorizer
from manta.localplane.apiserver.auth.rules import Attributes, as_json
from manta.localplane.apiserver.auth.tokens import AUDIENCES, Tokens
from manta.localplane.apiserver.core import Call, Core
from manta.localplane.apiserver.field_managers import FieldManager
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
"""Set by the server, ignored in requests."""
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


def _check_attributes(spec: Object) -> Iterator[Cause]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        why = "cannot be specified in combination with resourceAttributes"
        yield invalid_value("spec.nonResourceAttributes", _internal_path(path), why)
    if resource is None and path is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        yield invalid_value("spec.resourceAttributes", None, why)


def _internal_path(path: Object) -> Object:
    """kube-apiserver shows the fields of its internal type."""
    return {"Path": path.get("path", ""), "Verb": path.get("verb", "")}


def _check_selectors(spec: Object) -> Iterator[Cause]:
    for member in ("fieldSelector", "labelSelector"):
        selector = (spec.get("resourceAttributes") or {}).get(member)
        field = f"spec.resourceAttributes.{member}"
        if selector is None:
            continue
        raw, wanted = selector.get("rawSelector"), selector.get("requirements")
        if raw and wanted:
            why = "may not specified at the same time as requirements"
            yield invalid_value(f"{field}.rawSelector", raw, why)
        if not raw and not wanted:
            why = f"when {field} is specified, requirements or rawSelector is required"
            yield required(f"{field}.requirements", why)


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
            "SelfSubjectReview": self._self_subject,
            "TokenReview": self._token_review,
            "SelfSubjectAccessReview": self._self_access,
            "SubjectAccessReview": self._subject_access,
            "LocalSubjectAccessReview": self._local_access,
            "SelfSubjectRulesReview": self._self_rules,
        }

    def is_review(self, kind: str) -> bool:
        return kind in self._answers

    def answer(self, call: Call) -> HttpResponse:
        if call.answer.shape not in ("", "PartialObjectMetadata"):
            raise not_acceptable(shape=True)
        options = write_options(call.request, "CreateOptions")
        sent = decoding.read_object(call.request, call.resource)
        review = field_validation.canonical(call, sent, options)
        body = self._without_status(call, review, options)
        status = self._answers[call.resource.kind](call, body)
        if call.resource.kind == "SelfSubjectRulesReview":
            body |= {"metadata": {}, "spec": {}}  # as in kube-apiserver
        return _response(call, body | {"status": status})

    def _without_status(self, call: Call, review: Object, options: WriteOptions) -> Object:
        """Return the response without its status."""
        resource = call.resource
        meta = {k: v for k, v in (review.get("metadata") or {}).items() if k not in _SYSTEM_FIELDS}
        meta.pop("managedFields", None)
        if resource.namespaced:
            changes.check_namespace(meta, call.route.namespace)
            meta["namespace"] = call.route.namespace
        else:
            meta.pop("namespace", None)
        body: Object = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
        if resource.kind == "SelfSubjectReview":
            return body | {"metadata": {"creationTimestamp": self._core.now_text()}}
        body["spec"] = review.get("spec") or {}
        manager = FieldManager(options.manager, self._core.now_text())
        meta["managedFields"] = manager.update(resource, None, body)
        return body

    def _self_subject(self, call: Call, _: Object) -> Object:
        return {"userInfo": user_info(call.user)}

    def _token_review(self, _: Call, review: Object) -> Object:
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
        """Return the error; for a valid token of other audiences it lists them."""
        found = self._tokens.audiences_of(token) if self._tokens else ()
        if not found or set(found) & set(audiences):
            return "invalid bearer token"
        shown = " ".join(f'"{name}"' for name in found)
        wanted = " ".join(f'"{name}"' for name in audiences)
        why = f"token audiences [{shown}] is invalid for the target audiences [{wanted}]"
        return f"[invalid bearer token, {why}]"

    def _self_access(self, call: Call, review: Object) -> Object:
        return self._access(call, call.user, review)

    def _subject_access(self, call: Call, review: Object, more: Sequence[Cause] = ()) -> Object:
        spec = review["spec"]
        user = User(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "")
        return self._access(call, user, review, more)

    def _local_access(self, call: Call, review: Object) -> Object:
        """LocalSubjectAccessReview: only attributes of the namespace in the path are valid."""
        if not call.route.namespace:
            raise no_such_resource()
        causes = []
        spec = review["spec"]
        attributes = spec.get("resourceAttributes")
        if attributes is not None and attributes.get("namespace") != call.route.namespace:
            value = attributes.get("namespace", "")
            why = "must match metadata.namespace"
            causes.append(invalid_value("spec.resourceAttributes.namespace", value, why))
        if spec.get("nonResourceAttributes") is not None:
            why = "disallowed on this kind of request"
            value = _internal_path(spec["nonResourceAttributes"])
            causes.append(invalid_value("spec.nonResourceAttributes", value, why))
        return self._subject_access(call, review, causes)

    def _access(self, call: Call, user: User, review: Object, more: Sequence[Cause] = ()) -> Object:
        spec = review["spec"]
        causes = list(_check_attributes(spec))
        if not user.name and not user.groups:
            why = "at least one of user or group must be specified"
            causes.append(invalid_value("spec.user", "", why))
        causes += [*_check_selectors(spec), *_check_metadata(call, review["metadata"]), *more]
        if causes:
            raise invalid("", call.resource.group, "", causes)
        resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        return {"allowed": self._authorizer.may(user, _attributes(resource or {}, path or {}))}

    def _self_rules(self, call: Call, review: Object) -> Object:
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


def _check_metadata(call: Call, meta: Object) -> Iterator[Cause]:
    """Reviews may have no metadata except managedFields and the namespace."""
    allowed = {"managedFields"} | ({"namespace"} if call.resource.namespaced else set())
    if any(meta[name] for name in meta.keys() - allowed):
        ordered = {name: meta[name] for name in _METADATA_ORDER if meta.get(name)}
        ordered["managedFields"] = [
            entry | {"fieldsV1": json.loads(compact_json(entry["fieldsV1"]))}
            for entry in meta["managedFields"]
        ]
        text = json.dumps(ordered, ensure_ascii=False, separators=(",", ":"))
        why = "must be empty except for namespace" if call.resource.namespaced else "must be empty"
        yield Cause("FieldValueInvalid", f"Invalid value: {text}: {why}", "metadata")


def _response(call: Call, body: Object) -> HttpResponse:
    if call.answer.shape:
        kind = {"kind": call.answer.shape, "apiVersion": f"meta.k8s.io/{call.answer.version}"}
        return json_response(201, kind | {"metadata": body["metadata"]}, call.headers())
    if call.answer.yaml:
        text = to_yaml(json.loads(json.dumps(body, sort_keys=True)))
        return HttpResponse(201, text.encode(), call.headers(), "application/yaml")
    return json_response(201, body, call.headers())


def _attributes(resource: Object, path: Object) -> Attributes:
    if path:
        return Attributes(path.get("verb") or "", path=path.get("path") or "")
    return Attributes(
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
