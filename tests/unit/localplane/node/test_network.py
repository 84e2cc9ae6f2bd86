from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest

from manta.localplane.node.network import POOL, Addresses, choose_subnet, interface_prefix


def test_a_subnet_is_never_one_that_the_machine_uses() -> None:
    first = choose_subnet("0", [])
    second = choose_subnet("0", [first])
    assert not first.overlaps(second)
    assert second.subnet_of(POOL)


def test_two_planes_start_their_search_at_different_places() -> None:
    assert choose_subnet("000001", []) != choose_subnet("000002", [])


def test_a_machine_that_uses_the_whole_pool_is_told_so() -> None:
    with pytest.raises(OSError, match="every subnet of"):
        choose_subnet("0", [IPv4Network("10.0.0.0/8")])


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
