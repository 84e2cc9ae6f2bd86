"""The pictures of the guide, of a real operator on fake nodes: MANTA_SCREENSHOTS names the directory for them."""

from __future__ import annotations

import asyncio
import copy
import os
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from manta.api.documents.writer import to_yaml
from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_CRON_JOBS, RAY_JOBS, RAY_SERVICES
from manta.api.resources import NAMESPACES, PODS, Resource
from manta.console.fetch import HttpFetch
from manta.console.history import History
from manta.console.router import Router
from manta.history.serve.access import OwnerAccess
from manta.history.serve.server import HistoryHandler
from manta.httpserver.server import HttpServer
from support.browser import CHROMIUM, browser
from support.canary import canary
from support.console import COMMANDS, running_console
from support.console_person import Person, kept, person
from support.history import WHO, recorded_session
from support.operator_fixture import TAINT, OperatorFixture, until
from support.raycluster import container, group, ray_cluster, template
from support.raycronjob import ray_cron_job
from support.rayjob import ray_job
from support.rayservice_objects import ray_service

pytestmark = [
    pytest.mark.skipif(not CHROMIUM, reason="needs Chromium: apt-get install chromium"),
    pytest.mark.skipif(
        "MANTA_SCREENSHOTS" not in os.environ,
        reason="takes pictures for the guide: MANTA_SCREENSHOTS names a directory",
    ),
    pytest.mark.timeout(600),
]
Json = dict[str, Any]
STATUS = """\
Active:
 1 headgroup
 2 workers
Pending:
 workers, 2 launching
Pending Demands:
 {'CPU': 8.0}: 14+ pending tasks/actors
 {'CPU': 1.0, 'GPU': 1.0}: 3+ pending tasks/actors
"""
LOG = "".join(
    f"epoch {at:2}  loss {1.9 / (at + 1) ** 0.4:.4f}  12.{at % 10} s\n" for at in range(40)
)


async def test_the_pictures_of_the_guide(tmp_path: Path) -> None:
    port = free_port()
    async with person(tmp_path, f"--metrics-addr=127.0.0.1:{port}") as someone:
        operator = someone.operator
        operator.ray.clock = time.time
        for name in ("research", "serving", "data", "manta-system"):
            await operator.client.create(NAMESPACES, "", {"metadata": {"name": name}})
        try:
            await an_operator_pod(operator, port)
            await a_fleet(operator)
            for story in (clusters, job, plan, canary_of_a_service, fleet, other_pages):
                await story(someone)
            assert someone.page.failures == []
        finally:
            for resource in (RAY_CRON_JOBS, RAY_JOBS, RAY_SERVICES, RAY_CLUSTERS):
                for name in ("research", "serving", "data"):
                    await operator.client.delete_collection(resource, name)
            await until(lambda: _gone(operator))


async def _gone(operator: OperatorFixture) -> bool:
    kinds = (RAY_CRON_JOBS, RAY_JOBS, RAY_SERVICES, RAY_CLUSTERS)
    return not any([(await operator.client.list(one)).items for one in kinds])


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


# ── objects ──────────────────────────────────────────────────────────────────────────────


def sized(operator: OperatorFixture, cpu: str, memory: str, **limits: str) -> Json:
    """A template of Pods of this size, on our nodes."""
    amounts = {"cpu": cpu, "memory": memory}
    one = container(resources={"requests": amounts, "limits": {**amounts, **limits}})
    return on_our_nodes(operator, template(one))


def on_our_nodes(operator: OperatorFixture, made: Json) -> Json:
    made["spec"]["nodeSelector"] = {TAINT: operator.namespace}
    made["spec"]["tolerations"] = [{"key": TAINT, "operator": "Exists"}]
    made["spec"]["terminationGracePeriodSeconds"] = 1
    return made


def a_spec(operator: OperatorFixture, workers: int, **more: Any) -> Json:
    head = sized(operator, "2", "8Gi")
    head["spec"]["containers"][0]["ports"] = operator.dashboards.ports
    worker = more.pop("worker", None) or sized(operator, "4", "16Gi")
    name = more.pop("group", "workers")
    groups = [group(name, workers, template=worker, maxReplicas=20)]
    made: Json = ray_cluster("x", groups, head={"template": head}, **more)["spec"]
    return made


async def make(operator: OperatorFixture, resource: Resource, space: str, body: Json) -> None:
    meta = {**body["metadata"], "namespace": space}
    await operator.client.create(resource, space, {**body, "metadata": meta})


async def a_cluster(operator: OperatorFixture, space: str, name: str, spec: Json) -> None:
    await make(operator, RAY_CLUSTERS, space, ray_cluster(name) | {"spec": spec})


async def status_of(
    operator: OperatorFixture, resource: Resource, key: Key, check: Callable[[Json], object]
) -> Json:
    """The status, as soon as it passes the check."""
    found: Json = {}

    async def holds() -> bool:
        nonlocal found
        found = (await operator.client.get(resource, key)).get("status") or {}
        return bool(check(found))

    await until(holds, lambda: operator.client.get(resource, key))
    return found


async def an_operator_pod(operator: OperatorFixture, port: int) -> None:
    """A Pod that stands for the operator, which is a process of this machine."""
    labels = {"app.kubernetes.io/component": "kuberay-operator", "app.kubernetes.io/name": "manta"}
    one = container("manta", ports=[{"name": "metrics", "containerPort": port}])
    body = on_our_nodes(operator, template(one))
    meta = {"name": "manta-6f7d9c5b4-x2v8q", "namespace": "manta-system", "labels": labels}
    await operator.client.create(PODS, "manta-system", {"metadata": meta, **body})


async def a_fleet(operator: OperatorFixture) -> None:
    gpus = sized(operator, "8", "64Gi", **{"nvidia.com/gpu": "8"})
    for space, name, spec in (
        ("data", "features", a_spec(operator, 6)),
        ("data", "notebooks", a_spec(operator, 0, enableInTreeAutoscaling=True)),
        ("research", "evaluation", a_spec(operator, 2, suspend=True)),
        ("research", "llm-pretraining", a_spec(operator, 4, worker=gpus, group="h100")),
        ("research", "tuning", a_spec(operator, 2, enableInTreeAutoscaling=True)),
    ):
        await a_cluster(operator, space, name, spec)
    operator.ray.head("research", "tuning-head-svc").autoscaler = STATUS
    job_of = {"entrypoint": "python -m export --table events", "rayClusterSpec": a_spec(operator, 1), "submissionMode": "HTTPMode"}  # fmt: skip
    nightly = ray_cron_job("nightly-export", schedule="0 3 * * *", timeZone="Europe/Berlin", jobTemplate=job_of)  # fmt: skip
    await make(operator, RAY_CRON_JOBS, "data", nightly)


# ── stories ──────────────────────────────────────────────────────────────────────────────


async def clusters(someone: Person) -> None:
    operator, page = someone.operator, someone.page
    key = Key("research", "tuning")
    await someone.open("/", "tuning")
    await someone.open("/rayclusters/research/tuning", "{'CPU': 8.0}")
    for workers in (3, 4, 6):
        patch = [{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": workers}]
        await operator.client.patch(RAY_CLUSTERS, key, patch, kind="json")
        await page.shows(f"{workers} of {workers}")
        await asyncio.sleep(4)
    await kept(page, "cluster", height=1000)
    await kept(page, "demands", of="#autoscaler, #demands-section")
    await page.click("Suspend")
    await page.shows("delete Pod")
    await kept(page, "confirmation", height=620)


async def job(someone: Person) -> None:
    operator, page, key = someone.operator, someone.page, Key("research", "train-ranker")
    spec = {"entrypoint": "python -m ranker.train --epochs 40", "submissionMode": "HTTPMode", "shutdownAfterJobFinishes": True, "ttlSecondsAfterFinished": 3600, "backoffLimit": 2}  # fmt: skip
    body = ray_job(key.name, **spec, rayClusterSpec=a_spec(operator, 3))
    await make(operator, RAY_JOBS, key.namespace, body)
    await running(operator, key.name)
    await asyncio.sleep(4)
    await suspend(operator, suspended=True)
    await status_of(
        operator, RAY_JOBS, key, lambda one: one.get("jobDeploymentStatus") == "Suspended"
    )
    await asyncio.sleep(3)
    await suspend(operator, suspended=False)
    for attempt in (1, 2, 3):
        await an_attempt_that_fails(operator, key, attempt)
    await someone.open("/", key.name)
    await someone.open(f"/rayjobs/{key}", "ValueError: shard 17 has no rows")
    await page.shows("epoch 39")
    await kept(page, "job", height=1250)


async def an_attempt_that_fails(operator: OperatorFixture, key: Key, attempt: int) -> None:
    status = await running(operator, key.name)
    head = operator.ray.head(key.namespace, f"{status['rayClusterName']}-head-svc")
    why = "ValueError: shard 17 has no rows"
    head.jobs[status["jobId"]].log = f"{LOG}Traceback (most recent call last):\n{why}\n"
    await asyncio.sleep(4 + 3 * attempt)
    task = {"name": "load_shard", "error_type": "TASK_EXECUTION_EXCEPTION", "error_message": why}
    head.failed_tasks.append(task)
    words = "Job entrypoint command failed with exit code 1"
    operator.ray.end(head, status["jobId"], "FAILED", words)
    await status_of(operator, RAY_JOBS, key, lambda one: (one.get("failed") or 0) >= attempt)


async def running(operator: OperatorFixture, name: str) -> Json:
    return await status_of(
        operator, RAY_JOBS, Key("research", name), lambda one: one.get("jobStatus") == "RUNNING"
    )


async def suspend(operator: OperatorFixture, *, suspended: bool) -> None:
    await operator.client.patch(RAY_JOBS, Key("research", "train-ranker"), {"spec": {"suspend": suspended}})  # fmt: skip


async def plan(someone: Person) -> None:
    page, operator = someone.page, someone.operator
    wanted = ray_cluster("embeddings") | {"spec": a_spec(operator, 3)}
    wanted["metadata"]["namespace"] = "research"
    await someone.open("/plan", "what the operator would do")
    await page.fill("textarea", to_yaml(wanted))
    await page.click("Plan")
    await page.shows("+  name: embeddings")
    await kept(page, "plan", height=1150)


async def canary_of_a_service(someone: Person) -> None:
    operator, page = someone.operator, someone.page
    key = Key("serving", "recommendations")
    config = a_spec(operator, 4)
    body = ray_service("recommendations", rayClusterConfig=config, upgradeStrategy=canary(25, 50, 75, pause=8))  # fmt: skip
    await make(operator, RAY_SERVICES, "serving", body)
    await someone.open("/", "recommendations")
    await someone.open("/rayservices/serving/recommendations", "is up to date")
    config = copy.deepcopy(config)
    for one in (config["headGroupSpec"], *config["workerGroupSpecs"]):
        one["template"]["spec"]["containers"][0]["image"] = "rayproject/ray:2.61.0"
    await asyncio.sleep(6)
    await operator.client.patch(RAY_SERVICES, key, {"spec": {"rayClusterConfig": config}})
    await status_of(operator, RAY_SERVICES, key, lambda one: (one.get("pendingServiceStatus") or {}).get("trafficRoutedPercent") == 50)  # fmt: skip
    await page.shows("traffic 50 %")
    await asyncio.sleep(4)
    await kept(page, "canary", height=1000)
    await status_of(operator, RAY_SERVICES, key, lambda one: not (one.get("pendingServiceStatus") or {}).get("rayClusterName"))  # fmt: skip
    await page.shows("is up to date")
    await asyncio.sleep(5)
    await kept(page, "service", height=1000)


async def fleet(someone: Person) -> None:
    await someone.open("/", "recommendations")
    await kept(someone.page, "fleet")
    await kept(someone.page, "fleet-dark", dark=True)
    await kept(someone.page, "fleet-narrow", width=390)


async def other_pages(someone: Person) -> None:
    page, operator = someone.page, someone.operator
    await someone.open("/events", "Events")
    await kept(page, "events", height=640)
    await someone.open("/rayjobs/research/train-ranker/log", "epoch 39")
    await page.run("document.querySelector('pre.log').scrollTop = 1e9")
    await kept(page, "log", height=720)
    operator.ray.finish_after = 20
    job_of = {"entrypoint": "python -m features.sync", "rayClusterSpec": a_spec(operator, 1), "submissionMode": "HTTPMode", "shutdownAfterJobFinishes": True}  # fmt: skip
    every_minute = ray_cron_job("sync-features", schedule="* * * * *", timeZone="Europe/Berlin", jobTemplate=job_of)  # fmt: skip
    await make(operator, RAY_CRON_JOBS, "data", every_minute)
    await someone.open("/operator", "95 % take less than")
    for at in range(14):
        patch = [
            {"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 3 + at % 4}
        ]
        await operator.client.patch(RAY_CLUSTERS, Key("data", "features"), patch, kind="json")
        await asyncio.sleep(3.3)
    await kept(page, "operator", height=1000)
    await someone.open("/", "sync-features")
    await someone.open("/raycronjobs/data/sync-features", "Next runs")
    await page.shows("finished")
    await page.shows("running")  # the next one
    await kept(page, "cron", height=900)


async def test_the_picture_of_the_history(tmp_path: Path) -> None:
    access, fetch = OwnerAccess(), HttpFetch({})
    others = (replace(WHO, name="train-ranker", namespace="research"), replace(WHO, kind="raycluster", name="tuning", namespace="research"))  # fmt: skip
    for who in others:
        await asyncio.to_thread(recorded_session, tmp_path / "kept", who)
    catalog = await asyncio.to_thread(recorded_session, tmp_path / "kept")
    store = HttpServer(HistoryHandler(catalog, access, [], secure=False))
    url = f"http://127.0.0.1:{await store.start('127.0.0.1', 0)}"
    async with running_console(log_in=False) as console, browser(tmp_path, {}) as [page]:
        console.handler._router = Router(COMMANDS, history=History(fetch, lambda _: (url, access.token)))  # fmt: skip
        server = HttpServer(console.handler, frozenset({"manta-console.localhost"}))
        base = f"http://manta-console.localhost:{await server.start('127.0.0.1', 0)}"
        try:
            await page.open(f"{base}/login?token={console.new_link()}", "No Ray objects yet")
            await page.open(f"{base}/history", "train")
            await kept(page, "history", height=360)
        finally:
            await server.stop(0.1)
            await store.stop(0.1)
            await fetch.close()
