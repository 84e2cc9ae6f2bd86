"""What users do."""

from __future__ import annotations

import asyncio
import copy
from typing import TYPE_CHECKING

from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.resources import RAY_CLUSTERS
from manta.kube.errors import AlreadyExists, MantaError
from simulation.actions.table import (
    DRIFT,
    KINDS,
    NAMESPACE,
    Object,
    action,
    is_ours,
    quietly,
    storage_name,
)
from support.merge_patch import merged

if TYPE_CHECKING:
    from simulation.world import World


@action("user")
async def create(world: World, object: Object) -> None:  # noqa: A002
    """The user creates an object."""
    kind, name = object["kind"], object["metadata"]["name"]
    try:
        await world.user.create(KINDS[kind], NAMESPACE, object)
    except MantaError as error:
        world.refused.append(f"{kind} {name}: {error}")
        return
    world.objects[kind, name] = copy.deepcopy(object)


@action("user")
async def edit(world: World, kind: str, name: str, spec: Object) -> None:
    """The user changes fields of a spec (a merge patch; lists are replaced)."""
    try:
        await world.user.patch(KINDS[kind], Key(NAMESPACE, name), {"spec": spec})
    except MantaError as error:
        world.refused.append(f"{kind} {name}: {error}")
        return
    if (kind, name) in world.objects:
        held = world.objects[kind, name]
        held["spec"] = merged(held["spec"], spec)  # also of one that waits to be created again


@action("user", touches_jobs=True)
async def delete(world: World, kind: str, name: str) -> None:
    """The user deletes an object."""
    try:
        await world.user.delete(KINDS[kind], Key(NAMESPACE, name))
    except MantaError as error:
        world.refused.append(f"{kind} {name}: {error}")
        return
    world.objects.pop((kind, name), None)


@action("user", touches_jobs=True)
async def recreate(world: World, kind: str, name: str) -> None:
    """The user deletes an object and creates it again under the same name, as soon as the name is free."""
    wanted = copy.deepcopy(world.objects.get((kind, name)))
    if wanted is None:
        return
    await delete(world, kind, name)
    world.objects[kind, name] = wanted
    world.tasks.append(asyncio.create_task(_create_again(world, wanted)))


async def _create_again(world: World, wanted: Object) -> None:
    key = (wanted["kind"], wanted["metadata"]["name"])
    while world.objects.get(key) is wanted:  # the user has not changed their mind
        try:
            await world.user.create(KINDS[wanted["kind"]], NAMESPACE, wanted)
        except AlreadyExists:
            await asyncio.sleep(0.3)
        except MantaError as error:
            world.refused.append(str(error))
            return
        else:
            return


@action("user", touches_jobs=True)
async def delete_child(world: World, kind: str, number: int) -> None:
    """The user deletes one of the operator's own objects, say a Pod or a Service."""
    resource = KINDS[kind]
    children = [one for one in world.all(storage_name(resource)) if is_ours(one)]
    if children:
        name = children[number % len(children)]["metadata"]["name"]
        await quietly(world.user.delete(resource, Key(NAMESPACE, name)))


@action("user")
async def drift(world: World, number: int, kind: str = "") -> None:
    """The user changes one of the operator's own objects (of this kind, or any), say the selector of a Service."""
    children = [
        (each, one["metadata"]["name"])
        for each in ([kind] if kind else sorted(DRIFT))
        for one in world.all(storage_name(KINDS[each]))
        if is_ours(one)
    ]
    if children:
        each, name = children[number % len(children)]
        await quietly(world.user.patch(KINDS[each], Key(NAMESPACE, name), DRIFT[each]))


@action("user")
async def annotate(world: World, kind: str, name: str, annotations: Object) -> None:
    """The user sets or removes annotations of an object."""
    change = {"metadata": {"annotations": annotations}}
    done = await quietly(world.user.patch(KINDS[kind], Key(NAMESPACE, name), change))
    if done and (kind, name) in world.objects:
        held = world.objects[kind, name]
        held["metadata"] = merged(held["metadata"], change["metadata"])


@action("user")
async def foreign(world: World, object: Object) -> None:  # noqa: A002
    """Somebody else creates an object that looks like one of ours. A Pod has another controller: one without an
    owner that carries the labels of a cluster counts as a Pod of that cluster, as in KubeRay."""
    object = copy.deepcopy(object)  # noqa: A001
    other = world.live["configmaps"].get(f"{NAMESPACE}/kube-root-ca.crt")
    if object["kind"] == "Pod" and other is not None:
        owner: Object = {"apiVersion": "v1", "kind": "ConfigMap", "name": "kube-root-ca.crt"}
        owner |= {"uid": other["metadata"]["uid"], "controller": True}
        object["metadata"]["ownerReferences"] = [owner]
    if await quietly(world.user.create(KINDS[object["kind"]], NAMESPACE, object)):
        world.foreign.append(object)


@action("user")
async def autoscale(world: World, name: str, group: str, replicas: int, remove: int = 0) -> None:
    """Ray's autoscaler v2 changes the replicas of a group, and names idle workers to remove."""
    try:
        found = await world.user.get(RAY_CLUSTERS, Key(NAMESPACE, name))
    except MantaError:
        return
    workers = [
        pod["metadata"]["name"]
        for pod in world.pods("worker", name)
        if (pod["metadata"].get("labels") or {}).get("ray.io/group") == group
        and not pod["metadata"].get("deletionTimestamp")
    ]
    for number, one in enumerate(found["spec"].get("workerGroupSpecs") or ()):
        if one["groupName"] == group:
            gone = workers[:remove]
            wanted = max(0, len(workers) - len(gone)) if gone else replicas
            base = f"/spec/workerGroupSpecs/{number}"
            patch = [
                {"op": "add", "path": f"{base}/replicas", "value": wanted},
                {"op": "add", "path": f"{base}/scaleStrategy", "value": {"workersToDelete": gone}},
            ]
            await quietly(world.user.patch(RAY_CLUSTERS, Key(NAMESPACE, name), patch, kind="json"))


@action("user")
async def steer(world: World, kind: str, name: str, decision: str) -> None:
    """The user steers an upgrade: a canary is paused, resumed, promoted or aborted; a rolling update that failed is
    tried again."""
    annotations = (
        _canary_decision(world, name, decision) if kind == "RayService" else _retried(world, name)
    )
    if annotations:
        await annotate(world, kind, name, annotations)


def _canary_decision(world: World, name: str, decision: str) -> Object:
    service = world.live["rayservices.ray.io"].get(f"{NAMESPACE}/{name}")
    status = (service or {}).get("status") or {}
    pending = (status.get("pendingServiceStatus") or {}).get("rayClusterName")
    match decision:
        case "pause" | "resume":
            return {names.ANNOTATION_CANARY_PAUSE: "true" if decision == "pause" else None}
        case "abort" if pending:
            return {names.ANNOTATION_CANARY_ABORT: pending}
        case "promote" if pending:
            return {names.ANNOTATION_CANARY_PROMOTE: f"{pending}/all"}
    return {}


def _retried(world: World, cluster: str) -> Object:
    numbers = [
        one["revision"]
        for one in world.all("controllerrevisions.apps")
        if (one["metadata"].get("labels") or {}).get(names.LABEL_CLUSTER) == cluster
        and names.ANNOTATION_ROLLOUT_FAILED in (one["metadata"].get("annotations") or {})
    ]
    return {names.ANNOTATION_ROLLING_UPDATE_RETRY: str(max(numbers))} if numbers else {}
