"""What dashboards and Serve do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulation.actions.table import action, later

if TYPE_CHECKING:
    from simulation.world import World


@action("ray", touches_jobs=True)
def dashboard(world: World, topic: str, how: str, seconds: float) -> None:
    """Dashboards hang, refuse, answer 500 (to everything, or to what is submitted) or nonsense, lose replies, or say
    that nothing is there."""
    world.ray.weather[topic] = how
    later(world, seconds, lambda: world.ray.weather.pop(topic, None))


@action("ray", touches_jobs=True)
def forget(world: World, number: int) -> None:
    """A dashboard restarts empty: it knows no jobs and no applications any more."""
    known = list(world.ray.clusters())
    if known:
        world.ray.restart_empty(*known[number % len(known)])


@action("ray")
def serve_status(world: World, number: int, status: str, seconds: float) -> None:
    """Serve reports a status for all applications of one cluster, and later RUNNING."""
    known = list(world.ray.clusters())
    if known:
        where = known[number % len(known)]
        world.ray.set_applications(*where, status)
        later(world, seconds, lambda: world.ray.set_applications(*where, "RUNNING"))
