"""Views of the discovery group: the endpoints of Services."""

from __future__ import annotations

import msgspec

from manta.api.core import ObjectReference
from manta.api.meta import Object, View


class EndpointConditions(View, frozen=True, kw_only=True):
    """None means unknown; consumers read unknown `ready` as true."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class Endpoint(View, frozen=True, kw_only=True):
    addresses: tuple[str, ...] = ()
    conditions: EndpointConditions = EndpointConditions()
    hostname: str = ""
    node_name: str = ""
    target_ref: ObjectReference | None = None

    @property
    def ready(self) -> bool:
        return self.conditions.ready is not False


class EndpointPort(View, frozen=True, kw_only=True):
    name: str = ""
    port: int | None = None
    protocol: str = "TCP"
    app_protocol: str = ""


class EndpointSlice(Object, frozen=True, kw_only=True):
    address_type: str = "IPv4"
    listed_endpoints: tuple[Endpoint, ...] | None = msgspec.field(default=None, name="endpoints")
    listed_ports: tuple[EndpointPort, ...] | None = msgspec.field(default=None, name="ports")

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The API server encodes an empty list as null."""
        return self.listed_endpoints or ()

    @property
    def ports(self) -> tuple[EndpointPort, ...]:
        return self.listed_ports or ()
