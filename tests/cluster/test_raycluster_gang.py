"""Gangs on the embedded server: the group is there before the Pods, and follows the cluster."""

from __future__ import annotations

import asyncio
from typing import Any

from manta.api.meta import Key
from manta.api.ray import names
from manta.api.resources import VOLCANO_POD_GROUPS, Resource
from manta.controllers.raycluster.preview import preview
from manta.rules.settings import Settings
from support.fakenodes import fake_cluster
from support.raycluster import NAMESPACE, group
from support.raycrds import ray_crds
from support.rayoperator import Operated, start_operator
from support.virtual import virtually


def pod_group_definition(resource: Resource) -> dict[str, Any]:
    """A CRD like that of a scheduler, as far as it matters here."""
    amounts = {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}}
    fields = {
        "minMember": {"type": "integer", "format": "int32"},
        "minResources": amounts,
        "queue": {"type": "string"},
    }
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": fields}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.group_resource},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {"plural": resource.plural, "kind": resource.kind},
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


async def pod_group(op: Operated) -> dict[str, Any]:
    key = Key(NAMESPACE, "ray-demo-pg")
    return dict(await op.client.get(VOLCANO_POD_GROUPS, key, into=dict))


async def until_members(op: Operated, members: int) -> dict[str, Any]:
    async with asyncio.timeout(60):
        while (found := await pod_group(op))["spec"]["minMember"] != members:
            await asyncio.sleep(0.05)
    return found


@virtually
async def test_a_gang_is_reported_before_its_pods_and_when_it_grows() -> None:
    crds = [*ray_crds(), pod_group_definition(VOLCANO_POD_GROUPS)]
    settings = Settings(batch_scheduler="volcano")
    async with fake_cluster(2, crds=crds) as cluster, start_operator(cluster, settings) as op:
        labels = {names.LABEL_VOLCANO_QUEUE: "gpu"}
        await op.create(labels=labels, groups=[group(replicas=2, maxReplicas=9)])
        await op.until(lambda one: one.status.desired_worker_replicas == 2)
        made = [one.split("/")[-1] for one in op.writes("", "POST")]
        assert made.index("podgroups") < made.index("pods")
        found = await pod_group(op)
        assert (found["spec"]["minMember"], found["spec"]["queue"]) == (3, "gpu")
        pods = await op.pods()
        assert {pod["spec"]["schedulerName"] for pod in pods} == {"volcano"}
        assert all(not pod["spec"].get("nodeName") for pod in pods), "left to the gang scheduler"
        await op.scale(5)
        grown = await until_members(op, 6)
        assert grown["metadata"]["ownerReferences"][0]["name"] == "demo"
        await op.until(lambda one: one.status.desired_worker_replicas == 5)
        foreseen = await preview(op.client, settings, cluster.plane.clock, Key(NAMESPACE, "demo"))
        assert foreseen is not None
        assert foreseen.plan.actions == (), "a plan sees the group that is there"
        before = op.writes("/podgroups")
        await asyncio.sleep(900)
        assert op.writes("/podgroups") == before
