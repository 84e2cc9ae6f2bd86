"""Every page and every action of the console in Chromium: a real operator, real objects, fake nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from manta.api.documents.writer import to_yaml
from manta.api.ray.resources import RAY_CLUSTERS, RAY_CRON_JOBS, RAY_JOBS, RAY_SERVICES
from support.browser import CHROMIUM
from support.console_person import Person, person
from support.operator_fixture import OperatorFixture, until
from support.operator_objects import a_cluster, a_job, a_service
from support.raycluster import group
from support.raycronjob import ray_cron_job

pytestmark = [
    pytest.mark.skipif(not CHROMIUM, reason="needs Chromium: apt-get install chromium"),
    pytest.mark.timeout(300),
]
STATUS = """\
Active:
 1 headgroup
Pending:
 workers, 1 launching
Pending Demands:
 {'CPU': 4.0}: 7+ pending tasks/actors
"""
NEXT = "rayproject/ray:2.61.0"


async def test_every_page_and_every_action(tmp_path: Path) -> None:
    async with person(tmp_path) as someone:
        await someone.check("the empty fleet")
        for story in (clusters, services, jobs, schedules, everything_else):
            await story(someone)
            assert (someone.wrong, someone.page.failures) == ([], [])
        await someone.page.click("Log out")
        await someone.page.shows("Open the link")
        await someone.check("the login")
        assert (someone.wrong, someone.page.failures) == ([], [])


# ── stories ──────────────────────────────────────────────────────────────────────────────


async def clusters(someone: Person) -> None:
    operator, page = someone.operator, someone.page
    wanted = a_cluster(operator, "demo", groups=[group(replicas=1, maxReplicas=3)], enableInTreeAutoscaling=True)  # fmt: skip
    wanted["metadata"]["namespace"] = operator.namespace
    operator.ray.head(operator.namespace, "demo-head-svc").autoscaler = STATUS
    await someone.look("/plan", "what the operator would do")
    await page.fill("textarea", to_yaml(wanted))
    await page.click("Plan")
    await page.shows("+  name: demo")
    await someone.check("a plan")
    assert await operator.get(RAY_CLUSTERS, "demo") is None
    await page.click("Apply")
    await page.shows("Applied.")
    await page.shows("ready workers: 1")  # by itself, when the worker is ready

    await someone.look(someone.path(RAY_CLUSTERS, "demo"), "{'CPU': 4.0}")
    assert "workers, 1 launching" in await page.text()
    await someone.confirm(RAY_CLUSTERS, "demo", "Scale", replicas="2")
    await page.shows("2 of 2")
    await someone.confirm(RAY_CLUSTERS, "demo", "Suspend")
    await page.shows("suspended")
    await someone.confirm(RAY_CLUSTERS, "demo", "Resume")
    await page.shows("2 of 2")
    await someone.open(someone.path(RAY_CLUSTERS, "demo"), "Edit")
    await page.click("Edit")
    await page.shows("Nothing is written")
    assert "name: demo" in await page.run("document.querySelector('textarea').value")


async def services(someone: Person) -> None:
    operator, page = someone.operator, someone.page
    before = await operator.make(RAY_SERVICES, a_service(operator, "shop"))
    await someone.look(someone.path(RAY_SERVICES, "shop"), "shop")
    await page.shows("is up to date")
    operator.ray.deploy_after = None  # the new cluster does not serve yet
    await someone.confirm(RAY_SERVICES, "shop", "Upgrade", image=NEXT, version="2.61.0")
    await page.shows("is being upgraded")
    await page.shows("waits for:")
    await someone.check("an upgrade")
    assert image(await operator.get(RAY_SERVICES, "shop")) == NEXT
    await someone.confirm(RAY_SERVICES, "shop", "Roll back")
    await page.shows("is up to date")
    operator.ray.deploy_after = 0.3
    assert image(await operator.get(RAY_SERVICES, "shop")) == image(before)


def image(service: Any) -> str:
    head = service["spec"]["rayClusterConfig"]["headGroupSpec"]
    return str(head["template"]["spec"]["containers"][0]["image"])


async def jobs(someone: Person) -> None:
    operator, page = someone.operator, someone.page
    await operator.make(
        RAY_JOBS, a_job(operator, "train", submissionMode="HTTPMode", shutdownAfterJobFinishes=True)
    )
    running = await _running(operator, "train")
    await someone.open(someone.path(RAY_JOBS, "train"), "running")
    await someone.confirm(RAY_JOBS, "train", "Suspend")
    await page.shows("suspended")
    await someone.confirm(RAY_JOBS, "train", "Resume")
    running = await _running(operator, "train", running["jobId"])
    head = operator.ray.head(operator.namespace, f"{running['rayClusterName']}-head-svc")
    head.failed_tasks.append({"name": "load", "error_type": "TASK_EXECUTION_EXCEPTION", "error_message": "ValueError: no such shard"})  # fmt: skip
    operator.ray.end(head, running["jobId"], "FAILED", "Job entrypoint command failed")
    await someone.look(someone.path(RAY_JOBS, "train"), "Why it failed")
    await page.shows("ValueError: no such shard")
    await someone.confirm(RAY_JOBS, "train", "Retry")
    await page.shows("This is the new job.")
    await page.shows("train-retry-1")
    again = await _running(operator, "train-retry-1")
    head = operator.ray.head(operator.namespace, f"{again['rayClusterName']}-head-svc")
    await someone.confirm(RAY_JOBS, "train-retry-1", "Stop job")
    await page.shows("finished")
    assert head.jobs[again["jobId"]].status == "STOPPED"


async def _running(operator: OperatorFixture, name: str, other: str = "") -> dict[str, Any]:
    """The status of the job when Ray runs an attempt with another id."""
    found = await operator.until(
        RAY_JOBS,
        name,
        lambda status: status.get("jobStatus") == "RUNNING" and status.get("jobId") != other,
    )
    return dict(found["status"])


async def schedules(someone: Person) -> None:
    operator, page = someone.operator, someone.page
    await operator.make(RAY_CRON_JOBS, ray_cron_job("nightly", schedule="0 3 * * *"))
    await someone.look(someone.path(RAY_CRON_JOBS, "nightly"), "Next runs")
    await someone.confirm(RAY_CRON_JOBS, "nightly", "Suspend")
    await page.shows("no further run")
    await someone.confirm(RAY_CRON_JOBS, "nightly", "Resume")
    await page.shows("scheduled")


async def everything_else(someone: Person) -> None:
    operator, page = someone.operator, someone.page
    await someone.look("/events", "Events")
    await someone.look("/events?type=Warning", "Events")
    await someone.look("/?state=bad", "train")
    await someone.look("/", "shop")
    await keyboard(someone)
    [head, *_] = await operator.pods("demo", "head")
    log = f"/pods/{operator.namespace}/{head['metadata']['name']}/log"
    await someone.look(log, "line 4")
    text = await page.run(f"fetch('{log}?download=1').then((answer) => answer.text())")
    assert text.startswith("line 0")
    for resource, name in (
        (RAY_CRON_JOBS, "nightly"),
        (RAY_JOBS, "train"),
        (RAY_SERVICES, "shop"),
        (RAY_CLUSTERS, "demo"),
    ):
        await someone.confirm(resource, name, "Delete")
        await page.shows("Deleted.")
        await operator.until_gone(resource, name)


async def keyboard(someone: Person) -> None:
    """From the top of the fleet to the page of an object, without a mouse and with a visible focus."""
    await someone.open("/?kind=RayService", "shop")
    focused = "document.activeElement"

    async def reached() -> bool:
        await someone.page.press("Tab")
        outline = await someone.page.run(f"getComputedStyle({focused}).outlineStyle")
        if outline == "none":
            where = await someone.page.run(f"{focused}.outerHTML.slice(0, 200)")
            someone.wrong.append(f"no visible focus: {where}")
        return bool(await someone.page.run(f"{focused}.innerText") == "shop")

    await until(reached)
    await someone.page.press("Enter")
    await someone.page.shows("Traffic over time")
