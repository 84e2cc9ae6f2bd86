"""What somebody with the role `edit` or `admin` in one namespace may try in order to get out of it.

X7, X8. Every way is refused, and every way is one: the cluster's admin gets another answer to the same
request, so that no case passes because its path is mistyped.
"""

from __future__ import annotations

from typing import Any

import pytest

from manta.localplane.apiserver.auth.authenticator import ADMIN
from support.tenants import ALICE, AMY, OTHER, OWN, RBAC, SYSTEM, Ask, a_pod, binding, named, person

AUTHN, AUTHZ = "/apis/authentication.k8s.io/v1", "/apis/authorization.k8s.io/v1"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/team-a/endpointslices"
GROUP = "rbac.authorization.k8s.io"
EVERYTHING = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
SECRETS = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
ROOT = {"resource": "secrets", "verb": "get", "namespace": "team-b"}


def a_slice(address: str = "10.1.0.9", **endpoint: Any) -> dict[str, Any]:
    return named("mine") | {
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address]} | endpoint],
        "ports": [{"name": "", "port": 80, "protocol": "TCP"}],
    }


def acting(**headers: str) -> dict[str, str]:
    return {f"impersonate-{name.replace('_', '-')}": value for name, value in headers.items()}


WHO = f"{AUTHN}/selfsubjectreviews"
ROBOT = acting(user="system:serviceaccount:team-a:robot")
APPLY = {"content-type": "application/apply-patch+yaml"}

FORBIDDEN = {
    # other namespaces, and all of them
    "read a Secret of another namespace": Ask("GET", f"{OTHER}/secrets/password"),
    "list Secrets of another namespace": Ask("GET", f"{OTHER}/secrets"),
    "list the Secrets of all namespaces": Ask("GET", "/api/v1/secrets"),
    "watch the Secrets of all namespaces": Ask("GET", "/api/v1/secrets?watch=true"),
    "watch by the old path": Ask("GET", "/api/v1/watch/namespaces/team-b/secrets"),
    "delete all Pods of another namespace": Ask("DELETE", f"{OTHER}/pods"),
    "make a Pod in another namespace": Ask("POST", f"{OTHER}/pods", a_pod("mine")),
    "apply a ConfigMap in another namespace": Ask(
        "PATCH",
        f"{OTHER}/configmaps/mine?fieldManager=me",
        named("mine") | {"apiVersion": "v1", "kind": "ConfigMap"},
        APPLY,
    ),
    "take the lease of a controller": Ask(
        "POST", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", named("l")
    ),
    # into running Pods of others
    "exec in another namespace": Ask("GET", f"{OTHER}/pods/web/exec?command=id&stdout=true"),
    "attach in another namespace": Ask("GET", f"{OTHER}/pods/web/attach?stdout=true"),
    "read logs of another namespace": Ask("GET", f"{OTHER}/pods/web/log"),
    "forward a port of another namespace": Ask("GET", f"{OTHER}/pods/web/portforward?ports=80"),
    "reach a Pod of another namespace": Ask("GET", f"{OTHER}/pods/web/proxy/"),
    "reach a Service of another namespace": Ask("GET", f"{OTHER}/services/web/proxy/"),
    "evict in another namespace": Ask("POST", f"{OTHER}/pods/web/eviction", named("web")),
    "add an ephemeral container": Ask("PATCH", f"{OWN}/pods/web/ephemeralcontainers", {}),
    "resize a Pod": Ask("PATCH", f"{OWN}/pods/web/resize", {}),
    # other identities
    "a token of another namespace": Ask("POST", f"{OTHER}/serviceaccounts/robot/token", {}),
    "a token of kube-system": Ask("POST", f"{SYSTEM}/serviceaccounts/root/token", {}),
    "impersonate a user": Ask("POST", WHO, {}, acting(user="admin")),
    "impersonate a group": Ask("POST", WHO, {}, acting(user="alice", group="system:masters")),
    "impersonate an own account in a strong group": Ask(
        "POST", WHO, {}, ROBOT | acting(group="system:masters")
    ),
    "impersonate an account of another namespace": Ask(
        "POST", WHO, {}, acting(user="system:serviceaccount:team-b:robot")
    ),
    "impersonate a uid": Ask("POST", WHO, {}, ROBOT | acting(uid="admin")),
    "impersonate extra information": Ask("POST", WHO, {}, ROBOT | acting(extra_scopes="all")),
    "ask whose a token is": Ask("POST", f"{AUTHN}/tokenreviews", {"spec": {"token": "x"}}),
    "ask what others may": Ask(
        "POST",
        f"{AUTHZ}/subjectaccessreviews",
        {"spec": {"user": "amy", "resourceAttributes": ROOT}},
    ),
    "ask what others may here": Ask(
        "POST", f"{AUTHZ}/namespaces/team-a/localsubjectaccessreviews", {"spec": {"user": "amy"}}
    ),
    # permissions
    "make a ClusterRole": Ask(
        "POST", f"{RBAC}/clusterroles", named("mine") | {"rules": [EVERYTHING]}
    ),
    "make a ClusterRole that aggregates": Ask(
        "POST",
        f"{RBAC}/clusterroles",
        named("mine") | {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {}}]}},
    ),
    "extend a default role": Ask(
        "PATCH", f"{RBAC}/clusterroles/system:aggregate-to-edit", {"rules": [EVERYTHING]}
    ),
    "make a ClusterRoleBinding": Ask(
        "POST", f"{RBAC}/clusterrolebindings", binding("mine", "cluster-admin", ALICE)
    ),
    "join a ClusterRoleBinding": Ask(
        "PATCH", f"{RBAC}/clusterrolebindings/cluster-admin", {"subjects": []}
    ),
    "make a Role": Ask("POST", f"{RBAC}/namespaces/team-a/roles", named("r") | {"rules": []}),
    "make a RoleBinding": Ask(
        "POST", f"{RBAC}/namespaces/team-a/rolebindings", binding("mine", "admin", ALICE)
    ),
    "approve a certificate": Ask(
        "POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", named("mine")
    ),
    # the cluster's network
    "write Endpoints": Ask("POST", f"{OWN}/endpoints", named("mine")),
    "write an EndpointSlice": Ask("POST", SLICES, a_slice()),
    "write a slice to the metadata service": Ask("POST", SLICES, a_slice("169.254.169.254")),
    "change an EndpointSlice": Ask("PATCH", f"{SLICES}/web", {"endpoints": []}),
    "give a Service an outer address": Ask(
        "PATCH",
        f"{OWN}/services/web/status",
        {"status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}},
    ),
    "give a Pod another address": Ask(
        "PATCH", f"{OWN}/pods/web/status", {"status": {"podIP": "127.0.0.1"}}
    ),
    # nodes and the cluster itself
    "read nodes": Ask("GET", "/api/v1/nodes"),
    "change a node": Ask("PATCH", "/api/v1/nodes/node-1", {"spec": {"unschedulable": True}}),
    "reach a node": Ask("GET", "/api/v1/nodes/node-1/proxy/"),
    "bind a Pod to a node": Ask(
        "POST", f"{OWN}/pods/web/binding", named("web") | {"target": {"name": "node-1"}}
    ),
    "make a namespace": Ask("POST", "/api/v1/namespaces", named("mine")),
    "lift the Pod security of the namespace": Ask(
        "PATCH",
        OWN,
        {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}},
    ),
    "finalize the namespace": Ask("PUT", f"{OWN}/finalize", named("team-a")),
    "delete the namespace": Ask("DELETE", OWN),
    "raise the quota": Ask("POST", f"{OWN}/resourcequotas", named("mine")),
    "drop the limits": Ask("DELETE", f"{OWN}/limitranges"),
    "make a volume of the host": Ask("POST", "/api/v1/persistentvolumes", named("mine")),
    "make a storage class": Ask("POST", "/apis/storage.k8s.io/v1/storageclasses", named("mine")),
    "make a priority": Ask("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", named("mine")),
    "define a kind": Ask(
        "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", named("mine")
    ),
    "intercept admission": Ask(
        "POST",
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
        named("mine"),
    ),
    "read the metrics": Ask("GET", "/metrics"),
}


@pytest.mark.parametrize("way", FORBIDDEN)
async def test_edit_does_not_lead_out(tenants, way) -> None:
    """X7, X8."""
    answer = await tenants.ask(FORBIDDEN[way], ALICE)
    assert answer.status == 403, answer


@pytest.mark.parametrize("way", FORBIDDEN)
async def test_the_way_exists_for_the_cluster_admin(tenants, way) -> None:
    assert (await tenants.ask(FORBIDDEN[way], ADMIN)).status != 403


UNACCEPTABLE = {
    "a Pod for another namespace": (
        Ask(
            "POST",
            f"{OWN}/pods",
            {**a_pod("mine"), "metadata": {"name": "p", "namespace": "team-b"}},
        ),
        400,
    ),
    "a path with dots": (Ask("GET", "/api/v1/namespaces/team-a/../team-b/secrets/password"), 403),
    "an encoded slash in a name": (Ask("GET", f"{OWN}/secrets/..%2F..%2Fteam-b"), 403),
    "a Service on the loopback": (
        Ask("PATCH", f"{OWN}/services/web", {"spec": {"externalIPs": ["127.0.0.1"]}}),
        422,
    ),
    "a Service on the metadata service": (
        Ask("PATCH", f"{OWN}/services/web", {"spec": {"externalIPs": ["169.254.169.254"]}}),
        422,
    ),
    "a Pod that says its own address": (
        Ask("PATCH", f"{OWN}/pods/web", {"spec": {"nodeName": "node-1"}}),
        422,
    ),
    "another account for a running Pod": (
        Ask("PATCH", f"{OWN}/pods/web", {"spec": {"serviceAccountName": "robot"}}),
        422,
    ),
    "a token bound to a Pod of another namespace": (
        Ask(
            "POST",
            f"{OWN}/serviceaccounts/robot/token",
            {"spec": {"boundObjectRef": {"kind": "Pod", "name": "only-in-team-b"}}},
        ),
        404,
    ),
}


@pytest.mark.parametrize("way", UNACCEPTABLE)
async def test_edit_is_refused_what_is_invalid(tenants, way) -> None:
    """X7."""
    ask, status = UNACCEPTABLE[way]
    answer = await tenants.ask(ask, ALICE)
    assert answer.status == status, answer


ORDINARY = {
    "read": Ask("GET", f"{OWN}/secrets/password"),
    "make a Pod": Ask("POST", f"{OWN}/pods", a_pod("mine", serviceAccountName="robot")),
    "make a Service": Ask(
        "POST", f"{OWN}/services", named("s") | {"spec": {"ports": [{"port": 1}]}}
    ),
    "take a token": Ask("POST", f"{OWN}/serviceaccounts/robot/token", {}),
    "act as an own account": Ask("POST", WHO, {}, ROBOT),
    "read slices": Ask("GET", SLICES),
}


@pytest.mark.parametrize("task", ORDINARY)
async def test_edit_still_works_in_its_namespace(tenants, task) -> None:
    assert (await tenants.ask(ORDINARY[task], ALICE)).status in (200, 201)


# ── admin of a namespace ─────────────────────────────────────────────────────────────────
ROLES, BINDINGS = f"{RBAC}/namespaces/team-a/roles", f"{RBAC}/namespaces/team-a/rolebindings"
PRIVILEGED = {
    "a Role with everything": Ask("POST", ROLES, named("r") | {"rules": [EVERYTHING]}),
    "a Role to impersonate": Ask(
        "POST",
        ROLES,
        named("r")
        | {"rules": [{"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}]},
    ),
    "a Role to escalate": Ask(
        "POST",
        ROLES,
        named("r")
        | {"rules": [{"apiGroups": [GROUP], "resources": ["roles"], "verbs": ["escalate"]}]},
    ),
    "a Role to bind": Ask(
        "POST",
        ROLES,
        named("r")
        | {"rules": [{"apiGroups": [GROUP], "resources": ["clusterroles"], "verbs": ["bind"]}]},
    ),
    "a Role to write EndpointSlices": Ask(
        "POST",
        ROLES,
        named("r")
        | {
            "rules": [
                {
                    "apiGroups": ["discovery.k8s.io"],
                    "resources": ["endpointslices"],
                    "verbs": ["create"],
                }
            ]
        },
    ),
    "a binding to cluster-admin": Ask("POST", BINDINGS, binding("b", "cluster-admin", AMY)),
    "a binding to a strong Role": Ask("POST", BINDINGS, binding("b", "strong", AMY, "Role")),
    "a further subject of a strong binding": Ask(
        "PATCH", f"{BINDINGS}/strong", {"subjects": binding("b", "x", AMY)["subjects"]}
    ),
    "a label on a strong binding": Ask(
        "PATCH", f"{BINDINGS}/strong", {"metadata": {"labels": {"a": "b"}}}
    ),
    "a rule for a strong Role": Ask("PATCH", f"{ROLES}/strong", {"rules": [EVERYTHING, SECRETS]}),
    "a binding in another namespace": Ask(
        "POST", f"{RBAC}/namespaces/team-b/rolebindings", binding("b", "view", AMY)
    ),
}


@pytest.mark.parametrize("way", PRIVILEGED)
async def test_admin_of_a_namespace_cannot_give_more_than_it_has(tenants, way) -> None:
    """X8."""
    await tenants.create(ROLES, named("strong") | {"rules": [EVERYTHING]})
    await tenants.create(BINDINGS, binding("strong", "strong", person("ops"), "Role"))
    answer = await tenants.ask(PRIVILEGED[way], AMY)
    assert answer.status == 403, answer
    assert (await tenants.ask(PRIVILEGED[way], ADMIN)).status in (200, 201)


async def test_the_role_of_a_binding_is_for_life(tenants) -> None:
    await tenants.create(BINDINGS, binding("mine", "view", AMY), AMY)
    changed = {"roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "edit"}}
    assert (await tenants.ask(Ask("PATCH", f"{BINDINGS}/mine", changed), AMY)).status == 422


async def test_admin_may_still_give_what_it_has(tenants) -> None:
    await tenants.create(ROLES, named("reader") | {"rules": [SECRETS]}, AMY)
    await tenants.create(BINDINGS, binding("reader", "reader", person("bob"), "Role"), AMY)
    assert (await tenants.ask(Ask("GET", f"{OWN}/secrets/password"), person("bob"))).status == 200


# ── somebody who may write ClusterRoles, and nothing else ────────────────────────────────
CLARA = person("clara")
CLUSTER_ROLES = f"{RBAC}/clusterroles"
AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-edit"
ANY_ROLE = {
    "clusterRoleSelectors": [{"matchLabels": {"kubernetes.io/bootstrapping": "rbac-defaults"}}]
}


@pytest.fixture
async def role_writer(tenants):
    rule = {
        "apiGroups": [GROUP],
        "resources": ["clusterroles", "clusterrolebindings"],
        "verbs": ["*"],
    }
    rule["verbs"] = ["create", "get", "list", "patch", "update", "delete"]
    await tenants.create(CLUSTER_ROLES, named("role-writer") | {"rules": [rule]})
    await tenants.create(
        f"{RBAC}/clusterrolebindings", binding("role-writer", "role-writer", CLARA)
    )
    await tenants.create(CLUSTER_ROLES, named("hers") | {"rules": []}, CLARA)
    return tenants


CLUSTER_WIDE = {
    "an aggregating ClusterRole": Ask(
        "POST", CLUSTER_ROLES, named("x") | {"aggregationRule": ANY_ROLE}
    ),
    "aggregation for an own ClusterRole": Ask(
        "PATCH", f"{CLUSTER_ROLES}/hers", {"aggregationRule": ANY_ROLE}
    ),
    "less aggregation for `admin`": Ask(
        "PATCH", f"{CLUSTER_ROLES}/admin", {"aggregationRule": None}
    ),
    "cluster-admin as a part of `edit`": Ask(
        "PATCH", f"{CLUSTER_ROLES}/cluster-admin", {"metadata": {"labels": {AGGREGATE: "true"}}}
    ),
    "more for everybody with `edit`": Ask(
        "POST",
        CLUSTER_ROLES,
        {"metadata": {"name": "x", "labels": {AGGREGATE: "true"}}, "rules": [EVERYTHING]},
    ),
    "a binding to cluster-admin": Ask(
        "POST", f"{RBAC}/clusterrolebindings", binding("x", "cluster-admin", CLARA)
    ),
    "a binding to an aggregating role": Ask(
        "POST", f"{RBAC}/clusterrolebindings", binding("x", "admin", CLARA)
    ),
    "one more cluster-admin": Ask(
        "PATCH",
        f"{RBAC}/clusterrolebindings/cluster-admin",
        {"subjects": binding("x", "x", CLARA)["subjects"]},
    ),
}


@pytest.mark.parametrize("way", CLUSTER_WIDE)
async def test_who_writes_cluster_roles_cannot_rise(role_writer, way) -> None:
    """X8."""
    answer = await role_writer.ask(CLUSTER_WIDE[way], CLARA)
    assert answer.status == 403, answer
    assert (await role_writer.ask(Ask("GET", "/api/v1/secrets"), CLARA)).status == 403


async def test_a_cluster_role_with_all_rights_may_aggregate(tenants) -> None:
    """X8: `*` is enough, as in Kubernetes; system:masters is not needed."""
    await tenants.create(
        f"{RBAC}/clusterrolebindings", binding("ops", "cluster-admin", person("ops"))
    )
    body = named("x") | {"aggregationRule": ANY_ROLE}
    await tenants.create(CLUSTER_ROLES, body, person("ops"))


async def test_escalate_lets_aggregate(role_writer) -> None:
    """X8: `escalate` is enough, as in Kubernetes."""
    rule = {"apiGroups": [GROUP], "resources": ["clusterroles"], "verbs": ["escalate"]}
    await role_writer.create(CLUSTER_ROLES, named("escalate") | {"rules": [rule]})
    await role_writer.create(f"{RBAC}/clusterrolebindings", binding("escalate", "escalate", CLARA))
    await role_writer.create(CLUSTER_ROLES, named("x") | {"aggregationRule": ANY_ROLE}, CLARA)


# ── a few bytes that stand for millions of permissions ───────────────────────────────────
@pytest.mark.timeout(30)
@pytest.mark.parametrize("held", [False, True], ids=["not held", "held"])
async def test_a_role_whose_rules_multiply_is_refused_at_once(tenants, held) -> None:
    """Found after X8: 853 bytes took 0.6 s and were answered with 3.5 MB, 20 KB ended the server."""
    many = [f"x{number}" for number in range(1000)]
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": many}
    if held:
        rule |= {"apiGroups": [""] * 1000, "resources": ["pods"] * 1000}
    else:
        rule |= {"apiGroups": many, "resources": many, "verbs": many}
    role = named("many") | {"rules": [rule]}
    answer = await tenants.ask(Ask("POST", f"{RBAC}/namespaces/team-a/roles", role), AMY)
    assert answer.status == 403
    assert "at most 20000 are compared" in answer.message


async def test_a_refusal_names_a_hundred_permissions_at_most(tenants) -> None:
    many = [f"x{number}" for number in range(25)]
    role = named("many") | {"rules": [{"apiGroups": many, "resources": many, "verbs": many}]}
    answer = await tenants.ask(Ask("POST", f"{RBAC}/namespaces/team-a/roles", role), AMY)
    assert answer.status == 403
    assert answer.message.count("APIGroups") == 100
