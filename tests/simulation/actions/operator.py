"""What happens to the operator."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from simulation.actions.table import action, later, replica_of

if TYPE_CHECKING:
    from simulation.world import World


@action("operator")
def crash(world: World, replica: int, writes: int, before: bool = False, down: float = 1.0) -> None:
    """The operator is killed at its n-th write from now: right after the server accepted it, before the reply
    comes; or right before it is sent. It starts again later."""
    found = replica_of(world, replica)

    def kill() -> None:
        found.kill()
        world.restart_later(found, down)

    if found.transport is not None:
        found.transport.kill_at_write(writes, before=before, kill=kill)


@action("operator")
def kill(world: World, replica: int, down: float = 1.0) -> None:
    """The operator is killed now (SIGKILL), and starts again later."""
    found = replica_of(world, replica)
    found.kill()
    world.restart_later(found, down)


@action("operator")
def stop(world: World, replica: int, down: float = 1.0) -> None:
    """The operator is stopped politely (SIGTERM): it finishes what it does. Later it starts again."""
    found = replica_of(world, replica)
    life = found.life
    if life is None:
        return
    found.stop()

    async def restart() -> None:
        await asyncio.wait(life.tasks)  # without a lease, two processes would write
        await asyncio.sleep(down)
        world.start(found)

    world.background(restart())


@action("operator")
def pause(world: World, replica: int, seconds: float) -> None:
    """The operator's machine is suspended: nothing is sent, its monotonic clock stands still. When it wakes up it
    believes that it still holds the lease."""
    found = replica_of(world, replica)
    life = found.life
    if life is None:
        return
    life.transport.freeze()
    found.clock.freeze()
    world.paused += 1

    def resume() -> None:
        found.clock.thaw()
        life.transport.thaw()

    later(world, seconds, resume)


@action("operator")
def cut_off(world: World, replica: int, seconds: float) -> None:
    """The operator cannot reach the API server."""
    life = replica_of(world, replica).life
    if life is not None:
        life.transport.unreachable = True
        life.transport.wake()
        later(world, seconds, lambda: setattr(life.transport, "unreachable", False))


@action("operator")
def clock_jump(world: World, replica: int, seconds: float, lasts: float) -> None:
    """The wall clock of the operator jumps, and is corrected later."""
    clock = replica_of(world, replica).clock
    clock.jump(seconds)
    later(world, lasts, lambda: clock.jump(-seconds))
