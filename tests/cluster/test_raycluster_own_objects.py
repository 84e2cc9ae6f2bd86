"""Objects of the wanted names that the user made before: used as they are, and never taken over."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.resources import (
    CONFIG_MAPS,
    EVENTS,
    INGRESSES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    Resource,
)
from manta.reconcile.executor import REMEMBER_SECONDS
from support.raycluster import NAMESPACE
from support.rayoperator import Operated, condition, operated
from support.virtual import virtually

Json = dict[str, Any]
DEMO = Key(NAMESPACE, "demo")
TOKEN: dict[str, Any] = {"authOptions": {"mode": "token"}}
AUTOSCALED: dict[str, Any] = {"enableInTreeAutoscaling": True}
MINE: dict[str, tuple[Resource, Json, Json]] = {
    "Secret": (SECRETS, {"data": {"auth_token": "bWluZQ=="}}, TOKEN),
    "ServiceAccount": (SERVICE_ACCOUNTS, {}, AUTOSCALED),
    "Role": (ROLES, {"rules": []}, AUTOSCALED),
    "RoleBinding": (
        ROLE_BINDINGS,
        {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "mine"}},
        AUTOSCALED,
    ),
}


async def put(op: Operated, resource: Resource, body: Json, owner: Json | None = None) -> Json:
    meta: Json = {"name": "demo", "namespace": NAMESPACE}
    meta |= {"ownerReferences": [owner]} if owner else {}
    await op.client.create(resource, NAMESPACE, {"metadata": meta, **body})
    return await op.client.get(resource, DEMO)


def asked(op: Operated, resource: Resource) -> int:
    """How often the operator asked for this kind, lists and watches apart."""
    lists = resource.path()
    return sum(
        f"/{resource.plural}" in one.path and not one.watch and one.path != lists
        for one in op.faults.log
    )


@pytest.mark.parametrize("kind", MINE)
@virtually
async def test_what_nobody_owns_is_used_and_left_as_it_is(kind: str) -> None:
    resource, body, spec = MINE[kind]
    async with operated() as op:
        mine = await put(op, resource, body)
        await op.create(**spec)
        found = await op.until_ready()
        await asyncio.sleep(600)
        assert await op.client.get(resource, DEMO) == mine
        blocked = condition(found, "Blocked")
        assert blocked is None or blocked.status == "False"


@pytest.mark.parametrize("kind", MINE)
@virtually
async def test_what_another_controller_owns_is_still_refused(kind: str) -> None:
    resource, body, spec = MINE[kind]
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "controller": True}
    async with operated() as op:
        root = await op.client.get(CONFIG_MAPS, Key(NAMESPACE, "kube-root-ca.crt"))
        other |= {"name": "kube-root-ca.crt", "uid": root["metadata"]["uid"]}
        await put(op, resource, body, other)
        await op.create(**spec)
        await asyncio.sleep(60)
        assert await op.pods() == []
        blocked = condition(await op.read(), "Blocked")
        assert blocked is not None
        assert "belongs to ConfigMap kube-root-ca.crt" in blocked.message


@pytest.mark.parametrize(
    ("resource", "spec"),
    [
        (SECRETS, TOKEN),
        (SERVICE_ACCOUNTS, AUTOSCALED),
        (INGRESSES, {"head": {"enableIngress": True}}),
    ],
    ids=["Secret", "ServiceAccount", "Ingress"],
)
@virtually
async def test_of_two_clusters_whose_names_are_cut_alike_the_second_says_whose_object_it_is(
    resource: Resource, spec: Json
) -> None:
    """The names are cut as KubeRay cuts them: the last 50 characters stay."""
    first, second = (f"{letter}{'x' * 52}" for letter in "ab")
    async with operated() as op:
        await op.create(first, **spec)
        await op.until_ready(first)
        [made] = await owned_by(op, resource, first)
        await op.create(second, **spec)
        await asyncio.sleep(600)
        blocked = condition(await op.read(second), "Blocked")
        assert blocked is not None
        name = f"{resource.kind} {NAMESPACE}/{made['metadata']['name']}"
        assert f"{name} already exists and belongs to RayCluster {first}" in blocked.message
        assert any(first in one for one in await warnings_of(op, second))
        assert await owned_by(op, resource, first) == [made]
        assert (await op.read(first)).status.state == "ready"


async def owned_by(op: Operated, resource: Resource, name: str) -> list[Json]:
    found = (await op.client.list(resource, NAMESPACE)).items
    return [
        one
        for one in found
        if any(owner["name"] == name for owner in one["metadata"].get("ownerReferences") or ())
    ]


async def warnings_of(op: Operated, name: str) -> list[str]:
    found = (await op.client.list(EVENTS, NAMESPACE)).items
    return [one["note"] for one in found if one["regarding"]["name"] == name]


@virtually
async def test_what_no_cache_shows_is_not_asked_for_in_every_round() -> None:
    async with operated() as op:
        for kind in ("Role", "RoleBinding"):
            resource, body, _ = MINE[kind]
            await put(op, resource, body)
        await op.create(**AUTOSCALED)
        await op.until_ready()
        await asyncio.sleep(REMEMBER_SECONDS + 1)
        before = [asked(op, one) for one in (ROLES, ROLE_BINDINGS)]
        for number in range(20):  # each of which is a round
            await op.patch({"metadata": {"annotations": {"note": str(number)}}})
            await asyncio.sleep(1)
        after = [asked(op, one) for one in (ROLES, ROLE_BINDINGS)]
        assert [new - old for new, old in zip(after, before, strict=True)] == [2, 2]


@virtually
async def test_a_role_of_the_users_that_is_gone_is_made_by_us() -> None:
    async with operated() as op:
        await put(op, ROLES, {"rules": []})
        await op.create(**AUTOSCALED)
        found = await op.until_ready()
        await op.client.delete(ROLES, DEMO)
        await asyncio.sleep(REMEMBER_SECONDS)
        await op.patch({"metadata": {"annotations": {"a": "round"}}})
        await asyncio.sleep(5)
        [owner] = (await op.client.get(ROLES, DEMO))["metadata"]["ownerReferences"]
        assert owner["uid"] == found.metadata.uid


# ── the token ────────────────────────────────────────────────────────────────────────────


@virtually
async def test_a_secret_that_pods_wait_for_is_made_and_at_rest_nobody_asks_for_it() -> None:
    async with operated() as op:
        await op.create(**TOKEN)
        await op.until_ready()
        before = asked(op, SECRETS)
        await op.client.delete(SECRETS, DEMO)
        await op.scale(1)
        await asyncio.sleep(600)
        assert asked(op, SECRETS) == before
        op.cluster.nodes.script("ray.io/node-type=worker", "start=never")
        await op.scale(2)
        await asyncio.sleep(5)
        [stuck] = [pod for pod in await op.pods(node="worker") if not _runs(pod)]
        await say_that_it_waits(op, stuck)
        await asyncio.sleep(5)
        assert (await op.client.get(SECRETS, DEMO))["data"]["auth_token"]
        [note] = [one for one in await op.cluster.events("CreatedSecret") if "waits for it" in one]
        assert "Delete the head Pod" in note


async def say_that_it_waits(op: Operated, pod: Json) -> None:
    waiting = {"reason": "CreateContainerConfigError", "message": 'secret "demo" not found'}
    container = {"name": "ray", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    body = {"status": {"containerStatuses": [{**container, "state": {"waiting": waiting}}]}}
    key = Key(NAMESPACE, pod["metadata"]["name"])
    await op.client.patch(PODS, key, body, subresource="status")


def _runs(pod: Json) -> bool:
    return bool(pod["status"]["phase"] == "Running")
