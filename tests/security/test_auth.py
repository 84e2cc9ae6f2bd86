"""Authentication and authorization: default roles, tokens, reviews, addresses that tenants choose."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, Never

import msgspec
import pytest

from manta.api.addresses import special_address
from manta.api.discovery import EndpointSlice
from manta.localplane.apiserver.auth.roles import cluster_roles
from manta.localplane.apiserver.bootstrap import bootstrap
from manta.localplane.node.services.proxy import endpoints
from support.tenants import ALICE, AMY, OTHER, OWN, RBAC, VICTOR, Ask, a_pod, app_of, named, person

READ = ("get", "list", "watch")
WRITE = ("create", "delete", "deletecollection", "patch", "update")
CREATE = ("create",)

# ── default roles ────────────────────────────────────────────────────────────────────────
# Facts about Kubernetes 1.35: what the parts of view, edit and admin hold of the kinds served here.
# A kind of a group that is not served here has no row.
VIEW_READS = {
    "": """bindings configmaps endpoints events limitranges namespaces namespaces/status
        persistentvolumeclaims persistentvolumeclaims/status pods pods/log pods/status
        replicationcontrollers replicationcontrollers/scale replicationcontrollers/status
        resourcequotas resourcequotas/status serviceaccounts services services/status""",
    "apps": """controllerrevisions daemonsets daemonsets/status deployments deployments/scale
        deployments/status replicasets replicasets/scale replicasets/status statefulsets
        statefulsets/scale statefulsets/status""",
    "autoscaling": "horizontalpodautoscalers horizontalpodautoscalers/status",
    "batch": "cronjobs cronjobs/status jobs jobs/status",
    "discovery.k8s.io": "endpointslices",
    "events.k8s.io": "events",
    "networking.k8s.io": "ingresses ingresses/status networkpolicies",
    "policy": "poddisruptionbudgets poddisruptionbudgets/status",
}
EDIT_READS = {
    "": "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy",
    "coordination.k8s.io": "leases",
}
EDIT_WRITES = {
    "": """configmaps events persistentvolumeclaims pods pods/attach pods/exec pods/portforward
        pods/proxy replicationcontrollers replicationcontrollers/scale secrets serviceaccounts
        services services/proxy""",
    "apps": """daemonsets deployments deployments/scale replicasets replicasets/scale statefulsets
        statefulsets/scale""",
    "autoscaling": "horizontalpodautoscalers",
    "batch": "cronjobs jobs",
    "coordination.k8s.io": "leases",
    "events.k8s.io": "events",
    "networking.k8s.io": "ingresses networkpolicies",
    "policy": "poddisruptionbudgets",
}
AUTHN, AUTHZ = "authentication.k8s.io", "authorization.k8s.io"
Permissions = set[tuple[str, str, str]]


def facts(table: dict[str, str], verbs: tuple[str, ...]) -> Permissions:
    return {
        (group, name, verb)
        for group, names in table.items()
        for name in names.split()
        for verb in verbs
    }


def paths(*names: str) -> Permissions:
    return {("path", name, "get") for name in names}


PUBLIC = ("/healthz", "/livez", "/readyz", "/version", "/version/")
DISCOVERY = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*")
KEYS = ("/.well-known/openid-configuration", "/openid/v1/jwks")
UPSTREAM: dict[str, Permissions] = {
    "cluster-admin": {("*", "*", "*"), ("path", "*", "*")},
    "system:aggregate-to-view": facts(VIEW_READS, READ),
    "system:aggregate-to-edit": facts(EDIT_READS, READ)
    | facts(EDIT_WRITES, WRITE)
    | facts({"": "pods/eviction serviceaccounts/token"}, CREATE)
    | facts({"": "serviceaccounts"}, ("impersonate",)),
    "system:aggregate-to-admin": facts({AUTHZ: "localsubjectaccessreviews"}, CREATE)
    | facts({"rbac.authorization.k8s.io": "roles rolebindings"}, READ + WRITE),
    "system:discovery": paths(*PUBLIC, *DISCOVERY),
    "system:public-info-viewer": paths(*PUBLIC),
    "system:basic-user": facts(
        {AUTHZ: "selfsubjectaccessreviews selfsubjectrulesreviews", AUTHN: "selfsubjectreviews"},
        CREATE,
    ),
    "system:auth-delegator": facts({AUTHN: "tokenreviews", AUTHZ: "subjectaccessreviews"}, CREATE),
    "system:service-account-issuer-discovery": paths(*KEYS, *(f"{key}/" for key in KEYS)),
}
UPSTREAM["view"] = UPSTREAM["system:aggregate-to-view"]
UPSTREAM["edit"] = UPSTREAM["view"] | UPSTREAM["system:aggregate-to-edit"]
UPSTREAM["admin"] = UPSTREAM["edit"] | UPSTREAM["system:aggregate-to-admin"]


def permissions(role: dict[str, Any]) -> Permissions:
    return {
        (group, name, verb)
        for rule in role["rules"]
        for group in rule.get("apiGroups") or ["path"]
        for name in rule.get("resources") or rule["nonResourceURLs"]
        for verb in rule["verbs"]
    }


DEFAULTS = {role["metadata"]["name"]: role for role in cluster_roles()}


def test_the_default_roles_are_those_of_the_table() -> None:
    assert set(DEFAULTS) == set(UPSTREAM)


@pytest.mark.parametrize("name", UPSTREAM)
def test_a_default_role_gives_what_kubernetes_gives(name) -> None:
    """X7."""
    assert permissions(DEFAULTS[name]) == UPSTREAM[name]


AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"


@pytest.mark.parametrize(("name", "part_of"), [("view", "edit"), ("edit", "admin"), ("admin", "")])
def test_a_personal_role_aggregates_by_its_own_label(name, part_of) -> None:
    role = DEFAULTS[name]
    chosen = [{"matchLabels": {f"{AGGREGATE}{name}": "true"}}]
    assert role["aggregationRule"] == {"clusterRoleSelectors": chosen}
    labels = {key for key in role["metadata"]["labels"] if key.startswith(AGGREGATE)}
    assert labels == ({f"{AGGREGATE}{part_of}"} if part_of else set())


async def test_what_a_chart_adds_to_view_reaches_edit_and_admin(tenants) -> None:
    rule = {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]}
    labelled = {"metadata": {"name": "chart", "labels": {f"{AGGREGATE}view": "true"}}}
    await tenants.create(f"{RBAC}/clusterroles", labelled | {"rules": [rule]})
    path = "/apis/example.com/v1/namespaces/team-a/widgets/w"
    for user in (VICTOR, ALICE, AMY):
        assert (await tenants.ask(Ask("GET", path), user)).status == 404


async def test_roles_that_aggregate_each_other_end(tenants) -> None:
    for name, other in (("one", "two"), ("two", "one")):
        body = {"metadata": {"name": name, "labels": {"part": name}}}
        chosen = {"clusterRoleSelectors": [{"matchLabels": {"part": other}}]}
        await tenants.create(f"{RBAC}/clusterroles", body | {"aggregationRule": chosen})
    await tenants.bind("loop", "one", person("lou"))
    assert (await tenants.ask(Ask("GET", f"{OWN}/pods"), person("lou"))).status == 403


# ── default roles of an older store ──────────────────────────────────────────────────────
ENDPOINTS = {"apiGroups": [""], "resources": ["pods", "endpoints"], "verbs": ["create", "delete"]}
SLICES = {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["patch"]}
OWN_RULE = {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]}


def older(app, name: str, *rules: dict[str, Any], **annotations: str) -> None:
    """Put a default role back into the state in which an earlier version left it."""
    resource = "clusterroles.rbac.authorization.k8s.io"
    body = app.store.get(resource, name).decode()
    body["rules"] = [*body["rules"], *rules]
    body["metadata"]["annotations"] |= annotations
    app.store.put(resource, name, body)


def stored(app, name: str) -> Permissions:
    return permissions(app.store.get("clusterroles.rbac.authorization.k8s.io", name).decode())


def test_a_default_role_of_an_older_store_loses_what_it_should_not_have(tmp_path) -> None:
    """X7: `edit` of stores that earlier versions have made."""
    app = app_of(tmp_path)
    older(app, "system:aggregate-to-edit", ENDPOINTS, SLICES, OWN_RULE)
    older(app, "edit", ENDPOINTS, SLICES)
    bootstrap(app)
    assert stored(app, "edit") == UPSTREAM["edit"]
    added = {("example.com", "widgets", "get")}
    assert stored(app, "system:aggregate-to-edit") == UPSTREAM["system:aggregate-to-edit"] | added


def test_a_default_role_that_is_not_to_be_updated_stays(tmp_path) -> None:
    app = app_of(tmp_path)
    annotation = {"rbac.authorization.kubernetes.io/autoupdate": "false"}
    older(app, "system:aggregate-to-edit", SLICES, **annotation)
    bootstrap(app)
    assert ("discovery.k8s.io", "endpointslices", "patch") in stored(
        app, "system:aggregate-to-edit"
    )


def test_a_start_without_a_change_writes_no_role(tmp_path) -> None:
    app = app_of(tmp_path)
    revision = app.store.revision
    bootstrap(app)
    assert app.store.revision == revision


# ── addresses that a tenant could choose ─────────────────────────────────────────────────
SPECIAL = ["127.0.0.1", "127.9.9.9", "169.254.169.254", "0.0.0.0", "224.0.0.1"]
SPECIAL_6 = ["::1", "fe80::1", "::", "ff02::1"]
ORDINARY = ["10.1.2.3", "192.168.0.9", "8.8.8.8", "172.16.0.1"]
SLICE_PATH = "/apis/discovery.k8s.io/v1/namespaces/team-a/endpointslices"


def a_slice(*addresses: str, kind: str = "IPv4", **endpoint: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "mine", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": kind,
        "endpoints": [{"addresses": list(addresses)} | endpoint],
        "ports": [{"name": "", "port": 80, "protocol": "TCP"}],
    }


@pytest.mark.parametrize("address", [*SPECIAL, *SPECIAL_6])
async def test_an_endpoint_slice_holds_no_special_address(tenants, address) -> None:
    """X7."""
    kind = "IPv6" if ":" in address else "IPv4"
    answer = await tenants.ask(Ask("POST", SLICE_PATH, a_slice(address, kind=kind)))
    assert answer.status == 422
    assert "endpoints[0].addresses[0]" in answer.message
    assert "may not be" in answer.message


@pytest.mark.parametrize("part", ["addresses", "notReadyAddresses"])
@pytest.mark.parametrize("address", SPECIAL)
async def test_endpoints_hold_no_special_address(tenants, address, part) -> None:
    """X7."""
    body = named("web") | {"subsets": [{part: [{"ip": address}], "ports": [{"port": 80}]}]}
    answer = await tenants.ask(Ask("POST", f"{OWN}/endpoints", body))
    assert answer.status == 422
    assert f"subsets[0].{part}[0].ip" in answer.message


@pytest.mark.parametrize("address", ORDINARY)
async def test_ordinary_addresses_are_accepted(tenants, address) -> None:
    await tenants.create(SLICE_PATH, a_slice(address))
    assert special_address(address) == ""


@pytest.mark.parametrize("address", ["::ffff:127.0.0.1", "localhost", "127.1", ""])
def test_other_spellings_are_no_way_around(address) -> None:
    """X7."""
    assert special_address(address)


async def test_a_slice_may_name_a_pod_that_lives_on_the_loopback(tenants) -> None:
    """With `--isolation none` Pods have such addresses: their status says so, and nodes write it."""
    await tenants.create(f"{OWN}/pods", a_pod("here"))
    status = {"status": {"podIP": "127.31.0.2", "podIPs": [{"ip": "127.31.0.2"}]}}
    assert (await tenants.ask(Ask("PATCH", f"{OWN}/pods/here/status", status))).status == 200
    target = {"kind": "Pod", "namespace": "team-a", "name": "here"}
    wrong = a_slice("127.0.0.1", targetRef=target)
    assert (await tenants.ask(Ask("POST", SLICE_PATH, wrong))).status == 422
    await tenants.create(SLICE_PATH, a_slice("127.31.0.2", targetRef=target))


async def test_a_slice_may_not_name_a_pod_of_another_namespace_for_that(tenants) -> None:
    """X7."""
    status = {"status": {"podIP": "127.31.0.2", "podIPs": [{"ip": "127.31.0.2"}]}}
    assert (await tenants.ask(Ask("PATCH", f"{OTHER}/pods/web/status", status))).status == 200
    target = {"kind": "Pod", "namespace": "team-b", "name": "web"}
    answer = await tenants.ask(Ask("POST", SLICE_PATH, a_slice("127.31.0.2", targetRef=target)))
    assert answer.status == 422


class Dialled:
    """Stands in for the node: notes to which Pods the server connects."""

    def __init__(self) -> None:
        self.pods: list[tuple[str, str, int]] = []

    async def dial(self, namespace: str, pod: str, port: int) -> Never:
        self.pods.append((namespace, pod, port))
        raise ConnectionRefusedError("noted")


@pytest.mark.parametrize("namespace", ["team-b", "kube-system"])
async def test_the_service_proxy_does_not_leave_the_namespace(tenants, namespace) -> None:
    """X7."""
    tenants.app.connector = dialled = Dialled()
    target = {"kind": "Pod", "namespace": namespace, "name": "web"}
    await tenants.create(SLICE_PATH, a_slice("10.1.2.3", targetRef=target))
    answer = await tenants.ask(Ask("GET", f"{OWN}/services/web/proxy/"))
    assert (answer.status, dialled.pods) == (503, [])


async def test_the_service_proxy_reaches_the_pods_of_its_namespace(tenants) -> None:
    tenants.app.connector = dialled = Dialled()
    await tenants.create(SLICE_PATH, a_slice("10.1.2.3", targetRef={"kind": "Pod", "name": "web"}))
    await tenants.ask(Ask("GET", f"{OWN}/services/web/proxy/"))
    assert dialled.pods == [("team-a", "web", 80)]


@pytest.mark.parametrize("kind", ["external name", "no target"])
async def test_the_service_proxy_dials_pods_only(tenants, kind) -> None:
    """X7: neither an ExternalName nor an address alone is an end of the proxy."""
    tenants.app.connector = dialled = Dialled()
    if kind == "external name":
        spec = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": 80}]}
        await tenants.create(f"{OWN}/services", named("out") | {"spec": spec})
    else:
        await tenants.create(SLICE_PATH, a_slice("10.96.0.1"))
    name = "out" if kind == "external name" else "web"
    answer = await tenants.ask(Ask("GET", f"{OWN}/services/{name}/proxy/"))
    assert (answer.status, dialled.pods) == (503, [])


def in_cluster(*addresses: str, kind: str = "IPv4", namespace: str = "team-a", **endpoint: Any):
    body = a_slice(*addresses, kind=kind, **endpoint)
    body["metadata"]["namespace"] = namespace
    return msgspec.convert(body, EndpointSlice)


@pytest.mark.parametrize("address", [*SPECIAL, *SPECIAL_6, "239.1.1.1", "localhost"])
def test_a_service_address_leads_to_no_special_address(address) -> None:
    """X7: also from a slice that an older version has stored."""
    assert endpoints([in_cluster(address)], "") == ()


def test_a_service_address_leads_to_no_host_name() -> None:
    """X7: kube-proxy ignores slices of host names."""
    assert endpoints([in_cluster("localhost", kind="FQDN")], "") == ()


def test_a_service_address_leads_to_no_pod_of_another_namespace() -> None:
    """X7."""
    foreign = {"kind": "Pod", "namespace": "team-b", "name": "web"}
    assert endpoints([in_cluster("10.88.0.9", targetRef=foreign)], "") == ()
    own = foreign | {"namespace": "team-a"}
    assert endpoints([in_cluster("10.88.0.9", targetRef=own)], "") == (("10.88.0.9", 80),)


def test_pods_on_the_machines_network_are_reached_by_loopback_addresses() -> None:
    one = in_cluster("127.31.0.2")
    assert endpoints([one], "", shared=True) == (("127.31.0.2", 80),)
    assert endpoints([in_cluster("169.254.169.254")], "", shared=True) == ()


# ── tokens and reviews ───────────────────────────────────────────────────────────────────
OURS = "https://kubernetes.default.svc"
TOKEN = f"{OWN}/serviceaccounts/robot/token"


async def a_token(tenants, **spec: Any) -> str:
    return (await tenants.create(TOKEN, {"spec": spec}))["status"]["token"]


async def reviewed(tenants, token: str, *audiences: str) -> dict[str, Any]:
    spec = {"token": token} | ({"audiences": list(audiences)} if audiences else {})
    body = await tenants.create("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": spec})
    return body["status"]


@pytest.mark.parametrize(
    ("made_for", "asked", "shared"),
    [
        (["a"], ["a"], ["a"]),
        (["a", "b"], ["b", "c"], ["b"]),
        (["a", "b"], ["b", "a"], ["a", "b"]),
        ([OURS], [], [OURS]),
        ([], [], [OURS]),
    ],
)
async def test_a_token_review_answers_the_shared_audiences(
    tenants, made_for, asked, shared
) -> None:
    """X9."""
    status = await reviewed(tenants, await a_token(tenants, audiences=made_for), *asked)
    assert status["authenticated"] is True
    assert status["audiences"] == shared
    assert status["user"]["username"] == "system:serviceaccount:team-a:robot"


@pytest.mark.parametrize(
    ("made_for", "asked"), [(["a"], ["b"]), (["a"], []), ([OURS], ["a"]), ([], ["a"])]
)
async def test_a_token_for_others_is_no_token(tenants, made_for, asked) -> None:
    """X9."""
    status = await reviewed(tenants, await a_token(tenants, audiences=made_for), *asked)
    assert not status.get("authenticated")
    assert "username" not in status["user"]
    assert "is invalid for the target audiences" in status["error"]


async def test_the_admin_token_is_for_this_server_only(tenants) -> None:
    """X9."""
    assert (await reviewed(tenants, "admin-token"))["audiences"] == [OURS]
    assert not (await reviewed(tenants, "admin-token", "vault")).get("authenticated")


@pytest.mark.parametrize("audiences", [[1], "a", {"a": 1}, [["a"]]])
async def test_audiences_of_the_wrong_type_are_refused(tenants, audiences) -> None:
    """X19."""
    answer = await tenants.ask(Ask("POST", TOKEN, {"spec": {"audiences": audiences}}))
    assert answer.status == 400
    assert "audiences" in answer.message


@pytest.mark.parametrize("spec", [[], "x", {"boundObjectRef": "p"}, {"expirationSeconds": "1h"}])
async def test_a_token_request_of_the_wrong_shape_is_refused(tenants, spec) -> None:
    """X19."""
    assert (await tenants.ask(Ask("POST", TOKEN, {"spec": spec}))).status == 400


async def test_audiences_of_a_review_of_the_wrong_type_are_refused(tenants) -> None:
    """X19."""
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    ask = Ask("POST", path, {"spec": {"token": "x", "audiences": [1]}})
    assert (await tenants.ask(ask)).status == 400


async def test_a_token_ends_with_the_node_that_it_is_bound_to(tenants) -> None:
    """X19."""
    token = await a_token(tenants, boundObjectRef={"kind": "Node", "name": "node-1"})
    assert tenants.app.authenticator.by_token(token) is not None
    assert (await tenants.ask(Ask("DELETE", "/api/v1/nodes/node-1"))).status == 200
    assert tenants.app.authenticator.by_token(token) is None
    await tenants.create("/api/v1/nodes", named("node-1"))
    assert tenants.app.authenticator.by_token(token) is None


async def test_a_token_ends_a_minute_after_its_pod_should_have(tenants) -> None:
    """As in Kubernetes: a Pod that a finalizer keeps does not keep its token."""
    kept = {"metadata": {"name": "kept", "finalizers": ["example.com/wait"]}}
    await tenants.create(f"{OWN}/pods", a_pod("kept") | kept)
    token = await a_token(tenants, boundObjectRef={"kind": "Pod", "name": "kept"})
    delete = Ask("DELETE", f"{OWN}/pods/kept", {"gracePeriodSeconds": 0})
    assert (await tenants.ask(delete)).status == 200
    assert tenants.app.authenticator.by_token(token) is not None
    tenants.now += timedelta(seconds=61)
    assert tenants.app.authenticator.by_token(token) is None


LOCAL = "/apis/authorization.k8s.io/v1/namespaces/team-a/localsubjectaccessreviews"
EVERYWHERE = "/apis/authorization.k8s.io/v1/localsubjectaccessreviews"


@pytest.mark.parametrize(
    "asked",
    [
        {"resourceAttributes": {"verb": "get", "resource": "nodes"}},
        {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "team-b"}},
        {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": ""}},
        {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}},
    ],
)
async def test_a_local_review_is_about_its_namespace(tenants, asked) -> None:
    """X19: a namespace's admin asks nothing about the rest of the cluster."""
    answer = await tenants.ask(Ask("POST", LOCAL, {"spec": {"user": "alice"} | asked}), AMY)
    assert answer.status == 422, answer


async def test_a_local_review_needs_a_namespace(tenants) -> None:
    """X19."""
    spec = {"user": "alice", "resourceAttributes": {"verb": "get", "resource": "nodes"}}
    assert (await tenants.ask(Ask("POST", EVERYWHERE, {"spec": spec}))).status == 404


async def test_a_local_review_answers(tenants) -> None:
    attributes = {"verb": "get", "resource": "pods", "namespace": "team-a"}
    spec = {"user": "alice", "resourceAttributes": attributes}
    answer = await tenants.ask(Ask("POST", LOCAL, {"spec": spec}), AMY)
    assert (answer.status, json.dumps(answer.body["status"])) == (201, '{"allowed": true}')
