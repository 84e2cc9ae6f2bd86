"""Who may do what on every subresource that the API server has, the proxied and streamed ones included.

The rows are Kubernetes' own defaults, written down once. The list of subresources comes from the server's
registry: a new one without a row fails, and so does a row of one that is gone.
"""

from __future__ import annotations

import pytest

from manta.httpserver.messages import HttpRequest, User
from manta.localplane.apiserver.auth.authenticator import ADMIN
from manta.localplane.apiserver.registry import Registry
from support.tenants import ALICE, AMY, VICTOR, Ask, named

READ = frozenset(("get",))
NONE: frozenset[str] = frozenset()
CONNECT = frozenset(("get", "create"))
ALL = frozenset(("get", "create", "update", "patch", "delete"))
CHANGE = frozenset(("get", "update", "patch"))
CREATE = frozenset(("create",))

# Per subresource: the verbs of `view`, and those of `edit`. `admin` has the same as `edit` here.
RIGHTS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "namespaces/finalize": (NONE, NONE),
    "namespaces/status": (READ, READ),
    "nodes/proxy": (NONE, NONE),
    "nodes/status": (NONE, NONE),
    "persistentvolumeclaims/status": (READ, READ),
    "persistentvolumes/status": (NONE, NONE),
    "pods/attach": (NONE, CONNECT),
    "pods/binding": (NONE, NONE),
    "pods/ephemeralcontainers": (NONE, NONE),
    "pods/eviction": (NONE, CREATE),
    "pods/exec": (NONE, CONNECT),
    "pods/log": (READ, READ),
    "pods/portforward": (NONE, CONNECT),
    "pods/proxy": (NONE, ALL),
    "pods/resize": (NONE, NONE),
    "pods/status": (READ, READ),
    "replicationcontrollers/scale": (READ, CHANGE),
    "replicationcontrollers/status": (READ, READ),
    "resourcequotas/status": (READ, READ),
    "serviceaccounts/token": (NONE, CREATE),
    "services/proxy": (NONE, ALL),
    "services/status": (READ, READ),
    "apps/daemonsets/status": (READ, READ),
    "apps/deployments/scale": (READ, CHANGE),
    "apps/deployments/status": (READ, READ),
    "apps/replicasets/scale": (READ, CHANGE),
    "apps/replicasets/status": (READ, READ),
    "apps/statefulsets/scale": (READ, CHANGE),
    "apps/statefulsets/status": (READ, READ),
    "batch/cronjobs/status": (READ, READ),
    "batch/jobs/status": (READ, READ),
    "autoscaling/horizontalpodautoscalers/status": (READ, READ),
    "networking.k8s.io/ingresses/status": (READ, READ),
    "policy/poddisruptionbudgets/status": (READ, READ),
    "apiextensions.k8s.io/customresourcedefinitions/status": (NONE, NONE),
    "admissionregistration.k8s.io/validatingadmissionpolicies/status": (NONE, NONE),
    "flowcontrol.apiserver.k8s.io/flowschemas/status": (NONE, NONE),
    "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations/status": (NONE, NONE),
    "apiregistration.k8s.io/apiservices/status": (NONE, NONE),
    "certificates.k8s.io/certificatesigningrequests/approval": (NONE, NONE),
    "certificates.k8s.io/certificatesigningrequests/status": (NONE, NONE),
}
NOT_SERVED_YET = {
    name
    for name in RIGHTS
    if name.partition("/")[0]
    in (
        "admissionregistration.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "apiregistration.k8s.io",
        "certificates.k8s.io",
    )
}
"""Rows that wait for their kind: nobody of a namespace may have them from the first day on."""

METHODS = {"get": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}


def served_subresources():
    return {
        "/".join(filter(None, (one.group, one.plural, sub.name))): (one, sub)
        for one in Registry().all()
        for sub in one.subresources
    }


SERVED = served_subresources()


def path_of(name: str) -> str:
    one, sub = SERVED[name]
    base = f"/apis/{one.group}/{one.version}" if one.group else "/api/v1"
    if one.plural == "namespaces":
        return f"{base}/namespaces/team-a/{sub.name}"
    where = "/namespaces/team-a" if one.namespaced else ""
    tail = "/" if sub.name == "proxy" else ""
    return f"{base}{where}/{one.plural}/web/{sub.name}{tail}"


def test_every_subresource_has_its_row() -> None:
    assert set(SERVED) - set(RIGHTS) == set(), "say here who may use them"
    assert set(RIGHTS) - set(SERVED) <= NOT_SERVED_YET, "rows of subresources that are gone"


@pytest.mark.parametrize("name", sorted(set(SERVED) & set(RIGHTS)))
async def test_a_subresource_is_open_to_whom_its_row_says(tenants, name) -> None:
    """X7, X8."""
    view, edit = RIGHTS[name]
    _, sub = SERVED[name]
    for verb in sub.verbs:
        ask = Ask(METHODS[verb], path_of(name), None if verb == "get" else {})
        for user, verbs in ((VICTOR, view), (ALICE, edit), (AMY, edit), (ADMIN, ALL)):
            answer = await tenants.ask(ask, user)
            assert (answer.status != 403) == (verb in verbs), (user.name, verb, answer)


STREAMED = [name for name in SERVED if name.rpartition("/")[2] in ("exec", "attach", "portforward")]


class NoPipe:
    """A connection to which nothing may be written: a refusal comes before the upgrade."""

    def write(self, data: bytes) -> None:
        raise AssertionError(f"the server upgraded the connection: {data!r}")


@pytest.mark.parametrize("name", [*STREAMED, "pods/proxy", "services/proxy"])
async def test_an_upgrade_is_authorized_like_a_request(tenants, name) -> None:
    headers = {"connection": "Upgrade", "upgrade": "SPDY/3.1"}
    refused = HttpRequest("POST", path_of(name), headers=headers, user=VICTOR)
    answer = await tenants.app.upgrade(refused, NoPipe())
    assert answer is not None
    assert answer.status == 403
    as_admin = headers | {"impersonate-user": "admin", "impersonate-group": "system:masters"}
    escalated = HttpRequest("POST", path_of(name), headers=as_admin, user=ALICE)
    answer = await tenants.app.upgrade(escalated, NoPipe())
    assert answer is not None
    assert answer.status == 403


@pytest.mark.parametrize("sub", ["status", "scale"])
async def test_a_custom_subresource_is_closed_until_a_role_opens_it(tenants, sub) -> None:
    subresources = {
        "status": {},
        "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"},
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        },
        "subresources": subresources,
    }
    crd = named("widgets.example.com") | {
        "spec": {
            "group": "example.com",
            "names": {"plural": "widgets", "kind": "Widget"},
            "scope": "Namespaced",
            "versions": [version],
        }
    }
    await tenants.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    ask = Ask("GET", f"/apis/example.com/v1/namespaces/team-a/widgets/w/{sub}")
    user: User
    for user in (VICTOR, ALICE, AMY):
        assert (await tenants.ask(ask, user)).status == 403
    assert (await tenants.ask(ask)).status == 404
