"""Hands the bytes of a WebSocket on, between a caller and a Service of Ray."""

from __future__ import annotations

from manta.client.websockets import SWITCHED, accepted, copy_until_one_ends
from manta.console.api.forwarding import unreachable
from manta.console.api.headers import RESPONSE_HEADERS
from manta.console.api.statuses import refusal
from manta.httpserver.messages import HttpResponse
from manta.httpserver.upgrade import UpgradedConnection, switching_protocols
from manta.kube.errors import Unreachable
from manta.kube.transport import HttpTransport, Request


async def passed_websocket(
    transport: HttpTransport, request: Request, connection: UpgradedConnection
) -> HttpResponse | None:
    """None when the WebSocket has ended; a response if there was none."""
    try:
        async with transport.upgraded(request) as opened:
            if opened.status != SWITCHED:
                why = f"{opened.status}: the Service does not speak WebSocket at this address"
                return refusal(
                    opened.status if opened.status >= 400 else 502, why, RESPONSE_HEADERS
                )
            connection.write(switching_protocols(accepted(opened.headers)))
            await copy_until_one_ends(opened, connection)
    except Unreachable as error:
        return unreachable(request, error)
    return None
