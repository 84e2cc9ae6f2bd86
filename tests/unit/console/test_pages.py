"""Every page as a golden file; `make golden` writes them again, and the diff is the review."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from math import nan
from pathlib import Path

import msgspec
import pytest

from manta.client.gpus import GpuRow
from manta.console.live import AutoscalerReport, Demand, Live, TaskInfo
from manta.console.operator_metrics import Controller, Reading
from manta.console.operators import OperatorView
from manta.console.pages import messages
from manta.console.pages.actions import BY_WORD, confirmation
from manta.console.pages.events import events_page
from manta.console.pages.fleet import Filter, fleet
from manta.console.pages.forecast import Forecast, forecast_html
from manta.console.pages.layout import Frame, document
from manta.console.pages.login import login_page, token_form
from manta.console.pages.logs import ContainerChoice, log_page
from manta.console.pages.objects import object_page
from manta.console.pages.operator import operator_page
from manta.console.pages.page import Page
from manta.console.pages.parts import MAX_PODS, pods_section, sentence
from manta.console.pages.plan import plan_page
from manta.console.plots import Line, steps
from manta.console.snapshot import Item, Sample, Snapshot
from manta.console.views import Event, Pod
from manta.ray.models import TaskList, _TaskData, _TaskRows
from support.console import (
    CREATED,
    NOW,
    condition,
    event,
    node,
    pod,
    ray,
    ready_cluster,
    snapshot,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "console"
CLUSTER = ready_cluster("demo", autoscaler=True)
JOB = ray(
    "RayJob",
    "train",
    {
        "jobDeploymentStatus": "Failed",
        "jobStatus": "FAILED",
        "message": "Traceback (most recent call last):\n\x1b[36mValueError\x1b[39m: <b>boom</b>",
        "rayClusterName": "demo",
        "startTime": CREATED,
        "endTime": "2026-11-18T11:50:00Z",
        "failed": 2,
        "conditions": [condition("Failed", True, "the entrypoint failed")],
    },
    spec={"entrypoint": "python train.py", "backoffLimit": 1},
)
SERVICE = ray(
    "RayService",
    "shop",
    {
        "activeServiceStatus": {
            "rayClusterName": "shop-a",
            "trafficRoutedPercent": 60,
            "targetCapacity": 100,
            "applicationStatuses": {
                "web": {
                    "status": "RUNNING",
                    "serveDeploymentStatuses": {"Model": {"status": "HEALTHY"}},
                }
            },
        },
        "pendingServiceStatus": {
            "rayClusterName": "shop-b",
            "trafficRoutedPercent": 40,
            "targetCapacity": 50,
            "applicationStatuses": {"web": {"status": "DEPLOYING", "message": "2 of 4 replicas"}},
        },
        "numServeEndpoints": 3,
        "observedGeneration": 1,
        "conditions": [condition("UpgradeInProgress", True, "40 % of the traffic is moved")],
    },
)
CRON = ray("RayCronJob", "nightly", {"lastScheduleTime": CREATED}, spec={"schedule": "0 3 * * *"})
RUN = ray("RayJob", "nightly-1", {"jobDeploymentStatus": "Complete"}, owner=CRON)


def allowed(*_: object) -> bool:
    return True


def whole() -> Snapshot:
    later = NOW - timedelta(minutes=5)
    return snapshot(
        CLUSTER, JOB, SERVICE, CRON, RUN,
        pods=(pod("demo-head", "demo", type="head", group="headgroup"), pod("demo-w", "demo", ready=False)),
        nodes=(node(),),
        events=(
            event("e1", CLUSTER, "Created Pod demo-head"),
            event("e2", JOB, "boom", "Warning"),
            event("e3", JOB, "Created RayCluster default/train-1", reason="CreatedRayCluster"),
        ),
        samples={
            CLUSTER.uid: (Sample(later, (0, 2)), Sample(later + timedelta(minutes=2), (2, 2))),
            SERVICE.uid: (Sample(later, (100, 100, 0, 0)), Sample(NOW, (60, 100, 40, 50))),
        },
    )  # fmt: skip


GPU = GpuRow("node-1", 0, "NVIDIA H200", "GPU-1", 37, 2 << 30, 140 << 30, "default/demo-w", "", ())
LIVE = Live(
    autoscaler=AutoscalerReport(
        active=("1 headgroup",), pending=("small, 2 launching",), demands=(Demand("{'CPU': 1.0}", 3, "pending tasks/actors"),),
    ),
    waiting=(Sample(NOW - timedelta(minutes=1), (0, 0)), Sample(NOW, (3, 2))),
    failed_tasks=TaskList(_TaskData(_TaskRows((TaskInfo("load", "TASK_EXECUTION_EXCEPTION", "ValueError: <i>"),)))),
    gpus=(GPU,),
    asks=True,
)  # fmt: skip


OPERATOR = OperatorView(
    tuple(
        Reading(NOW - timedelta(seconds=ago), (Controller("raycluster", 3, 7, 1, done, 1, ((0.1, done), (float("inf"), done))),))
        for ago, done in ((5, 100.0), (0, 120.0))
    ),
    (Sample(NOW - timedelta(seconds=5), (0, 7, 0, 0, 0)), Sample(NOW, (3, 7, 4, 0, 95))),
)  # fmt: skip


def of(one: Item) -> Callable[[], Page]:
    return lambda: object_page(whole(), one, allowed, LIVE)


PAGES: Mapping[str, Callable[[], Page]] = {
    "fleet": lambda: fleet(whole(), Filter(), (GPU,)),
    "cluster": of(CLUSTER),
    "job": of(JOB),
    "service": of(SERVICE),
    "cron": of(CRON),
    "operator": lambda: operator_page(whole(), OPERATOR),
    "events": lambda: events_page(whole(), warnings=False),
    "plan": lambda: plan_page(
        "kind: RayCluster\n", (Forecast("all Pods are created", ("1. create",)),)
    ),
    "confirm": lambda: confirmation(
        CLUSTER, BY_WORD["suspend"], Forecast("all Pods are deleted"), {}
    ),
    "log": lambda: log_page(
        "Log of x",
        ("default/x", "/"),
        "/pods/default/x/log",
        "a\n<b>\n",
        "",
        ContainerChoice(("ray-head", "autoscaler"), "autoscaler"),
    ),
    "login": lambda: login_page(token_form(), "no such token"),
}


def lines(page: Page) -> str:
    """One tag in each line, so that a diff can be read."""
    return document(page, Frame("ada", "https://server"), "/").replace("><", ">\n<") + "\n"


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_its_golden_file(name: str) -> None:
    path, text = GOLDEN / f"{name}.html", lines(PAGES[name]())
    if os.environ.get("MANTA_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text(), f"differs from {path}; MANTA_GOLDEN=1 writes it again"


def test_every_golden_file_belongs_to_a_page() -> None:
    assert {path.stem for path in GOLDEN.glob("*.html")} == set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_every_id_of_a_page_is_there_once(name: str) -> None:
    import re

    ids = re.findall(r' id="([^"]*)"', lines(PAGES[name]()))
    assert len(ids) == len(set(ids))


def test_a_user_without_rights_gets_no_button() -> None:
    page = object_page(whole(), CLUSTER, lambda *_: False)
    assert "/suspend" not in page.body()
    assert "/rayclusters/default/demo/suspend" in object_page(whole(), CLUSTER, allowed).body()


def test_a_cluster_that_sleeps_says_so_with_its_hours_and_can_be_resumed() -> None:
    said = "idle since 2026-11-18T09:00:00Z, suspended after 30m; resume: manta resume sleeper"
    usage = "none 2026-11-18T10:00:00Z 0 0;total 8 4 2 1;2026-11-18 8 4 2 1"
    sleeper = ray(
        "RayCluster",
        "sleeper",
        {"conditions": [condition("Idle", True, said)]},
        spec={"suspend": True},
        annotations={"manta.ray.io/usage": usage},
    )
    body = object_page(snapshot(sleeper), sleeper, allowed).body()
    assert said in body
    assert "used 8.0 CPU-hours and 2.0 GPU-hours, idle 4.0 and 1.0" in body
    assert "/rayclusters/default/sleeper/resume" in body


def evil_live() -> Live:
    tasks = TaskList(_TaskData(_TaskRows((TaskInfo(EVIL, EVIL, EVIL),))))
    row = GpuRow(EVIL, 0, EVIL, EVIL, 1, 1, 1, f"{EVIL}/{EVIL}", EVIL, ())
    report = AutoscalerReport((EVIL,), (EVIL,), (EVIL,), (EVIL,), (EVIL,), (EVIL,), (Demand(EVIL, 1, EVIL),))  # fmt: skip
    return Live(report, (), tasks, (row,), asks=True)


EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


def test_nothing_that_users_write_becomes_markup() -> None:
    hostile = ray(
        "RayCluster",
        EVIL,
        {"conditions": [condition(EVIL, False, EVIL, EVIL)], "head": {"podName": EVIL}},
        namespace=EVIL,
        labels={EVIL: EVIL},
        spec={
            "enableInTreeAutoscaling": True,
            "rayVersion": EVIL,
            "workerGroupSpecs": [{"groupName": EVIL, "maxReplicas": EVIL}],
        },
    )
    job = ray(
        "RayJob",
        EVIL,
        {"jobDeploymentStatus": "Failed", "message": EVIL, "jobId": EVIL},
        spec={"entrypoint": EVIL},
    )
    app = {"status": EVIL, "message": EVIL, "serveDeploymentStatuses": {EVIL: {"message": EVIL}}}
    service = ray(
        "RayService",
        EVIL,
        {"activeServiceStatus": {"rayClusterName": EVIL, "applicationStatuses": {EVIL: app}}},
    )
    cron = ray("RayCronJob", EVIL, spec={"schedule": EVIL, "timeZone": EVIL})
    seen = snapshot(
        hostile, job, service, cron,
        pods=(pod(EVIL, EVIL, namespace=EVIL, ready=False, why=EVIL),),
        events=(event("e", hostile, EVIL, EVIL), event("f", job, EVIL)),
        hidden={"nodes": EVIL},
    )  # fmt: skip
    pages = [
        fleet(seen, Filter(text=EVIL, namespace=EVIL)),
        fleet(seen, Filter(), evil_live().gpus),
        *(object_page(seen, one, allowed, evil_live()) for one in seen.items),
        *(confirmation(one, action, Forecast(EVIL, (EVIL,), (EVIL,)), {"group": EVIL}) for one in seen.items for action in BY_WORD.values()),
        events_page(seen, warnings=False),
        plan_page(EVIL, (Forecast(EVIL, (EVIL,), (EVIL,)),)),
        log_page(EVIL, (EVIL, "/"), "/x", EVIL),
        messages.failed(EVIL),
        messages.missing(EVIL),
    ]  # fmt: skip
    for page in pages:
        text = document(page, Frame(EVIL, EVIL), f"/{EVIL}", EVIL)
        assert EVIL not in text
        assert "<img src=x" not in text
        assert text.count("<script") == 1  # ours


# ── rows ─────────────────────────────────────────────────────────────────────────────────


def pod_names(*pods: Pod) -> list[str]:
    table = pods_section(pods, NOW).table
    assert table is not None
    return [row.removeprefix("pod-uid-") for row in table.rows]


def test_pods_that_are_not_ready_come_after_the_head_and_before_the_rest() -> None:
    head = pod("z-head", "demo", type="head")
    assert pod_names(pod("a", "demo"), pod("b", "demo", ready=False), head) == ["z-head", "b", "a"]


def test_a_thousand_pods_are_a_page_of_the_first_and_a_sentence() -> None:
    pods = [pod(f"w{number:04}", "demo", ready=number != 700) for number in range(1000)]
    section = pods_section(pods, NOW)
    assert pod_names(*pods)[:2] == ["w0700", "w0000"]
    assert len(pod_names(*pods)) == MAX_PODS
    assert "the first 200 of 1000" in section.body


def test_an_event_leads_to_its_object_and_that_of_a_pod_to_its_cluster() -> None:
    seen = snapshot(
        CLUSTER,
        pods=(pod("demo-w", "demo"),),
        events=(
            event("e1", CLUSTER, "x"),
            event("e2", ray("Pod", "demo-w"), "x"),
            event("e3", ray("RayJob", "gone"), "x"),
        ),
    )
    body = events_page(seen, warnings=False).body()
    assert '<a href="/rayclusters/default/demo">RayCluster/demo</a>' in body
    assert '<a href="/rayclusters/default/demo">Pod/demo-w</a>' in body
    assert '<td class="object">RayJob/gone<small>default</small></td>' in body


@pytest.mark.parametrize(
    ("schedule", "zone", "words", "there"),
    [
        ("0 3 * * *", "Europe/Berlin", "next run in 14h", "Thu 2026-11-19 03:00 Europe/Berlin"),
        ("@every 2h", None, "next run in 100m", "Wed 2026-11-18 13:40 UTC"),  # since its last run
    ],
)
def test_a_schedule_says_when_it_runs_next(
    schedule: str, zone: str | None, words: str, there: str
) -> None:
    spec = {"schedule": schedule, **({"timeZone": zone} if zone else {})}
    cron = ray("RayCronJob", "nightly", {"lastScheduleTime": CREATED}, spec=spec)
    assert words in fleet(snapshot(cron), Filter()).body()
    page = object_page(snapshot(cron), cron, allowed).body()
    assert words in page
    assert there in page


def test_a_row_of_a_schedule_changes_as_its_next_run_comes_nearer() -> None:
    cron = ray(
        "RayCronJob", "nightly", spec={"schedule": "0 3 * * *"}, created="2020-01-01T00:00:00Z"
    )
    before = fleet(snapshot(cron), Filter()).body()
    later = Snapshot(now=NOW + timedelta(hours=2), items=(cron,))
    assert "next run in 15h" in before
    assert "next run in 13h" in fleet(later, Filter()).body()


def test_a_schedule_that_is_suspended_or_invalid_has_no_next_run() -> None:
    for spec in ({"schedule": "0 3 * * *", "suspend": True}, {"schedule": "nonsense"}):
        cron = ray("RayCronJob", "nightly", spec=spec)
        assert "next run" not in fleet(snapshot(cron), Filter()).body()


@pytest.mark.parametrize("schedule", ["@every 2h", "0 3 * * *"])
def test_a_last_run_in_the_future_hides_no_other_object(schedule: str) -> None:
    status = {"lastScheduleTime": "9999-12-31T23:59:59Z"}
    cron = ray("RayCronJob", "odd", status, spec={"schedule": schedule, "timeZone": "Asia/Tokyo"})
    assert "next run" not in fleet(snapshot(cron), Filter()).body()
    words = "the schedule cannot be read: the last run is in the future: 9999-12-31T23:59:59Z"
    assert words in object_page(snapshot(cron), cron, allowed).body()


def test_a_plot_of_one_value_shows_a_point() -> None:
    drawn = steps((Sample(NOW, (3,)),), (Line("waiting", 0),), NOW)
    assert 'points="636.0,8.0 636.0,8.0"' in drawn
    assert "10s ago" in drawn


def test_a_condition_that_does_not_hold_is_not_said_in_the_words_of_its_name() -> None:
    held = condition("RayClusterSuspended", False, reason="RayClusterSuspended")
    assert sentence(held) == ""
    assert sentence({**held, "status": "True"}) == "Ray cluster suspended"


def test_a_suspended_cluster_uses_nothing() -> None:
    status = {
        "state": "suspended",
        "desiredWorkerReplicas": 2,
        "desiredCPU": "18",
        "desiredMemory": "72Gi",
    }
    asleep = ray("RayCluster", "asleep", status, spec={"suspend": True})
    body = fleet(snapshot(asleep), Filter()).body()
    assert "suspended" in body
    assert "0/2" not in body
    assert "72.0 GiB" not in body


def test_a_service_with_an_invalid_spec_has_failed_and_waits_for_nothing() -> None:
    wrong = condition("Ready", False, "no YAML", "ValidationFailed")
    service = ray("RayService", "words", {"conditions": [wrong], "observedGeneration": 1})
    page = object_page(snapshot(service), service, lambda *_: True).body()
    assert "</span>failed</span> no YAML" in page
    assert "waits for: no YAML" not in page


def test_the_page_of_events_has_those_of_pods_of_ray_also_when_they_are_gone() -> None:
    def about(name: str, pod: str) -> Event:
        reference = {"kind": "Pod", "namespace": "default", "name": pod}
        return msgspec.convert({"metadata": {"name": name, "uid": name}, "involvedObject": reference, "message": name}, Event)  # fmt: skip

    events = (about("of-one-that-is-gone", "demo-small-x1"), about("of-a-web-server", "demoweb-x1"))
    seen = snapshot(ready_cluster("demo"), events=events)
    body = events_page(seen, warnings=False).body()
    assert "of-one-that-is-gone" in body
    assert "of-a-web-server" not in body
    assert "1, newest first" in body


def test_a_line_is_interrupted_where_there_is_no_value() -> None:
    values = (1.0, nan, nan, 2.0, 4.0, nan)
    samples = [Sample(NOW - timedelta(seconds=10 * (6 - at)), (one,)) for at, one in enumerate(values)]  # fmt: skip
    plot = steps(samples, (Line("milliseconds", 0),), NOW)
    assert plot.count("<polyline") == 2
    assert "nan" not in plot
    assert "milliseconds: none" in plot
    assert ">4<" in plot  # the scale


def test_actions_at_the_same_time_are_one_step() -> None:
    lines = ("1. create Role a", "1. create Service b", "2. create Pod c", "then it waits")
    markup = forecast_html(Forecast(lines=lines))
    assert re.sub(r"<[^>]+>", "|", markup) == (
        "|||1. |||create Role a||create Service b|||||2. |||create Pod c||||then it waits||"
    )


def test_no_two_rows_of_a_service_have_the_same_id() -> None:
    deployments = {"b-c": {"status": "HEALTHY"}}
    apps = {
        "a": {"status": "RUNNING", "serveDeploymentStatuses": deployments},
        "a-b": {"status": "RUNNING", "serveDeploymentStatuses": {"c": {"status": "HEALTHY"}}},
        "a/b": {"status": "RUNNING", "serveDeploymentStatuses": {}},
    }
    side = {"rayClusterName": "x", "applicationStatuses": apps}
    one = ray("RayService", "shop", {"activeServiceStatus": side})
    page = object_page(snapshot(one), one, lambda *_: False)
    [table] = [
        each.table for each in page.sections if each.table and each.table.id == "applications"
    ]
    assert len(table.rows) == 5


def test_apply_stands_beside_what_it_would_write() -> None:
    page = plan_page("kind: x", (Forecast("planned", ("1. create",)),))
    result, editor = page.sections
    assert 'value="apply"' in result.body
    assert 'form="text-form"' in result.body
    assert 'id="text-form"' in editor.body
    assert 'value="apply"' not in editor.body
    wrong = plan_page("kind: x", (Forecast(problems=("bad",)),))
    assert 'value="apply"' not in wrong.body()
