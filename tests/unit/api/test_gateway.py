"""Gateways and routes."""

from __future__ import annotations

import msgspec

from manta.api.conditions import is_true
from manta.api.gateway import Gateway, HTTPRoute


def test_a_gateway_tells_whether_it_is_programmed() -> None:
    gateway = msgspec.convert(
        {
            "spec": {
                "gatewayClassName": "istio",
                "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}],
            },
            "status": {"conditions": [{"type": "Programmed", "status": "True"}]},
        },
        Gateway,
    )
    assert gateway.spec.listeners[0].port == 80
    assert is_true(gateway.status.conditions, "Programmed")


def test_the_weight_of_a_backend_is_one_unless_it_is_said() -> None:
    route = msgspec.convert(
        {"spec": {"rules": [{"backendRefs": [{"name": "a", "weight": 0}, {"name": "b"}]}]}},
        HTTPRoute,
    )
    assert [one.weight for one in route.spec.rules[0].backend_refs] == [0, 1]
