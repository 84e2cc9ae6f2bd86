"""Commands are rewritten for a network that several Pods share."""

from __future__ import annotations

from manta.cli.plane.foreground import RAY_PROGRAMS
from manta.localplane.node.net.command_rewriter import (
    CommandRewriter,
    PortMapping,
    declared_ports,
)
from manta.localplane.node.spec.pod_spec import Container, ContainerPort, NodePod, PodSpec

MAPPING = PortMapping("127.7.0.3", {52365: 40001, 8080: 8080})
REWRITER = CommandRewriter(
    MAPPING, "cluster.local", lambda _, name: {"head": "127.7.0.2"}.get(name), RAY_PROGRAMS
)


def test_a_start_gets_its_address_and_its_ports() -> None:
    words = "ulimit -n 65536; ray start  --metrics-export-port=8080  --dashboard-agent-listen-port=52365 "
    reported = "ray start --node-ip-address=127.7.0.3 --min-worker-port=0 --max-worker-port=0"
    assert REWRITER.rewrite(words) == (
        f"ulimit -n 65536; {reported}  --metrics-export-port=8080  --dashboard-agent-listen-port=40001 "
    )
    assert REWRITER.rewrite(REWRITER.rewrite(words)) == REWRITER.rewrite(words)


def test_a_probe_asks_at_the_port_that_was_opened() -> None:
    wget = "wget -q -O- http://localhost:52365/api/local_raylet_healthz | grep success"
    assert REWRITER.rewrite(wget) == wget.replace("52365", "40001")
    assert REWRITER.rewrite("http://other:52365") == "http://other:52365"


def test_only_names_of_known_services_become_addresses() -> None:
    assert (
        REWRITER.rewrite("--address=head.ns.svc.cluster.local:6379") == "--address=127.7.0.2:6379"
    )
    assert REWRITER.rewrite("head.ns.svc") == "127.7.0.2"
    assert REWRITER.rewrite("other.ns.svc.cluster.local") == "other.ns.svc.cluster.local"
    assert REWRITER.rewrite("head.ns.svc.example.org") == "head.ns.svc.example.org"


def test_ports_that_programs_open_for_themselves_are_found_in_their_words() -> None:
    container = Container(
        name="c",
        args=("ray start --metrics-export-port=8080",),
        ports=(ContainerPort(container_port=8080), ContainerPort(container_port=6379)),
    )
    pod = NodePod(spec=PodSpec(containers=(container,)))
    assert RAY_PROGRAMS.own_ports(pod) == {8080}
    assert [*declared_ports(pod)] == [8080, 6379]


def test_without_a_table_only_names_and_local_ports_are_rewritten() -> None:
    rewriter = CommandRewriter(MAPPING, "cluster.local", lambda *_: None)
    start = "ray start --metrics-export-port=52365 http://localhost:52365"
    assert rewriter.rewrite(start) == start.replace("localhost:52365", "localhost:40001")
