"""What happens between the operator and the API server: requests and watches."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from simulation.actions.table import action, later, transports
from simulation.transport import RequestFault, SimulatedTransport

if TYPE_CHECKING:
    from simulation.world import World


@action("server")
def fail(world: World, verb: str, plural: str, code: int, times: int) -> None:
    """The API server answers requests of the operators with a status code, without executing them."""
    for replica in world.replicas:
        replica.request_faults.append(RequestFault(verb, plural, str(code), times))


@action("server")
def lose_reply(world: World, verb: str, plural: str, times: int) -> None:
    """The API server executes a write, but the reply is lost."""
    for replica in world.replicas:
        replica.request_faults.append(RequestFault(verb, plural, "lose", times))


@action("server")
def slow(world: World, verb: str, plural: str, seconds: float, times: int) -> None:
    """The API server takes long to answer."""
    for replica in world.replicas:
        replica.request_faults.append(RequestFault(verb, plural, "slow", times, seconds))


@action("watch")
def delay_watch(world: World, plural: str, seconds: float, lasts: float) -> None:
    """Events of one kind come late, so that they are reordered against those of other kinds."""
    for transport in transports(world):
        transport.watch_fault(plural).delay = seconds
        later(world, lasts, partial(setattr, transport.watch_fault(plural), "delay", 0.0))


@action("watch")
def hold_watches(world: World, plurals: list[str], seconds: float) -> None:
    """No event of these kinds comes for a while: the operator's view is stale. Then all of them come at once."""
    until = asyncio.get_running_loop().time() + seconds
    for transport in transports(world):
        for plural in plurals:
            transport.watch_fault(plural).held_until = until


@action("watch")
def drop_events(world: World, plural: str, relist: float) -> None:
    """Events of one kind get lost: the connection is silent. Later it breaks, its version is too old (410), and
    the operator lists."""
    for transport in transports(world):
        transport.watch_fault(plural).drop = True
        later(world, relist, partial(_relist, transport, plural))


def _relist(transport: SimulatedTransport, plural: str) -> None:
    transport.watch_fault(plural).drop = False
    transport.cut_watches(plural, expire=True)


@action("watch")
def break_watches(world: World, plural: str = "", expire: bool = False, refused: int = 0) -> None:
    """Open watches break; with `expire`, they cannot resume; so many attempts to open them again, and as many lists,
    are refused."""
    for transport in transports(world):
        transport.cut_watches(plural, expire=expire)
    for replica in world.replicas if refused else ():
        replica.request_faults += [
            RequestFault(verb, plural, "503", refused) for verb in ("watch", "read")
        ]
