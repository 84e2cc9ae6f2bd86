"""Impersonation (`kubectl --as`), for users with the RBAC verb `impersonate`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from urllib.parse import unquote

from manta.httpserver.messages import HttpRequest, User
from manta.localplane.apiserver.auth.authenticator import AUTHENTICATED
from manta.localplane.apiserver.auth.authorizer import Authorizer
from manta.localplane.apiserver.auth.rules import Attributes
from manta.localplane.apiserver.status_errors import bad_request

_ACCOUNT = "system:serviceaccount:"
_EXTRA = "impersonate-extra-"


def impersonated(authorizer: Authorizer, request: HttpRequest) -> HttpRequest:
    """Return the request as the impersonated user, or as it is without impersonation headers.

    Raises StatusError if it is not allowed.
    """
    wanted = [name for name in request.headers if name.startswith("impersonate-")]
    if not wanted:
        return request
    name = request.headers.get("impersonate-user", "")
    groups = _list(request.headers.get("impersonate-group", ""))
    uid = request.headers.get("impersonate-uid", "")
    if not name:
        raise bad_request("requested to impersonate without a user name")
    extra = {
        unquote(header.removeprefix(_EXTRA)).lower(): _list(request.headers[header])
        for header in wanted
        if header.startswith(_EXTRA) and _list(request.headers[header])
    }
    for attributes in _impersonation_attributes(name, groups, uid, extra):
        authorizer.require(request.user, attributes)
    user = User(name, (*(groups or _service_account_groups(name)), AUTHENTICATED), uid, extra)
    return replace(request, user=user)


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _impersonation_attributes(
    name: str, groups: tuple[str, ...], uid: str, extra: Mapping[str, tuple[str, ...]]
) -> Iterator[Attributes]:
    if name.startswith(_ACCOUNT) and name.count(":") == 3:
        _, _, namespace, account = name.split(":")
        yield Attributes("impersonate", "", "serviceaccounts", "", account, namespace)
    else:
        yield Attributes("impersonate", "", "users", "", name)
    for group in groups:
        yield Attributes("impersonate", "", "groups", "", group)
    if uid:
        yield Attributes("impersonate", "authentication.k8s.io", "uids", "", uid)
    for key, values in extra.items():
        for value in values:
            yield Attributes("impersonate", "authentication.k8s.io", "userextras", key, value)


def _service_account_groups(name: str) -> tuple[str, ...]:
    if name.startswith(_ACCOUNT) and name.count(":") == 3:
        namespace = name.split(":")[2]
        return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return ()
