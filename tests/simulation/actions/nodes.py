"""What happens to nodes and Pods."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from manta.api.meta import Key
from manta.api.ray import names
from manta.api.resources import NODES
from simulation.actions.table import Object, action, later, quietly, with_pod
from simulation.ray import env_of

if TYPE_CHECKING:
    from simulation.world import World


@action("node", touches_jobs=True)
def node_down(world: World, number: int, seconds: float) -> None:
    """A node does not answer for a while; its Pods change no more."""
    name = f"fake-node-{number % world.story.nodes}"
    world.nodes.disconnect(name)
    later(world, seconds, lambda: world.nodes.reconnect(name))


@action("node", touches_jobs=True)
async def node_gone(world: World, number: int, seconds: float) -> None:
    """A node is deleted with its Pods, and joins again later."""
    name = f"fake-node-{number % world.story.nodes}"
    world.nodes.disconnect(name)
    await quietly(world.user.delete(NODES, Key("", name)))

    def back() -> None:
        world.nodes.reconnect(name)
        world.tasks.append(asyncio.create_task(world.nodes._register(name)))

    later(world, seconds, back)


@action("node", touches_jobs=True)
def evict(world: World, role: str, number: int) -> None:
    """The kubelet evicts a Pod: it is Failed."""
    with_pod(world, role, number, world.nodes.evict)


@action("node", touches_jobs=True)
def end_container(world: World, role: str, number: int, code: int) -> None:
    """The containers of a Pod end with an exit code."""
    with_pod(world, role, number, lambda key: world.nodes.end(key, code))


@action("node")
def lose_submitter(world: World, number: int) -> None:
    """The Pod of a submitter is evicted while Ray runs its job: the job goes on, and only Ray knows how it ends."""
    running = {job for head in world.ray.heads.values() for job in head.memory.jobs}
    pods = [
        pod
        for pod in world.all("pods")
        if (env := env_of(pod).get(names.ENV_JOB_SUBMISSION_ID))
        and env in running
        and _is_alone(pod)
    ]
    if pods:
        meta = pods[number % len(pods)]["metadata"]
        world.nodes.evict(Key(meta["namespace"], meta["name"]))


def _is_alone(pod: Object) -> bool:
    """Whether a submitter has a Pod of its own, which nobody deletes."""
    meta = pod["metadata"]
    on_node = bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") == "Running"
    beside = names.LABEL_NODE_TYPE in (meta.get("labels") or {})
    return on_node and not beside and not meta.get("deletionTimestamp")


@action("node", touches_jobs=True)
def pod_script(world: World, role: str, script: str, seconds: float) -> None:
    """For a while, Pods of a role do as this script of the fake nodes says: fail to start, refuse to die, ..."""
    labels = f"ray.io/node-type={role}"
    world.nodes.script(labels, script)
    later(world, seconds, lambda: world.nodes.script(labels, world.plain[role]))
