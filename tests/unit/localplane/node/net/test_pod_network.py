from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest

from manta.localplane.node.host.plane_id import interface_prefix
from manta.localplane.node.net.pod_network import Addresses


def test_interface_names_leave_room_for_the_pod_number() -> None:
    assert len(interface_prefix(Path("/some/very/long/directory")) + "pfff") <= 15


def test_addresses_skip_the_gateway_and_those_of_adopted_pods() -> None:
    addresses = Addresses(IPv4Network("10.88.0.0/29"))
    addresses.reserve(IPv4Address("10.88.0.2"))
    assert addresses.allocate() == IPv4Address("10.88.0.3")


def test_a_released_address_is_not_given_out_again_at_once() -> None:
    addresses = Addresses(IPv4Network("10.88.0.0/29"))
    first = addresses.allocate()
    addresses.release(first)
    assert addresses.allocate() != first


def test_the_search_goes_on_where_the_last_agent_ended_and_wraps_around() -> None:
    addresses = Addresses(IPv4Network("10.88.0.0/29"), last=6)
    assert addresses.allocate() == IPv4Address("10.88.0.2")


def test_a_full_subnet_is_an_error_that_names_it() -> None:
    addresses = Addresses(IPv4Network("10.88.0.0/30"))
    addresses.allocate()
    with pytest.raises(OSError, match=r"no free Pod address in 10\.88\.0\.0/30"):
        addresses.allocate()
