"""Rolling updates on the embedded plane: whole stories (tests/golden/rollout; `make golden` writes them again),
and an operator that is killed after every single write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from manta.api.ray import names
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import CONTROLLER_REVISIONS
from manta.api.resources import PODS as POD_RESOURCE
from manta.localplane.fakenodes.script import Script
from support.fakenodes import FakeCluster, fake_cluster
from support.faults import status
from support.raycluster import NAMESPACE
from support.raycrds import ray_crds
from support.rayoperator import Operated, condition, operated, start_operator
from support.rayservice import until_killed_or
from support.rollout import BAD, NEXT, REDIS, a_cluster, image_of, rolling, workers
from support.rollout_story import Story, recorded
from support.story import compare
from support.virtual import virtually

PODS = Script(start=0.2, ready=2.0, stop=4.0)
GOLDEN = Path(__file__).parents[1] / "golden" / "rollout"


def edit(*groups: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"spec": a_cluster(*groups, **spec)["spec"]}


async def create(op: Operated, *groups: dict[str, Any], **spec: Any) -> None:
    await op.client.create(RAY_CLUSTERS, NAMESPACE, a_cluster(*groups, **spec))
    await op.until(lambda one: reason(one) == "Complete")


def reason(cluster: Any) -> str:
    found = condition(cluster, "RollingUpdate")
    return found.reason if found else ""


def is_complete(number: int) -> Any:
    def check(cluster: Any) -> bool:
        found = condition(cluster, "RollingUpdate")
        return found is not None and found.message == f"all Pods are of revision {number}"

    return check


@asynccontextmanager
async def told(**options: Any) -> AsyncIterator[tuple[Operated, Story]]:
    async with operated(**options) as op, recorded(op.client) as story:
        yield op, story


@virtually
async def test_golden_three_workers() -> None:
    async with told(script=PODS) as (op, story):
        await create(op)
        await story.user("asks for another image", edit(workers(image=NEXT)))
        await op.until(is_complete(2), seconds=600)
        await asyncio.sleep(60)
        compare(GOLDEN, "three-workers", story)


@virtually
async def test_golden_two_groups_and_the_head() -> None:
    strategy = rolling(maxUnavailable=1, groups=[{"groupName": "gpu", "maxSurge": 1}])
    spec: dict[str, Any] = {"gcsFaultToleranceOptions": REDIS, "upgradeStrategy": strategy}
    async with told(script=PODS) as (op, story):
        await create(op, workers("cpu", 2), workers("gpu", 2, numOfHosts=2), **spec)
        head = {"template": workers(image=NEXT)["template"]}
        both = (workers("cpu", 2, NEXT), workers("gpu", 2, NEXT, numOfHosts=2))
        await story.user("asks for another image", edit(*both, head=head, **spec))
        await op.until(is_complete(2), seconds=900)
        await asyncio.sleep(60)
        compare(GOLDEN, "two-groups-and-the-head", story)


@virtually
async def test_golden_bad_image_rolled_back() -> None:
    strategy = rolling(onFailure="rollback", progressDeadlineSeconds=120)
    async with told(script=PODS) as (op, story):
        await create(op, upgradeStrategy=strategy)
        broken = workers(image=BAD)
        broken["template"]["metadata"] = {"annotations": {"fake.manta.io/script": "pull=error"}}
        asked = edit(broken, upgradeStrategy=strategy)
        await story.user("asks for an image that does not exist", asked)
        await op.until(lambda one: reason(one) == "RolledBack", seconds=900)
        await asyncio.sleep(30)
        await story.user("corrects the image", edit(workers(image=NEXT), upgradeStrategy=strategy))
        await op.until(is_complete(3), seconds=600)
        compare(GOLDEN, "bad-image", story)


@virtually
async def test_golden_bad_image_of_the_head_rolled_back() -> None:
    strategy = rolling(onFailure="rollback", progressDeadlineSeconds=120)
    spec: dict[str, Any] = {"gcsFaultToleranceOptions": REDIS, "upgradeStrategy": strategy}
    async with told(script=PODS) as (op, story):
        await create(op, workers(replicas=1), **spec)
        broken = workers(image=BAD)["template"]
        broken["metadata"] = {"annotations": {"fake.manta.io/script": "pull=error"}}
        asked = edit(workers(replicas=1, image=NEXT), head={"template": broken}, **spec)
        await story.user("asks for another image, and one for the head that does not exist", asked)
        await op.until(lambda one: reason(one) == "RolledBack", seconds=900)
        await asyncio.sleep(30)
        compare(GOLDEN, "bad-image-of-the-head", story)


@virtually
async def test_golden_head_without_fault_tolerance() -> None:
    head = {"template": workers(image=NEXT)["template"]}
    async with told(script=PODS) as (op, story):
        await create(op, workers(replicas=1))
        await story.user("asks for another image", edit(workers(replicas=1, image=NEXT), head=head))
        await op.until(lambda one: reason(one) == "AwaitsConsent", seconds=600)
        await asyncio.sleep(600)
        consent = {names.ANNOTATION_ROLLING_UPDATE_HEAD: "allow"}
        await story.user("lets the head go", {"metadata": {"annotations": consent}})
        await op.until(is_complete(2), seconds=600)
        compare(GOLDEN, "head-without-fault-tolerance", story)


@virtually
async def test_golden_pause_and_undo_on_the_way() -> None:
    async with told(script=PODS) as (op, story):
        await create(op)
        await story.user("asks for another image", edit(workers(image=NEXT)))
        await op.until(lambda one: "1 of 3" in _message(one), seconds=600)
        paused = edit(workers(image=NEXT), upgradeStrategy=rolling(paused=True))
        await story.user("pauses", paused)
        await asyncio.sleep(1200)
        back = edit(workers(), upgradeStrategy=rolling(paused=False))
        await story.user("goes back to the first image, and resumes", back)
        await op.until(is_complete(3), seconds=600)
        await asyncio.sleep(60)
        compare(GOLDEN, "pause-and-undo", story)


def _message(cluster: Any) -> str:
    found = condition(cluster, "RollingUpdate")
    return found.message if found else ""


@pytest.mark.timeout(600)
@virtually
async def test_golden_operator_killed_after_every_write() -> None:
    """Each operator lives for one write only; the next one finds what is left to do."""
    head = {"template": workers(image=NEXT)["template"]}
    spec: dict[str, Any] = {"gcsFaultToleranceOptions": REDIS}
    async with (
        fake_cluster(3, crds=ray_crds(), script=PODS) as cluster,
        recorded(cluster.client) as story,
    ):
        async with start_operator(cluster) as op:
            await create(op, workers(replicas=2), **spec)
        body = edit(workers(replicas=2, image=NEXT), head=head, **spec)
        await story.user("asks for another image", body)
        was_killed = True
        while was_killed:
            async with start_operator(cluster) as op:
                was_killed = await until_killed_or(op.faults, 1, 120)
            await _check(cluster)
            if was_killed:
                story.happens("the operator is killed after it wrote")
        found = await op.read()
        assert is_complete(2)(found)
        pods = await op.pods()
        assert [image_of(pod) for pod in pods] == [NEXT] * 3
        assert len(await cluster.all(CONTROLLER_REVISIONS)) == 2
        compare(GOLDEN, "operator-killed-after-every-write", story)


async def _check(cluster: FakeCluster) -> None:
    pods = await cluster.pods(names.LABEL_CLUSTER, NAMESPACE)
    heads = [one for one in pods if one["metadata"]["labels"][names.LABEL_NODE_TYPE] == "head"]
    assert len(heads) <= 1, "two heads"
    assert len(pods) - len(heads) <= 3, "more workers than replicas and surge"


class BusyRay:
    """A dashboard whose nodes run two tasks each, as the state API shows them."""

    def __init__(self) -> None:
        self.asked = 0
        self.tokens: set[str] = set()
        self.client: Any = None

    async def read(self, target: Any, path: str, into: Any) -> Any:
        self.asked += 1
        self.tokens.add(target.token)
        assert target.service == "demo-head-svc"
        pods = (await self.client.list(POD_RESOURCE, NAMESPACE)).items
        ips = [one["status"].get("podIP", "") for one in pods]
        rows = [{"node_id": f"n{ip}", "node_ip": ip} for ip in ips]
        rows = rows * 2 if path.startswith("/api/v0/tasks?") else rows
        return msgspec.convert({"data": {"result": {"result": rows}}}, into)


@virtually
async def test_the_tasks_of_a_worker_that_drains_are_counted() -> None:
    ray = BusyRay()
    async with operated(script=Script(start=0.2, ready=2.0, stop=25.0), dashboard=ray) as op:
        ray.client = op.client
        await create(op)
        await asyncio.sleep(300)
        assert ray.asked == 0, "nobody drains"
        await op.patch(edit(workers(image=NEXT)))
        await op.until(lambda one: "to drain (2 tasks left)" in _message(one), seconds=600)
        await op.until(is_complete(2), seconds=600)
        asked = ray.asked
        await asyncio.sleep(300)
        assert ray.asked == asked


@pytest.mark.parametrize("head_knows", [True, False])
def test_the_dashboard_gets_the_token_that_the_running_head_knows(head_knows: bool) -> None:
    """Rolling updates were turned on after an edit that no Pod has."""

    @virtually
    async def story() -> None:
        token: dict[str, Any] = {"authOptions": {"mode": "token"}}
        before, after = (token, {}) if head_knows else ({}, token)
        ray = BusyRay()
        async with operated(script=Script(start=0.2, ready=2.0, stop=25.0), dashboard=ray) as op:
            ray.client = op.client
            await op.create(groups=[workers()], **before)
            await op.until_ready()
            edited = {"authOptions": None, **after, "upgradeStrategy": rolling()}
            await op.patch({"spec": edited})
            await op.until(lambda one: "to drain (2 tasks left)" in _message(one), seconds=600)
            [shown] = ray.tokens
            assert bool(shown) is head_knows

    story()


@virtually
async def test_without_a_rolling_update_nobody_asks_for_revisions() -> None:
    async with operated() as op:
        await op.create()
        await op.until_ready()
        await asyncio.sleep(900)
        assert not [one for one in op.faults.log if "controllerrevisions" in one.path]


@virtually
async def test_without_the_permission_the_cluster_runs_and_the_condition_says_so() -> None:
    async with operated() as op:
        refusal = status(403, "Forbidden", "controllerrevisions.apps is forbidden")
        op.faults.answer(lambda one: "controllerrevisions" in one.path, refusal, times=None)
        await op.client.create(RAY_CLUSTERS, NAMESPACE, a_cluster())
        await op.until_pods(3)
        found = await op.until(lambda one: reason(one) == "RevisionsUnreadable")
        assert "controllerrevisions.apps is forbidden" in _message(found)
