"""The fleet: filters, order, and the page as a golden file."""

from __future__ import annotations

import re

import pytest

from manta.client.gpus import GpuRow
from manta.console.pages.fleet import ROWS, Filter, filter_of, fleet, matches
from manta.console.pages.page import Page
from manta.console.snapshot import Snapshot
from support.console import condition, node, pod, ray, ready_cluster, snapshot

STARTING = ray(
    "RayCluster",
    "big",
    {"conditions": [condition("HeadPodReady", False, "Pod big-head cannot be scheduled: no GPU")]},
    namespace="research",
)
FAILED = ray("RayJob", "train", {"jobDeploymentStatus": "Failed", "message": "Traceback: boom"})
UPGRADING = ray(
    "RayService",
    "shop",
    {"conditions": [condition("Ready", True), condition("UpgradeInProgress", True, "40 % moved")]},
)


def names(page: Page) -> list[str]:
    [table] = [one.table for one in page.sections if one.table]
    return [row.rpartition("-")[2] for row in table.rows]


def some() -> Snapshot:
    return snapshot(
        ready_cluster("small"),
        STARTING,
        FAILED,
        UPGRADING,
        pods=(pod("small-head", "small"),),
        nodes=(node(),),
    )


def test_a_starting_cluster_waits_and_has_not_failed() -> None:
    assert matches(STARTING, Filter(tone="wait"))
    assert not matches(STARTING, Filter(tone="bad"))


def test_a_cluster_that_its_autoscaler_has_emptied_is_idle() -> None:
    spec = {"enableInTreeAutoscaling": True, "headGroupSpec": {"template": {}}}
    held = [condition("HeadPodReady", True), condition("RayClusterProvisioned", True)]
    status = {"state": "ready", "conditions": held, "desiredWorkerReplicas": 0}
    empty = ray("RayCluster", "empty", status, spec=spec)
    busy = ray("RayCluster", "busy", {**status, "desiredWorkerReplicas": 1}, spec=spec)
    shown = fleet(snapshot(empty, busy), Filter(tone="calm"))
    assert names(shown) == ["empty"]
    assert badges(shown) == ["idle"]  # as the tile says that counts it
    assert names(fleet(snapshot(empty, busy), Filter(text="idle"))) == ["empty"]
    assert badges(fleet(snapshot(busy), Filter())) == ["ready"]


def badges(page: Page) -> list[str]:
    [table] = [one.table for one in page.sections if one.table]
    rows = " ".join(str(one) for one in table.rows.values())
    return re.findall(r'class="badge \w+"><span[^>]*></span>([^<]*)<', rows)


def test_what_runs_on_cordoned_nodes_is_left_out_as_are_the_nodes() -> None:
    pods = (pod("a", "small"), pod("b", "small", node="away"))
    nodes = (node(), node("away", unschedulable=True))
    both = snapshot(ready_cluster("small"), pods=pods, nodes=nodes)
    one = snapshot(ready_cluster("small"), pods=pods[:1], nodes=nodes[:1])
    assert (both.requested, both.offered) == (one.requested, one.offered)
    assert "requested by Ray on 1 node; without 1 that is cordoned" in fleet(both, Filter()).body()


@pytest.mark.parametrize("amount", ["1e400", "-1e400"])
def test_an_amount_beyond_every_float_hides_no_other_object(amount: str) -> None:
    """Kubernetes accepts it in a Pod template, and the status adds it up."""
    status = {"desiredCPU": amount, "desiredMemory": amount, "desiredGPU": amount}
    odd = ray("RayCluster", "odd", status)
    pods = (pod("a", "small", cpu=amount),)
    both = snapshot(odd, ready_cluster("small"), pods=pods, nodes=(node(),))
    for order in ("cpu", "namespace"):
        assert sorted(names(fleet(both, Filter(sort=order)))) == ["odd", "small"]


def test_the_search_looks_at_names_states_and_reasons() -> None:
    assert names(fleet(some(), Filter(text="GPU scheduled"))) == ["big"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ((("kind", "RayJob"),), ["train"]),
        ((("namespace", "research"),), ["big"]),
        ((("state", "bad"),), ["train"]),
        ((("sort", "name"),), ["big", "shop", "small", "train"]),
        ((("sort", "name"), ("down", "1")), ["train", "small", "shop", "big"]),
        ((("sort", "state"),), ["train", "big", "small", "shop"]),
        ((("sort", "nonsense"), ("first", "x")), ["small", "train", "shop", "big"]),
    ],
)
def test_the_query_filters_and_sorts(query: tuple[tuple[str, str], ...], found: list[str]) -> None:
    assert names(fleet(some(), filter_of(query))) == found


def test_a_filter_survives_its_own_address() -> None:
    chosen = Filter("a b", "RayJob", "x&y", "bad", "age", down=True, first=200)
    from urllib.parse import parse_qsl

    assert filter_of(parse_qsl(chosen.query())) == chosen


def test_an_upgrade_of_a_ready_service_is_said() -> None:
    [table] = [one.table for one in fleet(some(), Filter()).sections if one.table]
    assert "upgrade: 40 % moved" in table.rows["object-uid-RayService-shop"]


def test_a_large_fleet_is_shown_in_pages() -> None:
    many = snapshot(*(ready_cluster(f"c{number:04}") for number in range(ROWS + 5)))
    assert len(names(fleet(many, Filter()))) == ROWS
    assert names(fleet(many, Filter(first=ROWS))) == [f"c{ROWS + at:04}" for at in range(5)]
    assert f"1 to {ROWS} of {ROWS + 5}" in fleet(many, Filter()).body()


def test_capacity_says_what_is_requested_and_what_the_nodes_have() -> None:
    body = fleet(some(), Filter()).body()
    assert "2 of 16" in body
    assert "4.0 GiB of 64.0 GiB" in body


def test_a_user_who_may_not_see_nodes_is_told_so() -> None:
    body = fleet(snapshot(hidden={"nodes": "you may not list nodes"}), Filter()).body()
    assert "you may not list nodes" in body


def test_each_gpu_is_shown_with_its_pod_and_with_what_holds_it_without_one() -> None:
    leak = {"pid": 4711, "uid": "u-1", "memory": 1 << 30, "since": "2026-11-18T12:00:00Z"}
    gpus = (
        GpuRow("node-1", 0, "NVIDIA H200", "GPU-1", 37, 2 << 30, 140 << 30, "default/demo", "", ()),
        GpuRow("node-1", 1, "NVIDIA H200", "GPU-2", 0, 1 << 30, 140 << 30, "", "", (leak,)),
    )
    page = fleet(some(), Filter(), gpus).body()
    assert "0 NVIDIA H200: 37 %, 2.0 GiB of 140.0 GiB" in page
    assert "default/demo" in page
    said = "process 4711 of Pod u-1, which is gone, holds 1.0 GiB since 2026-11-18T12:00:00Z"
    assert said in page
    assert "Processes without a Pod" not in fleet(some(), Filter()).body()


def test_kinds_that_one_may_not_see_are_named_above_the_others() -> None:
    why = "you may not list rayjobs.ray.io"
    assert (
        why in fleet(snapshot(ready_cluster("demo"), hidden={"rayjobs": why}), filter_of(())).body()
    )
