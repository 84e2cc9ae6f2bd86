"""Services whose Pods sleep: whoever runs the plane may supply what wakes them when they are used.

The plane itself does not know what sleeps. It asks `Wake` when somebody connects to a Service without endpoints,
or to one that is being woken, and holds the connection meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from manta.api.meta import Key

_PAUSE_SECONDS: Final = 0.2


class Wake(Protocol):
    def is_waking(self, service: Key) -> bool:
        """Whether this Service is being woken. It may have endpoints already that do not serve yet."""
        ...

    async def sleeps(self, service: Key) -> bool:
        """Whether a connection would wake this Service. Never raises."""
        ...

    async def __call__(self, service: Key, port: str = "") -> bool:
        """True when the Service serves again; False at once if it does not sleep. Never raises.

        `port`: its name or number. Not every port is there for use."""
        ...


async def wake_for_client(
    wake: Wake | None,
    service: Key,
    port: str,
    *,
    has_endpoints: bool,
    has_left: Callable[[], bool] = lambda: False,
) -> bool:
    """Whether a Service was woken for a client. Returns early if that has left."""
    if wake is None or (has_endpoints and not wake.is_waking(service)):
        return False
    waking = asyncio.ensure_future(wake(service, port))
    try:
        while not waking.done() and not has_left():
            await asyncio.wait((waking,), timeout=_PAUSE_SECONDS)
        return waking.done() and waking.result()
    finally:
        waking.cancel()
