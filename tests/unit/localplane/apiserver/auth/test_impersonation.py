"""Acting as someone else."""

from __future__ import annotations

import json

import pytest

from manta.api.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from manta.httpserver.messages import User
from manta.kube.errors import BadRequest, Forbidden
from support.plane import memory_plane

WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
PODS = "/api/v1/namespaces/default/pods"


async def who(client, **headers):
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    body = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
    sent["Content-Type"] = "application/json"
    answer = await client.send("POST", WHO, body=body, headers=sent)
    return json.loads(answer.body)["status"]["userInfo"]


async def test_an_admin_may_be_anyone_and_then_has_no_more_than_they() -> None:
    async with memory_plane() as plane:
        seen = await who(plane.client, Impersonate_User="bob", Impersonate_Group="devs, ops")
        assert seen == {"username": "bob", "groups": ["devs", "ops", "system:authenticated"]}
        with pytest.raises(Forbidden, match='User "bob" cannot list'):
            await plane.client.send("GET", PODS, headers={"Impersonate-User": "bob"})


async def test_a_service_account_comes_with_its_groups() -> None:
    async with memory_plane() as plane:
        name = "system:serviceaccount:default:robot"
        seen = await who(plane.client, Impersonate_User=name)
        assert "system:serviceaccounts:default" in seen["groups"]


async def test_others_need_the_permission() -> None:
    async with memory_plane() as plane:
        bob = plane.client_as(User("bob", ("system:authenticated",)))
        with pytest.raises(Forbidden, match='cannot impersonate resource "users"'):
            await who(bob, Impersonate_User="alice")
        rules = [
            {
                "apiGroups": [""],
                "resources": ["users"],
                "resourceNames": ["alice"],
                "verbs": ["impersonate"],
            }
        ]
        await plane.client.create(CLUSTER_ROLES, "", {"metadata": {"name": "i"}, "rules": rules})
        await plane.client.create(
            CLUSTER_ROLE_BINDINGS,
            "",
            {
                "metadata": {"name": "i"},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": "i",
                },
                "subjects": [
                    {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}
                ],
            },
        )
        assert (await who(bob, Impersonate_User="alice"))["username"] == "alice"
        with pytest.raises(Forbidden):
            await who(bob, Impersonate_User="carol")
        with pytest.raises(Forbidden):
            await who(bob, Impersonate_User="alice", Impersonate_Group="system:masters")


async def test_a_group_without_a_user_is_refused() -> None:
    async with memory_plane() as plane:
        with pytest.raises(BadRequest):
            await who(plane.client, Impersonate_Group="devs")
