"""What administrators allow."""

from __future__ import annotations

import copy
from functools import partial
from typing import TYPE_CHECKING

from manta.api.meta import Key
from manta.api.resources import CUSTOM_RESOURCE_DEFINITIONS, RESOURCE_QUOTAS
from simulation.actions.table import NAMESPACE, Object, action, later, quietly
from simulation.transport import RequestFault

if TYPE_CHECKING:
    from simulation.world import World


QUOTA = "simulated-quota"


@action("policy")
async def quota(world: World, pods: int, seconds: float) -> None:
    """A ResourceQuota allows so many Pods in the namespace, for a while."""
    body = {"metadata": {"name": QUOTA}, "spec": {"hard": {"pods": str(pods)}}}
    await quietly(world.user.create(RESOURCE_QUOTAS, NAMESPACE, body))
    later(world, seconds, lambda: world.background(_lift_quota(world)))


async def _lift_quota(world: World) -> None:
    await quietly(world.user.delete(RESOURCE_QUOTAS, Key(NAMESPACE, QUOTA)))


@action("policy")
def deny(world: World, plural: str, seconds: float, verb: str = "create") -> None:
    """An admission webhook refuses to create, patch or delete objects of one kind (403), for a while."""
    for replica in world.replicas:
        fault = RequestFault(verb, plural, "403", 10**6)
        replica.request_faults.append(fault)
        later(world, seconds, partial(setattr, fault, "times", 0))


OLD_FIELDS = (
    "networkPolicy",
    "tlsOptions",
    "historyServerOptions",
    "upgradeStrategy",
    "authOptions",
)
OLD_GROUP_FIELDS = ("priority", "labels", "resources", "idleTimeoutSeconds", "suspend")


@action("policy")
async def old_crds(world: World, seconds: float) -> None:
    """An administrator installs the RayCluster CRD of an older release, and later the present one again."""
    key = Key("", "rayclusters.ray.io")
    found = await world.user.get(CUSTOM_RESOURCE_DEFINITIONS, key)
    older = copy.deepcopy(found)
    for version in older["spec"]["versions"]:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        groups = spec["workerGroupSpecs"]["items"]["properties"]
        for fields, unknown in ((spec, OLD_FIELDS), (groups, OLD_GROUP_FIELDS)):
            for name in unknown:
                fields.pop(name, None)
    await _replace_crd(world, key, older)
    later(world, seconds, lambda: world.background(_replace_crd(world, key, found)))


async def _replace_crd(world: World, key: Key, crd: Object) -> None:
    now = await world.user.get(CUSTOM_RESOURCE_DEFINITIONS, key)
    crd["metadata"]["resourceVersion"] = now["metadata"]["resourceVersion"]
    await world.user.replace(CUSTOM_RESOURCE_DEFINITIONS, key, crd)
