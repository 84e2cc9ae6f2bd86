"""The end of all faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulation.actions.user import edit

if TYPE_CHECKING:
    from simulation.world import World


def calm(world: World) -> None:
    """All faults are over. What has a timer of its own has ended before."""
    world.ray.weather.clear()
    for replica in world.replicas:
        replica.request_faults.clear()
        replica.clock.thaw()
        for life in (*replica.ended, *([replica.life] if replica.life else [])):
            life.transport.clear()
        if not replica.is_stopping:
            world.start(replica)
    for number in range(world.story.nodes):
        world.nodes.reconnect(f"fake-node-{number}")
    world.background(suspend_schedules(world))


async def suspend_schedules(world: World) -> None:
    """The user suspends all RayCronJobs: with new jobs for ever, nothing would come to rest."""
    for kind, name in sorted(world.objects):
        if kind == "RayCronJob":
            await edit(world, kind, name, {"suspend": True})
