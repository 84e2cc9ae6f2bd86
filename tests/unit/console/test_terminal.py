"""`manta top`, driven by keys in a terminal of Textual's."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Input, Static

from manta.api.resources import NODES
from manta.client.gpus import GpuRow
from manta.console.object_watch import ObjectWatch
from manta.console.snapshot import Snapshot
from manta.console.terminal import tables
from manta.console.terminal.app import FleetScreen, GpuScreen, ObjectScreen, TopApp
from manta.console.terminal.grid import Grid
from manta.console.terminal.source import VisitorSource
from manta.console.visitors import Visitor
from manta.kube.errors import Unreachable
from support.connector import LocalConnector
from support.console import NOW, node, pod, ray, ready_cluster, snapshot
from support.plane import memory_plane
from support.raycrds import ray_crds
from support.terminal import GPUS, FakeSource, fleet, gpu

SIZE = (140, 40)


def rows(app: TopApp, name: str) -> list[list[str]]:
    grid = app.screen.query_one(f"#{name}", Grid)
    return [[cell.plain for cell in grid.get_row_at(at)] for at in range(grid.row_count)]


def names(app: TopApp) -> list[str]:
    return [row[2] for row in rows(app, "fleet")]


def words(app: TopApp, name: str) -> str:
    shown = app.screen.query_one(f"#{name}", Static).visual
    return str(shown)


async def until(pilot: Pilot[None], reached: object) -> None:
    async with asyncio.timeout(30):
        while not reached():  # type: ignore[operator]
            await pilot.pause(0.02)


async def test_the_fleet_shows_every_object_and_what_it_waits_for() -> None:
    app = TopApp(FakeSource(fleet()))
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: len(names(app)) == 5)
        assert names(app) == ["demo", "nightly", "big", "train-llm", "chat"]
        job = next(row for row in rows(app, "fleet") if row[2] == "train-llm")
        assert (job[0], job[1], job[3]) == ("Job", "research", "failed")
        assert "code 1" in job[-1]
        assert "2 clusters, 1 job, 1 service, 1 cron job in 3 namespaces" in words(app, "headline")
        assert "1 failed" in words(app, "headline")
        assert "GPU" in words(app, "capacity")
        await pilot.press("down", "down")
        await until(pilot, lambda: "6 of 8 workers are not ready" in words(app, "why"))


async def test_a_change_reaches_the_screen_and_the_cursor_stays_on_its_object() -> None:
    source = FakeSource(fleet())
    app = TopApp(source)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: len(names(app)) == 5)
        grid = app.screen.query_one(Grid)
        chosen = grid.chosen
        assert names(app)[grid.cursor_row] == "demo"
        found = source.snapshot().items
        source.change(items=(ready_cluster("aaa"), *found))
        await until(pilot, lambda: "aaa" in names(app))
        assert grid.chosen == chosen
        suspended = [replace(one, state=replace(one.state, word="suspended")) for one in found]
        source.change(items=tuple(suspended))
        await until(pilot, lambda: rows(app, "fleet")[0][3] == "suspended")


async def test_a_filter_hides_what_does_not_match_and_escape_clears_it() -> None:
    app = TopApp(FakeSource(fleet()))
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: len(names(app)) == 5)
        await pilot.press("slash", *"train")
        await until(pilot, lambda: names(app) == ["train-llm"])
        await pilot.press("enter")
        assert isinstance(app.focused, Grid)
        await pilot.press("slash", *"-nothing")
        assert names(app) == []
        assert "no object matches" in words(app, "nothing")
        await pilot.press("escape")
        assert len(names(app)) == 5
        assert app.screen.query_one(Input).value == ""


async def test_keys_sort_and_choose_kind_and_state() -> None:
    app = TopApp(FakeSource(fleet()))
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: len(names(app)) == 5)
        screen = app.screen
        assert isinstance(screen, FleetScreen)
        await pilot.press("s")
        assert screen.chosen.sort == "name"
        assert names(app) == sorted(names(app))
        await pilot.press("r")
        assert names(app) == sorted(names(app), reverse=True)
        await pilot.press("k")
        assert set(names(app)) == {"demo", "big"}
        await pilot.press("k", "k", "k", "k", "t", "t", "t")
        assert names(app) == ["train-llm"]


async def test_enter_opens_an_object_with_conditions_pods_and_events() -> None:
    app = TopApp(FakeSource(fleet(), GPUS))
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: len(names(app)) == 5)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, ObjectScreen))
        await until(pilot, lambda: len(rows(app, "pods")) == 3)
        assert "RayCluster default/demo" in words(app, "headline")
        assert [row[0] for row in rows(app, "conditions")] == [
            "HeadPodReady",
            "RayClusterProvisioned",
        ]
        pods = {row[0]: row for row in rows(app, "pods")}
        assert pods["demo-worker-1"][3] == "0: 87 %"
        assert "Insufficient cpu" in pods["demo-worker-2"][-1]
        assert "no node has enough CPUs" in [row[4] for row in rows(app, "events")]
        await pilot.press("escape")
        assert isinstance(app.screen, FleetScreen)


async def test_an_object_that_is_deleted_while_it_is_open_says_so() -> None:
    source = FakeSource(fleet())
    app = TopApp(source)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: len(names(app)) == 5)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, ObjectScreen))
        source.change(items=())
        await until(pilot, lambda: "deleted" in words(app, "headline"))


async def test_the_gpus_are_shown_with_use_memory_and_whose_they_are() -> None:
    app = TopApp(FakeSource(fleet(), GPUS))
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: len(names(app)) == 5)
        await pilot.press("g")
        await until(pilot, lambda: isinstance(app.screen, GpuScreen))
        await until(pilot, lambda: len(rows(app, "gpus")) == 4)
        first, second, _, last = rows(app, "gpus")
        assert first[2].endswith("87 %")
        assert first[3].endswith("96.0 GiB of 140.0 GiB")
        assert first[4:6] == ["default/demo-worker-1", "demo"]
        assert second[4] == "nobody"
        assert (last[2], last[6]) == ("unknown", "fell off the bus")
        assert "4 GPUs, 2 of them held by Pods" in words(app, "headline")


async def test_without_nodes_that_tell_the_requests_for_gpus_are_shown() -> None:
    app = TopApp(FakeSource(fleet()))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("g")
        await until(pilot, lambda: isinstance(app.screen, GpuScreen))
        await until(pilot, lambda: len(rows(app, "gpus")) == 1)
        assert rows(app, "gpus")[0][1:6] == [
            "1 requested", "unknown", "unknown", "default/demo-worker-1", "demo",
        ]  # fmt: skip


async def test_why_nodes_cannot_be_asked_is_shown() -> None:
    class Refusing(FakeSource):
        async def gpus(self, snapshot: Snapshot) -> tuple[GpuRow, ...]:
            raise Unreachable("the API server went away", sent=False)

    app = TopApp(Refusing(fleet()))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("g")
        await until(pilot, lambda: isinstance(app.screen, GpuScreen))
        await until(pilot, lambda: "the API server went away" in words(app, "headline"))


async def test_the_gpus_of_a_node_come_from_the_node() -> None:
    reading = {"busy": 37, "used": 2 * 2**30, "error": ""}
    device = {"index": 0, "model": "NVIDIA H200", "id": "GPU-1", "memory": 140 * 2**30}
    found = {"gpu": device, "reading": reading, "pod": "default/worker", "processes": []}

    class Connector(LocalConnector):
        async def node_document(self, node: str, path: str) -> Any:
            return [found] if path == "gpus" else None

    async with memory_plane(crds=ray_crds()) as plane:
        plane.app.connector = Connector()
        capacity = {"nvidia.com/gpu": "1", "cpu": "8", "memory": "8Gi"}
        body = {
            "metadata": {"name": "node-1"},
            "status": {"capacity": capacity, "allocatable": capacity},
        }
        await plane.client.create(NODES, "", body)
        watch = ObjectWatch(plane.client, plane.clock)
        visitor = Visitor(plane.client, watch, plane.clock)
        await watch.start()
        source = VisitorSource(visitor, "https://here")
        [one] = await source.gpus(source.snapshot())
        assert (one.busy, one.pod, one.model) == (37, "default/worker", "NVIDIA H200")
        await visitor.close()


async def test_what_a_user_may_not_see_is_named() -> None:
    hidden = {"nodes": "you may not list nodes", "rayjobs": "you may not list rayjobs.ray.io"}
    app = TopApp(FakeSource(snapshot(hidden=hidden)))
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: "nodes" in words(app, "notes"))
        assert "you may not list rayjobs.ray.io" in words(app, "nothing")
        assert "requested" in words(app, "capacity")


async def test_markup_and_control_characters_of_strangers_are_text() -> None:
    evil = "[@click=app.quit]x[/] \x1b]0;owned\x07 [red]"
    job = ray("RayJob", "evil", {"jobDeploymentStatus": "Failed", "message": evil})
    shown = snapshot(job, pods=(pod("evil-pod", "evil", ready=False, why=evil),))
    app = TopApp(FakeSource(shown))
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: len(names(app)) == 1)
        said = rows(app, "fleet")[0][-1]
        assert "[@click=app.quit]x[/]" in said
        assert "\x1b" not in said
        await pilot.press("slash", *"[/@click")
        assert names(app) == []
        await pilot.press("escape", "enter")
        await until(pilot, lambda: isinstance(app.screen, ObjectScreen))
        assert "\x1b" not in words(app, "why")


async def test_q_ends_it() -> None:
    app = TopApp(FakeSource(fleet()))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("q")
        await until(pilot, lambda: not app.is_running)


def test_a_thousand_objects_are_rows_without_textual() -> None:
    items = tuple(ready_cluster(f"c{number:04}") for number in range(1000))
    found = Snapshot(now=NOW, items=items)
    assert len([tables.fleet_row(one, NOW) for one in found.items]) == 1000
    assert tables.headline(found)[0].text == "1000 clusters in 1 namespace"


def test_what_runs_on_cordoned_nodes_is_left_out_as_are_the_nodes() -> None:
    pods = (pod("a", "small"), pod("b", "small", node="away"))
    nodes = (node(), node("away", unschedulable=True))
    both, one = snapshot(pods=pods, nodes=nodes), snapshot(pods=pods[:1], nodes=nodes[:1])
    assert tables.capacity(both) == tables.capacity(one)


def test_a_gpu_without_an_answer_shows_its_error() -> None:
    [row] = tables.gpu_rows(fleet(), [gpu(0, "", None, 0, "Forbidden")])
    assert (row[2].text, row[6].text, row[6].tone) == ("unknown", "Forbidden", "bad")


def test_text_is_cut_to_one_line() -> None:
    assert tables.cell("a\nb\tc").text == "a b c"
