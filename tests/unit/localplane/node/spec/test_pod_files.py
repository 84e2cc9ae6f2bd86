from __future__ import annotations

from typing import Any

import pytest

from manta.localplane.node.spec.pod_files import Dns, hosts_file, resolv_conf
from support.node import a_pod

DNS = Dns("10.88.0.1", "cluster.local", "nameserver 192.0.2.1\n")


def test_a_pod_knows_itself_and_its_aliases() -> None:
    alias = {"ip": "10.0.0.9", "hostnames": ["db", "db.local"]}
    text = hosts_file(a_pod("head", hostAliases=[alias]), "10.88.0.2", "cluster.local")
    assert "127.0.0.1\tlocalhost\n" in text
    assert "10.88.0.2\thead\n" in text
    assert "10.0.0.9\tdb\tdb.local\n" in text


def test_a_pod_with_a_subdomain_has_a_full_name() -> None:
    pod = a_pod("w-0", hostname="w-0", subdomain="workers")
    text = hosts_file(pod, "10.88.0.2", "cluster.local")
    assert "10.88.0.2\tw-0.workers.default.svc.cluster.local\tw-0\n" in text


CLUSTER_FIRST = (
    "nameserver 10.88.0.1\n"
    "search default.svc.cluster.local svc.cluster.local cluster.local\n"
    "options ndots:5\n"
)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, CLUSTER_FIRST),
        ({"dnsPolicy": "Default"}, "nameserver 192.0.2.1\n"),
        ({"hostNetwork": True}, "nameserver 192.0.2.1\n"),
        ({"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}, CLUSTER_FIRST),
        (
            {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.1.1.1"], "searches": ["x"]}},
            "nameserver 1.1.1.1\nsearch x\n",
        ),
    ],
)
def test_names_are_resolved_by_policy(spec: dict[str, Any], expected: str) -> None:
    assert resolv_conf(a_pod(**spec), DNS) == expected


def test_dns_options_are_joined_with_the_policys() -> None:
    config = {"options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}]}
    assert resolv_conf(a_pod(dnsConfig=config), DNS).endswith("options ndots:2 edns0\n")
