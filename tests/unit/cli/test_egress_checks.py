"""Jobs that need the network are refused where Pods have none (U3)."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.resources import NODES
from manta.api.usage import UsageError
from manta.cli.checks.egress import check_egress, egress_note, refuse_without_egress
from manta.cli.checks.finding import Level
from manta.kube.client import Client
from manta.localplane.node.net import user_egress
from manta.localplane.node.net.user_egress import command
from support.plane import memory_plane

TROUBLE = "Pods of an ordinary user cannot reach the network: install slirp4netns"


async def a_node(client: Client, name: str, message: str = "") -> None:
    document = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    await client.create(NODES, "", document)
    conditions = [{"type": "Ready", "status": "True"}]
    if message:
        conditions.append({"type": "EgressUnavailable", "status": "True", "message": message})
    status = {"status": {"conditions": conditions}}
    await client.patch(NODES, Key("", name), status, subresource="status")


async def test_pip_is_refused_at_once_where_no_node_has_egress() -> None:
    """U3."""
    async with memory_plane() as plane:
        await a_node(plane.client, "one", TROUBLE)
        with pytest.raises(UsageError, match=r"--pip pandas: .*install slirp4netns"):
            await refuse_without_egress(plane.client, ["pandas"])
        await refuse_without_egress(plane.client, [])
        await a_node(plane.client, "two")
        await refuse_without_egress(plane.client, ["pandas"])


async def test_a_cluster_without_nodes_yet_is_not_refused() -> None:
    """U3: an autoscaler may bring them."""
    async with memory_plane() as plane:
        await refuse_without_egress(plane.client, ["pandas"])


def arguments(**given: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"isolation": "auto", "nodes": 1, **given})


@pytest.fixture
def ordinary_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(user_egress, "PROGRAMS", ("manta-no-such-program",))


@pytest.mark.usefixtures("ordinary_user")
def test_up_and_doctor_name_the_package_that_is_missing() -> None:
    """U3."""
    assert "apt-get install slirp4netns" in egress_note(arguments())
    finding = check_egress(arguments())
    assert finding.level is Level.WARN
    assert "neither slirp4netns nor pasta is installed" in finding.found
    assert "apt-get install slirp4netns" in finding.fix


@pytest.mark.usefixtures("ordinary_user")
@pytest.mark.parametrize("given", [{"isolation": "none"}, {"nodes": 0}])
def test_up_says_nothing_where_pods_have_the_machines_network(given: dict[str, Any]) -> None:
    assert egress_note(arguments(**given)) == ""


def test_a_device_that_cannot_be_opened_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """U3."""
    monkeypatch.setattr(user_egress, "PROGRAMS", ("sh",))
    monkeypatch.setattr(user_egress, "TUN", Path("/dev/net/no-such-device"))
    assert "/dev/net/no-such-device is missing" in user_egress.problem()


def test_no_program_opens_a_way_in_or_to_the_machines_loopback() -> None:
    """U3."""
    slirp = command("/usr/bin/slirp4netns", 42)
    assert {"--disable-host-loopback", "--disable-dns", "--enable-sandbox"} <= set(slirp)
    assert not any(word.startswith("--api-socket") for word in slirp)
    pasta = command("/usr/bin/pasta", 42)
    assert "--no-map-gw" in pasta
    for flag in ("-t", "-u", "-T", "-U"):
        assert pasta[pasta.index(flag) + 1] == "none"
