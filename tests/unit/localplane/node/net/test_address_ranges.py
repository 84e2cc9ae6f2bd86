"""Every plane has addresses of its own, and keeps them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from ipaddress import IPv4Interface, IPv4Network
from pathlib import Path

import pytest

from manta.localplane.node.host import plane_register
from manta.localplane.node.host.netlink import Link
from manta.localplane.node.host.plane_id import bridge_name
from manta.localplane.node.net import address_ranges
from manta.localplane.node.net.address_ranges import (
    POD_POOL,
    SERVICE_POOL,
    RangeRequest,
    Ranges,
    RangeTaken,
    claim_ranges,
    first_free,
    lost_planes,
    read_ranges,
)


class FakeNetlink:
    """A machine with these routes and interfaces."""

    known_routes: Sequence[IPv4Network] = ()
    names: Sequence[str] = ()

    def routes(self) -> list[IPv4Network]:
        return list(self.known_routes)

    def addresses(self) -> list[IPv4Interface]:
        return [IPv4Interface("127.0.0.1/8")]

    def links(self) -> list[Link]:
        return [Link(number, name) for number, name in enumerate(self.names)]

    def close(self) -> None:
        """Nothing was opened."""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[FakeNetlink]:
    class Machine(FakeNetlink):
        pass

    monkeypatch.setattr(address_ranges, "Netlink", Machine)
    monkeypatch.setattr(plane_register, "DIRECTORY", tmp_path / "run")
    return Machine


def claim(directory: Path, **wish: IPv4Network) -> Ranges:
    return claim_ranges(directory, RangeRequest(**wish), shared=True)


@pytest.mark.usefixtures("machine")
def test_the_first_plane_has_the_usual_service_range(tmp_path: Path) -> None:
    assert claim(tmp_path / "one").services == IPv4Network("10.96.0.0/16")


@pytest.mark.usefixtures("machine")
def test_no_two_planes_share_addresses_even_before_they_run(tmp_path: Path) -> None:
    claimed = [claim(tmp_path / str(number)) for number in range(16)]
    networks = [network for one in claimed for network in (one.services, one.pods)]
    pairs = [(a, b) for index, a in enumerate(networks) for b in networks[index + 1 :]]
    assert not [pair for pair in pairs if pair[0].overlaps(pair[1])]


@pytest.mark.usefixtures("machine")
def test_a_plane_keeps_its_ranges_over_restarts(tmp_path: Path) -> None:
    first = claim(tmp_path / "one")
    claim(tmp_path / "two")
    assert claim(tmp_path / "one") == first == read_ranges(tmp_path / "one")


def test_ranges_that_the_machine_uses_by_now_are_left(
    tmp_path: Path, machine: type[FakeNetlink]
) -> None:
    before = claim(tmp_path / "one")
    machine.known_routes = (before.services, before.pods)
    after = claim(tmp_path / "one")
    assert not after.services.overlaps(before.services)
    assert not after.pods.overlaps(before.pods)


def test_a_plane_with_a_bridge_keeps_its_ranges_whatever_the_routes_say(
    tmp_path: Path, machine: type[FakeNetlink]
) -> None:
    before = claim(tmp_path / "one")
    machine.names = ("lo", bridge_name(tmp_path / "one"))
    machine.known_routes = (before.services, before.pods)
    assert claim(tmp_path / "one") == before
    with pytest.raises(RangeTaken, match="run `manta down` first"):
        claim(tmp_path / "one", pods=IPv4Network("10.1.0.0/20"))


def test_a_wish_is_granted_unless_the_machine_uses_it(
    tmp_path: Path, machine: type[FakeNetlink]
) -> None:
    services, pods = IPv4Network("172.20.0.0/24"), IPv4Network("172.21.0.0/24")
    assert claim(tmp_path / "one", services=services, pods=pods) == Ranges(services, pods)
    machine.known_routes = (IPv4Network("172.20.0.0/16"),)
    with pytest.raises(RangeTaken, match=r"--service-cidr 172.20.0.0/24 overlaps 172.20.0.0/16"):
        claim(tmp_path / "one", services=services)
    with pytest.raises(RangeTaken, match=r"--pod-cidr 10.50.0.0/16 overlaps 10.50.0.0/16"):
        claim(tmp_path / "one", services=pods_and_services(), pods=pods_and_services())


def pods_and_services() -> IPv4Network:
    return IPv4Network("10.50.0.0/16")


@pytest.mark.usefixtures("machine")
def test_the_seventeenth_plane_takes_the_range_of_one_that_does_not_run(tmp_path: Path) -> None:
    for number in range(16):
        claim(tmp_path / str(number))
    assert claim(tmp_path / "late").services.subnet_of(SERVICE_POOL)


def test_a_machine_that_uses_the_whole_pool_gets_an_error(
    tmp_path: Path, machine: type[FakeNetlink]
) -> None:
    machine.known_routes = (IPv4Network("10.0.0.0/8"),)
    with pytest.raises(RangeTaken, match=r"every /16 of 10.96.0.0/12 is in use.*--service-cidr"):
        claim(tmp_path / "one")


def test_two_planes_start_their_search_for_pods_at_different_places() -> None:
    assert first_free(POD_POOL, 20, [], 1) != first_free(POD_POOL, 20, [], 2)


@pytest.mark.usefixtures("machine")
def test_a_machine_without_a_writable_run_directory_remembers_its_planes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plane_register, "DIRECTORY", Path("/proc/no/such/place"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert not claim(tmp_path / "one").services.overlaps(claim(tmp_path / "two").services)
    assert (tmp_path / "manta-planes" / "planes").exists()


# ── lost planes ──────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("machine")
@pytest.mark.skipif(os.geteuid() != 0, reason="only planes of root are listed")
def test_a_plane_is_lost_when_its_record_is_gone_and_not_before(tmp_path: Path) -> None:
    node = tmp_path / "one" / "node"
    claim(node)
    record = node / address_ranges.RECORD
    record.write_text("{ damaged")
    assert lost_planes() == []
    record.unlink()
    assert lost_planes() == [node]  # the plane may still run, and create its directory again
    node.rmdir()
    assert lost_planes() == [node]
    (tmp_path / "one").rmdir()
    assert lost_planes() == [node]
