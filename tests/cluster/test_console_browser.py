"""Every page and every action of the console in Chromium: a real operator, real objects, fake nodes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from manta.api.documents.writer import to_yaml
from manta.api.ray.resources import RAY_CLUSTERS, RAY_CRON_JOBS, RAY_JOBS, RAY_SERVICES
from manta.api.resources import Resource
from support.axe import violations
from support.browser import CHROMIUM, Page, browser
from support.operator_fixture import OperatorFixture, empty, start_operator_fixture, until
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


View = tuple[int, int, bool]
VIEWS: tuple[View, ...] = ((1280, 1, False), (1280, 2, True), (320, 1, False))
"""Pixels, zoom, dark."""


@dataclass
class Person:
    """Somebody who looks at the console, and what is wrong with what they saw."""

    page: Page
    base: str
    operator: OperatorFixture
    wrong: list[str] = field(default_factory=list)

    def path(self, resource: Resource, name: str) -> str:
        return f"/{resource.plural}/{self.operator.namespace}/{name}"

    async def open(self, path: str, shows: str) -> None:
        await self.page.open(f"{self.base}{path}", shows)

    async def look(self, path: str, shows: str) -> None:
        """Open a page and check it: wide and narrow, zoomed, light and dark."""
        await self.open(path, shows)
        await self.check(path)

    async def check(self, where: str, views: tuple[View, ...] = VIEWS) -> None:
        for width, zoom, dark in views:
            await self.page.resize(width, zoom=zoom, dark=dark)
            here = f"{where} at {width} px, {zoom * 100} %{', dark' if dark else ''}"
            self.wrong += [f"{here}: {one}" for one in await violations(self.page)]
            over = await self.page.run("document.documentElement.scrollWidth - innerWidth")
            if over > 0:
                self.wrong.append(f"{here}: scrolls sideways by {over} px")
        await self.page.resize(1280)

    async def keep(
        self, name: str, *, dark: bool = False, width: int = 1280, height: int = 800
    ) -> None:
        """A picture for the guide, if MANTA_SCREENSHOTS names a directory."""
        if folder := os.environ.get("MANTA_SCREENSHOTS"):
            await self.page.resize(width, height, dark=dark)
            await self.page.run("scrollTo(0, 0)")
            await asyncio.sleep(0.5)
            await self.page.screenshot(Path(folder) / f"{name}.png")
            await self.page.resize(1280)

    async def confirm(self, resource: Resource, name: str, word: str, **fields: str) -> None:
        """Press a button of an object, fill in its form, read what would happen, and confirm."""
        await self.open(self.path(resource, name), name)
        await self.page.click(word)
        await self.check(f"the form {word} of {resource.kind}", VIEWS[2:])
        for selector, value in fields.items():
            await self.page.fill(f"[name={selector}]", value)
        if fields:
            await self.page.click("Show what would happen")
        await self.check(f"{word} of {resource.kind}", VIEWS[2:])
        await self.keep(f"{word} of {resource.kind}".lower().replace(" ", "-"))
        await self.page.click(word)


@asynccontextmanager
async def console(operator: OperatorFixture, directory: Path) -> AsyncIterator[str]:
    """`manta console` as a process; the link that it prints."""
    environment = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
    command = ("console", "--kubeconfig", str(operator.kubeconfig))
    process = await asyncio.create_subprocess_exec(
        *(str(Path(sys.executable).with_name("manta")), *command),
        stdout=asyncio.subprocess.PIPE, env={**environment, "HOME": str(directory), "MANTA_DIR": str(directory / "console")},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
        [link] = [word for word in line.split() if "/login?token=" in word]
        yield link
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


@asynccontextmanager
async def person(directory: Path) -> AsyncIterator[Person]:
    async with (
        start_operator_fixture(directory) as operator,
        operator.operator() as process,
        console(operator, directory) as link,
        browser(directory, {}) as [page],
    ):
        await process.until_leading()
        await page.open(link, "No Ray objects yet")
        try:
            yield Person(page, link.partition("/login")[0], operator)
        finally:
            await empty(operator)


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
    await someone.keep("plan")
    await page.click("Apply")
    await page.shows("Applied.")
    await page.shows("ready workers: 1")  # by itself, when the worker is ready

    await someone.look(someone.path(RAY_CLUSTERS, "demo"), "{'CPU': 4.0}")
    assert "workers, 1 launching" in await page.text()
    await someone.keep("cluster", height=1300)
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
    await someone.keep("service", height=1000)
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
    await someone.keep("job")
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
    await someone.keep("fleet")
    await someone.keep("fleet-dark", dark=True)
    await someone.keep("fleet-narrow", width=390)
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
