"""Filtering and scoring of nodes, and the message when none fits."""

from __future__ import annotations

from typing import Any

import pytest

from manta.api import selectors
from manta.localplane.builtin.views import Node, Pod
from manta.localplane.scheduler.node_cache import NodeCache, pod_info
from manta.localplane.scheduler.placement import NoFit, Placement, place
from support.plane_objects import a_node, a_pod, owned_by


def node_cache(*nodes: Node, pods: dict[str, list[Pod]] | None = None) -> NodeCache:
    cache = NodeCache()
    for node in nodes:
        cache.set_node(node)
    for name, placed_here in (pods or {}).items():
        for pod in placed_here:
            cache.place(pod, name)
    return cache


def placed(pod: Pod, cache: NodeCache) -> str:
    match place(pod_info(pod), cache.nodes()):
        case Placement(node):
            return node
        case NoFit() as no_fit:
            return no_fit.message()


def test_the_emptiest_node_is_chosen() -> None:
    cache = node_cache(a_node("n1"), a_node("n2"), pods={"n1": [a_pod("old", cpu="1")]})
    assert placed(a_pod(cpu="1"), cache) == "n2"


def test_among_equal_scores_the_first_name_wins() -> None:
    assert placed(a_pod(cpu="1"), node_cache(a_node("b"), a_node("a"))) == "a"


def test_siblings_are_spread_over_the_nodes() -> None:
    def worker(name: str) -> Pod:
        return a_pod(name, meta=owned_by("ReplicaSet", "r", "uid-r"))

    cache = node_cache(a_node("n1", cpu="64"), a_node("n2"), pods={"n1": [worker("w1")]})
    assert placed(worker("w2"), cache) == "n2"


def test_a_pod_that_fits_nowhere_gets_the_message_of_kubernetes() -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    cache = node_cache(
        a_node("n1", cpu="1"), a_node("n2", taints=[taint]), a_node("n3", taints=[taint])
    )
    assert placed(a_pod(cpu="2"), cache) == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s)."
    )


def test_without_nodes_the_message_says_so() -> None:
    assert placed(a_pod(), node_cache()) == "no nodes available to schedule pods"


@pytest.mark.parametrize(
    ("node", "pod", "why"),
    [
        (a_node(unschedulable=True), a_pod(), "node(s) were unschedulable"),
        (a_node(pods="0"), a_pod(), "Too many pods"),
        (
            a_node(labels={"zone": "a"}),
            a_pod(nodeSelector={"zone": "b"}),
            "node(s) didn't match Pod's node affinity/selector",
        ),
        (a_node(memory="1Gi"), a_pod(memory="2Gi"), "Insufficient memory"),
    ],
    ids=["cordoned", "full", "selector", "memory"],
)
def test_a_node_refuses_with_a_reason(node: Node, pod: Pod, why: str) -> None:
    assert placed(pod, node_cache(node)) == f"0/1 nodes are available: 1 {why}."


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists"},
        {"key": "gpu", "operator": "Exists"},
        {"key": "gpu", "operator": "Equal", "value": "yes"},
        {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
    ],
)
def test_a_toleration_opens_a_tainted_node(toleration: dict[str, str]) -> None:
    node = a_node(taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}])
    assert placed(a_pod(tolerations=[toleration]), node_cache(node)) == "n1"


@pytest.mark.parametrize(
    "toleration",
    [{"key": "gpu", "value": "no"}, {"key": "gpu", "operator": "Exists", "effect": "NoExecute"}],
)
def test_a_toleration_of_something_else_does_not(toleration: dict[str, str]) -> None:
    node = a_node(taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}])
    assert placed(a_pod(tolerations=[toleration]), node_cache(node)) != "n1"


def node_affinity(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = [{"matchExpressions": [one]} for one in expressions]
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
        }
    }


@pytest.mark.parametrize(
    ("expression", "fits"),
    [
        ({"key": "cores", "operator": "In", "values": ["8"]}, True),
        ({"key": "cores", "operator": "NotIn", "values": ["8"]}, False),
        ({"key": "cores", "operator": "Exists"}, True),
        ({"key": "cores", "operator": "DoesNotExist"}, False),
        ({"key": "cores", "operator": "Gt", "values": ["7"]}, True),
        ({"key": "cores", "operator": "Lt", "values": ["7"]}, False),
        ({"key": "cores", "operator": "Gt", "values": ["many"]}, False),
    ],
)
def test_node_affinity_reads_labels(expression: dict[str, Any], fits: bool) -> None:
    cache = node_cache(a_node(labels={"cores": "8"}))
    assert (placed(a_pod(affinity=node_affinity(expression)), cache) == "n1") is fits


def test_one_matching_term_is_enough() -> None:
    terms = node_affinity(
        {"key": "zone", "operator": "In", "values": ["x"]}, {"key": "cores", "operator": "Exists"}
    )
    assert placed(a_pod(affinity=terms), node_cache(a_node(labels={"cores": "8"}))) == "n1"


def test_a_preferred_node_outweighs_a_little_more_free_memory() -> None:
    preferred = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 100,
                    "preference": {"matchExpressions": [{"key": "fast", "operator": "Exists"}]},
                }
            ]
        }
    }
    cache = node_cache(a_node("n1", cpu="64"), a_node("n2", labels={"fast": ""}))
    assert placed(a_pod(cpu="1", affinity=preferred), cache) == "n2"


def anti_affinity(app: str) -> dict[str, Any]:
    term = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_anti_affinity_keeps_pods_apart_both_ways() -> None:
    shy = a_pod("shy", labels={"app": "a"}, affinity=anti_affinity("a"))
    plain = a_pod("plain", labels={"app": "a"})
    node = a_node(labels={"host": "n1"})
    assert "anti-affinity" in placed(shy, node_cache(node, pods={"n1": [plain]}))
    assert "existing pods anti-affinity" in placed(plain, node_cache(node, pods={"n1": [shy]}))


def test_pods_that_want_to_be_together_may_start_anywhere_and_then_follow() -> None:
    term = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "a"}}}
    together = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    first = a_pod("first", labels={"app": "a"}, affinity=together)
    second = a_pod("second", labels={"app": "a"}, affinity=together)
    nodes = (a_node("n1", labels={"host": "n1"}), a_node("n2", labels={"host": "n2"}))
    assert placed(first, node_cache(*nodes)) == "n1"
    assert placed(second, node_cache(*nodes, pods={"n2": [first]})) == "n2"


def test_a_host_port_is_used_once_per_node() -> None:
    def with_port(name: str) -> Pod:
        ports = [{"containerPort": 80, "hostPort": 80}]
        return a_pod(name, containers=[{"name": "c", "ports": ports}])

    cache = node_cache(a_node(), pods={"n1": [with_port("a")]})
    assert "free ports" in placed(with_port("b"), cache)


def test_a_released_pod_frees_its_resources() -> None:
    old = a_pod("old", cpu="4")
    cache = node_cache(a_node(), pods={"n1": [old]})
    assert "Insufficient cpu" in placed(a_pod(cpu="1"), cache)
    cache.release(old.metadata.uid)
    assert placed(a_pod(cpu="1"), cache) == "n1"


def test_a_node_that_comes_back_still_has_its_pods() -> None:
    cache = node_cache(pods={"n1": [a_pod("old", cpu="4")]})
    cache.set_node(a_node())
    assert "Insufficient cpu" in placed(a_pod(cpu="1"), cache)


def test_the_selector_of_a_term_is_not_read_again_for_every_pod(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A Pod with 8,000 terms beside 100 Pods held up the whole plane for 5 s."""
    read: list[Any] = []
    original = selectors.from_object

    def counted(one: Any) -> Any:
        read.append(one)
        return original(one)

    monkeypatch.setattr(selectors, "from_object", counted)
    node = a_node("n1", pods="500", labels={"kubernetes.io/hostname": "n1"})
    cache = node_cache(node, pods={"n1": [a_pod(f"p{number}") for number in range(50)]})
    terms = [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": str(n)}}}
        for n in range(10)
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    assert placed(a_pod(affinity={"podAntiAffinity": required}), cache) == "n1"
    assert len(read) == 10
