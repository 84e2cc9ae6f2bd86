"""Words of a Pod are fitted to a network that it shares with others."""

from __future__ import annotations

from manta.localplane.node.podspec import Container, ContainerPort, NodePod, PodSpec
from manta.localplane.node.sharednet import Fitting, Seat, declared_ports, own_ports

SEAT = Seat("127.7.0.3", {52365: 40001, 8080: 8080})
FITTING = Fitting(SEAT, "cluster.local", lambda _, name: {"head": "127.7.0.2"}.get(name))


def test_a_start_is_told_its_address_and_its_ports() -> None:
    words = "ulimit -n 65536; ray start  --metrics-export-port=8080  --dashboard-agent-listen-port=52365 "
    told = "ray start --node-ip-address=127.7.0.3 --min-worker-port=0 --max-worker-port=0"
    assert FITTING.fit(words) == (
        f"ulimit -n 65536; {told}  --metrics-export-port=8080  --dashboard-agent-listen-port=40001 "
    )
    assert FITTING.fit(FITTING.fit(words)) == FITTING.fit(words)


def test_a_probe_asks_at_the_port_that_was_opened() -> None:
    wget = "wget -q -O- http://localhost:52365/api/local_raylet_healthz | grep success"
    assert FITTING.fit(wget) == wget.replace("52365", "40001")
    assert FITTING.fit("http://other:52365") == "http://other:52365"


def test_only_names_of_known_services_become_addresses() -> None:
    assert FITTING.fit("--address=head.ns.svc.cluster.local:6379") == "--address=127.7.0.2:6379"
    assert FITTING.fit("head.ns.svc") == "127.7.0.2"
    assert FITTING.fit("other.ns.svc.cluster.local") == "other.ns.svc.cluster.local"
    assert FITTING.fit("head.ns.svc.example.org") == "head.ns.svc.example.org"


def test_ports_that_programs_open_for_themselves_are_found_in_their_words() -> None:
    container = Container(
        name="c",
        args=("ray start --metrics-export-port=8080",),
        ports=(ContainerPort(container_port=8080), ContainerPort(container_port=6379)),
    )
    pod = NodePod(spec=PodSpec(containers=(container,)))
    assert own_ports(pod) == {8080}
    assert [*declared_ports(pod)] == [8080, 6379]
