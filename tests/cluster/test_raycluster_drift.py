"""What others change on the autoscaler's Role and binding: ours comes back, and theirs stays."""

from __future__ import annotations

import asyncio

from manta.api.meta import Key
from manta.api.resources import ROLE_BINDINGS, ROLES
from support.raycluster import NAMESPACE
from support.rayoperator import operated
from support.virtual import virtually


@virtually
async def test_labels_that_others_change_are_repaired_once() -> None:
    async with operated() as op:
        await op.create(enableInTreeAutoscaling=True)
        await op.until_ready()
        change = {"metadata": {"labels": {"app.kubernetes.io/name": "other", "foreign": "yes"}}}
        for resource in (ROLES, ROLE_BINDINGS):
            await op.client.patch(resource, Key(NAMESPACE, "demo"), change)
        await asyncio.sleep(10)
        for resource in (ROLES, ROLE_BINDINGS):
            found = (await op.client.get(resource, Key(NAMESPACE, "demo")))["metadata"]["labels"]
            assert (found["app.kubernetes.io/name"], found["foreign"]) == ("kuberay", "yes")
        writes = op.writes("/role")
        await asyncio.sleep(900)
        assert op.writes("/role") == writes


@virtually
async def test_a_binding_that_nobody_controls_is_left_to_its_user() -> None:
    async with operated() as op:
        own = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "demo", "labels": {"ray.io/cluster": "demo"}},
            "subjects": [{"kind": "ServiceAccount", "name": "demo", "namespace": NAMESPACE}],
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "edit",
            },
        }
        made = await op.client.create(ROLE_BINDINGS, NAMESPACE, own)
        await op.create(enableInTreeAutoscaling=True)
        await op.until_ready()
        await asyncio.sleep(60)
        kept = await op.client.get(ROLE_BINDINGS, Key(NAMESPACE, "demo"))
        assert kept["metadata"]["uid"] == made.metadata.uid


@virtually
async def test_one_of_ours_that_lost_the_label_by_which_we_find_it_gets_it_back() -> None:
    async with operated() as op:
        await op.create(enableInTreeAutoscaling=True)
        await op.until_ready()
        for resource in (ROLES, ROLE_BINDINGS):
            change = {"metadata": {"labels": {"ray.io/cluster": None}}}
            await op.client.patch(resource, Key(NAMESPACE, "demo"), change)
        await asyncio.sleep(400)  # no watch event came: the safety resync finds the drift
        for resource in (ROLES, ROLE_BINDINGS):
            found = (await op.client.get(resource, Key(NAMESPACE, "demo")))["metadata"]["labels"]
            assert found["ray.io/cluster"] == "demo"
        asked = len(op.faults.log)
        await asyncio.sleep(900)
        assert not [one for one in op.faults.log[asked:] if "/role" in one.path and not one.watch]
