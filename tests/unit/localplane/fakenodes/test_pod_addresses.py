"""Addresses of fake Pods."""

from __future__ import annotations

import pytest

from manta.api.meta import ObjectMeta, Uid
from manta.localplane.builtin.views import Pod, PodStatus
from manta.localplane.fakenodes.pod_addresses import PodAddresses


def a_pod(uid: str, address: str) -> Pod:
    return Pod(metadata=ObjectMeta(name=uid, uid=Uid(uid)), status=PodStatus(pod_ip=address))


def test_an_address_in_use_is_given_to_nobody_else() -> None:
    addresses = PodAddresses()
    addresses.reserve(a_pod("a", "10.128.0.7"))
    assert addresses.allocate("a") == "10.128.0.7"
    assert addresses.allocate("b") == "10.128.0.8"


@pytest.mark.parametrize("address", ["fd00::1", "", "192.0.2.1", "nonsense"])
def test_addresses_of_others_are_left_alone(address: str) -> None:
    addresses = PodAddresses()
    addresses.reserve(a_pod("a", address))
    assert addresses.allocate("a") == "10.128.0.1"
