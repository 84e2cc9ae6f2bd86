"""RBAC on a server: bindings count, missing permissions show, nobody gives what they lack."""

from __future__ import annotations

import pytest

from manta.api.meta import Key
from manta.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    NAMESPACES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
)
from manta.httpserver.messages import User
from manta.kube.errors import Forbidden
from support.plane import memory_plane

BOB = User("bob", ("devs", "system:authenticated"))
GROUP = "rbac.authorization.k8s.io"


def rule(*verbs, resources=("configmaps",), groups=("",)):
    return {"apiGroups": list(groups), "resources": list(resources), "verbs": list(verbs)}


def role(name, *rules):
    return {"metadata": {"name": name}, "rules": list(rules)}


def binding(name, role_name, subject, kind="Role"):
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role_name},
        "subjects": [{"apiGroup": GROUP, **subject}],
    }


USER = {"kind": "User", "name": "bob"}


@pytest.fixture
async def plane():
    async with memory_plane() as served:
        yield served


async def granted(plane, *rules):
    await plane.client.create(ROLES, "default", role("r", *rules))
    await plane.client.create(ROLE_BINDINGS, "default", binding("b", "r", USER))
    return plane.client_as(BOB)


async def test_without_a_binding_nothing_is_allowed(plane) -> None:
    bob = plane.client_as(BOB)
    with pytest.raises(Forbidden) as refused:
        await bob.list(PODS, "default")
    assert refused.value.message == (
        'pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the '
        'namespace "default"'
    )
    with pytest.raises(Forbidden) as refused:
        await bob.get(CLUSTER_ROLES, Key("", "view"))
    assert refused.value.message.endswith(
        f'cannot get resource "clusterroles" in API group "{GROUP}" at the cluster scope'
    )
    assert refused.value.details["name"] == "view"


async def test_everyone_known_may_look_around(plane) -> None:
    bob = plane.client_as(BOB)
    assert (await bob.send("GET", "/apis")).status == 200
    assert (await bob.send("GET", "/version")).status == 200
    with pytest.raises(Forbidden, match='cannot get path "/metrics"'):
        await bob.send("GET", "/metrics")


async def test_a_role_counts_in_its_namespace(plane) -> None:
    bob = await granted(plane, rule("get", "list", "create"))
    await bob.create(CONFIG_MAPS, "default", {"metadata": {"name": "a"}})
    assert len((await bob.list(CONFIG_MAPS, "default")).items) == 1
    with pytest.raises(Forbidden):
        await bob.list(CONFIG_MAPS, "kube-system")
    with pytest.raises(Forbidden):
        await bob.list(CONFIG_MAPS)
    with pytest.raises(Forbidden):
        await bob.delete(CONFIG_MAPS, Key("default", "a"))


async def test_subresources_need_their_own_permission(plane) -> None:
    bob = await granted(plane, rule("get", "patch", resources=("pods",)))
    with pytest.raises(Forbidden, match='resource "pods/status"'):
        await bob.patch(PODS, Key("default", "p"), {}, subresource="status")


async def test_a_cluster_role_counts_everywhere_when_bound_everywhere(plane) -> None:
    client = plane.client
    subject = {"kind": "Group", "name": "devs"}
    body = binding("b", "view", subject, kind="ClusterRole")
    await client.create(CLUSTER_ROLE_BINDINGS, "", body)
    bob = plane.client_as(BOB)
    assert (await bob.list(PODS)).items == []
    with pytest.raises(Forbidden):
        await bob.create(CONFIG_MAPS, "default", {"metadata": {"name": "a"}})


async def test_bindings_are_followed_at_once(plane) -> None:
    bob = await granted(plane, rule("list"))
    await bob.list(CONFIG_MAPS, "default")
    await plane.client.delete(ROLE_BINDINGS, Key("default", "b"))
    with pytest.raises(Forbidden):
        await bob.list(CONFIG_MAPS, "default")


async def test_a_namespace_can_be_read_by_whom_it_belongs_to(plane) -> None:
    bob = await granted(plane, rule("get", resources=("namespaces",)))
    await bob.get(NAMESPACES, Key("", "default"))
    with pytest.raises(Forbidden):
        await bob.get(NAMESPACES, Key("", "kube-system"))


async def test_nobody_grants_what_they_do_not_hold(plane) -> None:
    roles = rule("create", "update", "patch", resources=("roles", "rolebindings"), groups=(GROUP,))
    bob = await granted(plane, roles, rule("get", resources=("configmaps",)))
    await bob.create(ROLES, "default", role("mine", rule("get")))
    with pytest.raises(Forbidden) as refused:
        await bob.create(ROLES, "default", role("more", rule("delete")))
    assert refused.value.message.endswith(
        "is attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["configmaps"], Verbs:["delete"]}'
    )
    await bob.create(ROLE_BINDINGS, "default", binding("ok", "mine", USER))
    body = binding("not", "cluster-admin", USER, kind="ClusterRole")
    with pytest.raises(Forbidden):
        await bob.create(ROLE_BINDINGS, "default", body)


async def test_escalate_and_bind_are_permissions_too(plane) -> None:
    verbs = rule("create", "escalate", "bind", resources=("roles", "rolebindings"), groups=(GROUP,))
    bob = await granted(plane, verbs)
    await bob.create(ROLES, "default", role("more", rule("delete")))
    await bob.create(ROLE_BINDINGS, "default", binding("more", "more", USER))
    await bob.delete(CONFIG_MAPS, Key("default", "absent"))


async def test_charts_add_to_the_roles_of_people_by_label(plane) -> None:
    label = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    body = role("ray-viewer", rule("list", resources=("leases",), groups=("coordination.k8s.io",)))
    body["metadata"]["labels"] = label
    await plane.client.create(CLUSTER_ROLES, "", body)
    await plane.client.create(
        ROLE_BINDINGS, "default", binding("b", "view", USER, kind="ClusterRole")
    )
    bob = plane.client_as(BOB)
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    assert (await bob.send("GET", path)).status == 200


async def test_applying_something_new_needs_create(plane) -> None:
    bob = await granted(plane, rule("patch", "get"))
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    with pytest.raises(Forbidden, match="cannot create"):
        await bob.patch(CONFIG_MAPS, Key("default", "a"), body, kind="apply", field_manager="bob")
