"""Idle RayClusters on the embedded server, under virtual time, with dashboards that can misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import EVENTS, PODS
from manta.api.times import parse_time
from manta.cli.server.ray_targets import RayObject
from manta.cli.suspend import set_one
from manta.client.waking import sleeps
from manta.controllers.idlesuspend import controller as idlesuspend
from manta.controllers.raycluster import controller as raycluster
from manta.kube.client import Client
from manta.localplane.inprocess import InProcessTransport
from manta.ray.dashboard import Dashboard
from manta.ray.models import Target, Unreachable
from manta.ray.transport import Reply
from manta.rules.settings import Settings
from manta.rules.usage import usage_of
from manta.runtime.manager import Manager
from support.activity import FakeActivities, FakeUse
from support.plane import MemoryPlane, memory_plane
from support.raycluster import NAMESPACE, Kubelet, ray_cluster
from support.raycrds import ray_crds
from support.rayjob import ray_job
from support.virtual import running, virtual_plane, virtually

KEY = Key(NAMESPACE, "demo")
AFTER = "manta.ray.io/idle-suspend-after"
SUSPENDED = "manta.ray.io/idle-suspended"
SINCE = "manta.ray.io/idle-since"
HALF_HOUR = 1800.0


@dataclass
class Scenario:
    plane: MemoryPlane
    ray: FakeActivities = field(default_factory=FakeActivities)

    @property
    def use(self) -> FakeUse:
        return self.ray.of()

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def create(self, after: str = "30m", **fields: Any) -> None:
        annotations = ({AFTER: after} if after else {}) | fields.pop("annotations", {})
        body = ray_cluster(annotations=annotations, **fields)
        await self.plane.client.create(RAY_CLUSTERS, NAMESPACE, body)
        await self.until(lambda one: one.status.state == "ready", 60)

    async def cluster(self) -> RayCluster:
        return await self.plane.client.get(RAY_CLUSTERS, KEY, into=RayCluster)

    async def until(self, check: Callable[[RayCluster], object], seconds: float) -> RayCluster:
        try:
            async with asyncio.timeout(seconds):
                while not check(cluster := await self.cluster()):
                    await asyncio.sleep(1)
        except TimeoutError:
            raise AssertionError(f"it did not come to pass; last: {await self.cluster()}") from None
        return cluster

    async def never(self, check: Callable[[RayCluster], object], seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            assert not check(await self.cluster())
            await asyncio.sleep(20)

    async def condition(self) -> tuple[str, str, str]:
        found = next(one for one in (await self.cluster()).status.conditions if one.type == "Idle")
        return found.status, found.reason, found.message

    async def events(self) -> list[tuple[str, str]]:
        """(reason, note) of what this controller said."""
        found = (await self.plane.client.list(EVENTS, NAMESPACE)).items
        ours = [one for one in found if "Idle" in one["reason"]]
        return [(one["reason"], one.get("note") or one["message"]) for one in ours]

    async def patch(self, body: dict[str, Any]) -> None:
        await self.plane.client.patch(RAY_CLUSTERS, KEY, body)


@asynccontextmanager
async def a_scenario() -> AsyncIterator[Scenario]:
    async with virtual_plane(crds=ray_crds()) as plane, running(Kubelet(plane.client).run()):
        yield Scenario(plane)


@asynccontextmanager
async def operator(
    scenario: Scenario,
    settings: Settings | None = None,
    seed: int = 7,
) -> AsyncIterator[Manager]:
    chosen = settings or Settings()
    manager = Manager(scenario.plane.client, scenario.plane.clock, Random(seed))
    raycluster.build(manager, chosen)
    idlesuspend.build(manager, chosen, Dashboard(scenario.ray))
    task = asyncio.create_task(manager.run())
    try:
        yield manager
    finally:
        manager.stop()
        await asyncio.gather(task, return_exceptions=True)


def is_suspended(cluster: RayCluster) -> bool:
    return bool(cluster.spec.suspend)


def is_announced(cluster: RayCluster) -> bool:
    return "manta.ray.io/idle-suspend-at" in cluster.metadata.annotations


def is_idle(cluster: RayCluster) -> bool:
    return SINCE in cluster.metadata.annotations


@virtually
async def test_a_cluster_that_nobody_uses_is_announced_suspended_and_explained() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create()
        began = scenario.now
        await scenario.until(is_idle, 60)
        await scenario.until(is_announced, 1300)
        assert scenario.now - began < 1300
        status, reason, message = await scenario.condition()
        assert (status, reason) == ("True", "NotInUse")
        assert "unless it is used" in message
        await scenario.until(is_suspended, 700)
        assert HALF_HOUR <= scenario.now - began <= HALF_HOUR * 1.05
        cluster = await scenario.until(lambda one: one.status.state == "suspended", 60)
        assert SUSPENDED in cluster.metadata.annotations
        status, reason, message = await scenario.condition()
        since = cluster.metadata.annotations[SINCE]
        assert (status, reason) == ("True", "IdleSuspended")
        assert message == f"idle since {since}, suspended after 30m0s; resume: manta resume demo"
        assert not (await scenario.plane.client.list(PODS, NAMESPACE)).items
        reasons = [reason for reason, _ in await scenario.events()]
        assert sorted(reasons) == ["IdleSuspendWarning", "IdleSuspended"]


@pytest.mark.parametrize("head_knows", [True, False])
def test_the_dashboard_gets_the_token_that_the_running_head_knows(head_knows: bool) -> None:
    @virtually
    async def story() -> None:
        token: dict[str, Any] = {"authOptions": {"mode": "token"}}
        before, after = (token, {}) if head_knows else ({}, token)
        async with a_scenario() as scenario, operator(scenario):
            await scenario.create(**before)
            await scenario.until(is_idle, 60)
            await scenario.patch({"spec": {"authOptions": None, **after}})
            scenario.ray.tokens.clear()
            await scenario.until(is_announced, 1300)
            [shown] = scenario.ray.tokens
            assert bool(shown) is head_knows

    story()


def _driver(use: FakeUse) -> None:
    use.start_driver()


def _detached_actor(use: FakeUse) -> None:
    use.start_actor()


def _queued_job(use: FakeUse) -> None:
    use.start_actor("JobSupervisor", "SUPERVISOR_ACTOR_RAY_NAMESPACE", "PENDING_CREATION")


def _restarting_actor(use: FakeUse) -> None:
    use.start_actor(state="RESTARTING")


def _group(use: FakeUse) -> None:
    use.groups.append("gang")


def _serve(use: FakeUse) -> None:
    use.deploy()


def _actor_among_many_dead(use: FakeUse) -> None:
    use.dead_actors, use.longest = 50, 10
    use.start_actor(state="DEPENDENCIES_UNREADY")


USES = (
    _driver,
    _detached_actor,
    _queued_job,
    _restarting_actor,
    _group,
    _serve,
    _actor_among_many_dead,
)


@pytest.mark.parametrize("begin", USES, ids=lambda one: one.__name__.strip("_"))
def test_a_cluster_in_use_is_never_suspended(begin: Callable[[FakeUse], None]) -> None:
    @virtually
    async def scenario() -> None:
        async with a_scenario() as scenario, operator(scenario):
            begin(scenario.use)
            await scenario.create()
            await scenario.never(lambda one: is_suspended(one) or is_idle(one), 3 * HALF_HOUR)
            assert (await scenario.condition())[0] == "False"
            assert not await scenario.events()

    scenario()


@virtually
async def test_what_ray_and_serve_leave_behind_is_no_use() -> None:
    async with a_scenario() as scenario, operator(scenario):
        scenario.use.start_actor("_StatsActor", "_dataset_stats_actor")
        scenario.use.deploy()
        scenario.use.applications.clear()
        scenario.use.dead_actors, scenario.use.longest = 50, 10
        await scenario.create()
        await scenario.until(is_suspended, HALF_HOUR * 1.05)


BAD = ("hang", "500", "429", "nonsense", "refuse", "partial", "error", "shape")


@pytest.mark.parametrize("fault", BAD)
@pytest.mark.parametrize(
    "path", ["/api/component_activities", "/api/v0/actors", "/api/v0/placement"]
)
def test_a_dashboard_that_fails_is_never_idle_and_says_why(fault: str, path: str) -> None:
    @virtually
    async def scenario() -> None:
        async with a_scenario() as scenario, operator(scenario):
            scenario.ray.weather = lambda _, asked: fault if asked.startswith(path) else ""
            await scenario.create()
            await scenario.never(lambda one: is_suspended(one) or is_idle(one), 2 * HALF_HOUR)
            status, reason, message = await scenario.condition()
            assert (status, reason) == ("Unknown", "DashboardUnreachable")
            assert message

    scenario()


@virtually
async def test_a_silence_neither_restarts_the_clock_nor_ends_it() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create()
        since = (await scenario.until(is_idle, 60)).metadata.annotations[SINCE]
        scenario.ray.weather = lambda *_: "hang"
        await scenario.never(is_suspended, 2 * HALF_HOUR)
        assert (await scenario.cluster()).metadata.annotations[SINCE] == since
        scenario.ray.weather = lambda *_: ""
        began = scenario.now
        await scenario.until(is_suspended, 800)
        assert scenario.now - began >= 590, "the warning keeps its ten minutes"


@virtually
async def test_a_use_between_two_questions_restarts_the_clock() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create()
        first = (await scenario.until(is_idle, 60)).metadata.annotations[SINCE]
        await asyncio.sleep(HALF_HOUR - 300)
        asked = len(scenario.ray.asked)
        scenario.use.start_driver()
        scenario.use.end_driver(scenario.now)
        assert len(scenario.ray.asked) == asked
        ended = scenario.now
        cluster = await scenario.until(is_suspended, HALF_HOUR * 1.05)
        assert scenario.now - ended >= HALF_HOUR
        assert cluster.metadata.annotations[SINCE] > first
        assert "IdleSuspendWarning" in dict(await scenario.events())


@virtually
async def test_use_after_the_warning_cancels_the_suspension() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create()
        await scenario.until(is_announced, 1300)
        scenario.use.start_driver()
        await scenario.never(is_suspended, HALF_HOUR)
        assert not is_idle(await scenario.cluster())
        assert "IdleSuspendCancelled" in dict(await scenario.events())


@virtually
async def test_an_operator_that_is_restarted_neither_forgets_nor_invents_idleness() -> None:
    async with a_scenario() as scenario:
        async with operator(scenario):
            await scenario.create()
            since = (await scenario.until(is_idle, 60)).metadata.annotations[SINCE]
            began = parse_time(since)
        await asyncio.sleep(900)
        async with operator(scenario, seed=8):
            cluster = await scenario.until(is_suspended, 1000)
            assert cluster.metadata.annotations[SINCE] == since
            passed = scenario.plane.clock.now() - began
            assert HALF_HOUR <= passed.total_seconds() <= HALF_HOUR * 1.05


@virtually
async def test_use_while_no_operator_runs_restarts_the_clock() -> None:
    async with a_scenario() as scenario:
        async with operator(scenario):
            await scenario.create()
            await scenario.until(is_idle, 60)
        scenario.use.start_actor()
        await asyncio.sleep(7200)
        scenario.use.end_actor()
        async with operator(scenario, seed=8):
            await scenario.never(is_suspended, HALF_HOUR - 10)
            await scenario.until(is_suspended, 200)


@virtually
async def test_another_head_restarts_the_clock() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create()
        await scenario.until(is_idle, 60)
        await asyncio.sleep(1000)
        head = (await scenario.cluster()).status.head.pod_name
        await scenario.plane.client.delete(PODS, Key(NAMESPACE, head))
        await scenario.never(is_suspended, HALF_HOUR - 10)
        await scenario.until(is_suspended, 200)


@virtually
async def test_an_edit_resumes_and_restarts_the_clock() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create()
        await scenario.until(lambda one: one.status.state == "suspended", HALF_HOUR * 1.1)
        await scenario.patch({"spec": {"suspend": False}})
        cluster = await scenario.until(lambda one: one.status.state == "ready", 60)
        began = scenario.now
        assert SUSPENDED not in cluster.metadata.annotations
        assert "IdleResumed" in dict(await scenario.events())
        await scenario.until(is_suspended, HALF_HOUR * 1.05)
        assert scenario.now - began >= HALF_HOUR - 5


@virtually
async def test_a_suspension_of_the_user_is_left_alone() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create()
        await scenario.until(is_idle, 60)
        await scenario.patch({"spec": {"suspend": True}})
        await asyncio.sleep(2 * HALF_HOUR)
        cluster = await scenario.cluster()
        assert SUSPENDED not in cluster.metadata.annotations
        assert not [one for one in cluster.status.conditions if one.type == "Idle"]
        assert not await scenario.events()


@virtually
async def test_a_user_may_make_a_suspension_for_idleness_his_own() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create()
        await scenario.until(is_suspended, HALF_HOUR * 1.1)
        assert sleeps(await scenario.cluster())
        one = RayObject(RAY_CLUSTERS, KEY)
        said = await set_one(scenario.plane.client, one, suspended=True)
        assert said.endswith("stays suspended until it is resumed")
        await asyncio.sleep(60)
        cluster = await scenario.cluster()
        assert cluster.spec.suspend is True
        assert not sleeps(cluster), "a connection would wake it"
        assert not [one for one in cluster.status.conditions if one.type == "Idle"]
        assert (await set_one(scenario.plane.client, one, suspended=True)).endswith(
            "already suspended"
        )


@pytest.mark.parametrize("marked", ["before it is read", "after it was read"])
async def test_a_suspension_of_the_user_has_no_mark_of_idleness(marked: str) -> None:
    """A connection has resumed it a moment ago, or the operator suspends it at this moment."""
    async with memory_plane(crds=ray_crds()) as plane:
        mark = {"metadata": {"annotations": {names.ANNOTATION_IDLE_SUSPENDED: "x"}}}

        class Meanwhile(Client):
            async def patch(self, *words: Any, **more: Any) -> Any:
                if marked == "after it was read":
                    await plane.client.patch(RAY_CLUSTERS, KEY, mark | {"spec": {"suspend": True}})
                return await super().patch(*words, **more)

        await plane.client.create(RAY_CLUSTERS, NAMESPACE, ray_cluster(KEY.name))
        if marked == "before it is read":
            await plane.client.patch(RAY_CLUSTERS, KEY, mark)
        client = Meanwhile(InProcessTransport(plane.app))
        await set_one(client, RayObject(RAY_CLUSTERS, KEY), suspended=True)
        cluster = await plane.client.get(RAY_CLUSTERS, KEY, into=RayCluster)
        assert cluster.spec.suspend is True
        assert not sleeps(cluster)


EXEMPT = {
    "a RayService's": {"labels": {"ray.io/originated-from-crd": "RayService"}},
    "Kueue's": {"labels": {"kueue.x-k8s.io/queue-name": "research"}},
    "without a dashboard": {"head": {"rayStartParams": {"include-dashboard": "false"}}},
}


@pytest.mark.parametrize("fields", EXEMPT.values(), ids=EXEMPT)
def test_a_cluster_that_others_decide_about_is_not_asked_and_says_so(
    fields: dict[str, Any],
) -> None:
    @virtually
    async def scenario() -> None:
        async with a_scenario() as scenario, operator(scenario):
            await scenario.create(**fields)
            await scenario.never(is_suspended, 2 * HALF_HOUR)
            assert not scenario.ray.asked
            status, reason, message = await scenario.condition()
            assert (status, reason) == ("Unknown", "NeverSuspendedForIdleness")
            assert "has no effect" in message

    scenario()


@virtually
async def test_the_cluster_of_a_rayjob_sleeps_only_when_the_job_has_ended() -> None:
    async with a_scenario() as scenario, operator(scenario):
        client = scenario.plane.client
        job = await client.create(RAY_JOBS, NAMESPACE, ray_job("train"))
        owner = {
            "apiVersion": "ray.io/v1",
            "kind": "RayJob",
            "name": "train",
            "uid": job.metadata.uid,
            "controller": True,
        }
        body = ray_cluster(
            annotations={AFTER: "30m"}, labels={"ray.io/originated-from-crd": "RayJob"}
        )
        body["metadata"]["ownerReferences"] = [owner]
        await client.create(RAY_CLUSTERS, NAMESPACE, body)
        await scenario.never(is_suspended, 2 * HALF_HOUR)
        assert (await scenario.condition())[:2] == ("False", "RayJobRunning")
        assert not scenario.ray.asked
        ended = {"status": {"jobDeploymentStatus": "Complete"}}
        await client.patch(RAY_JOBS, Key(NAMESPACE, "train"), ended, subresource="status")
        await scenario.until(is_suspended, HALF_HOUR * 1.05)


OTHERS = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x", "controller": True}


@pytest.mark.parametrize("owners", [[], [OTHERS]], ids=["without owner", "of somebody else"])
@virtually
async def test_a_rayjob_that_is_about_to_submit_to_the_cluster_is_use(
    owners: list[dict[str, Any]],
) -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create()
        await scenario.patch({"metadata": {"ownerReferences": owners}})
        client = scenario.plane.client
        await client.create(RAY_JOBS, NAMESPACE, ray_job("train"))
        waits = {"status": {"jobDeploymentStatus": "Initializing", "rayClusterName": "demo"}}
        await client.patch(RAY_JOBS, Key(NAMESPACE, "train"), waits, subresource="status")
        await scenario.never(is_suspended, 2 * HALF_HOUR)


@virtually
async def test_the_default_of_the_operator_applies_by_namespace_and_yields_to_the_annotation() -> (
    None
):
    settings = replace(Settings(), idle_suspend="1h@elsewhere,20m@default")
    async with a_scenario() as scenario, operator(scenario, settings):
        await scenario.create(after="")
        began = scenario.now
        await scenario.until(is_suspended, 1300)
        assert scenario.now - began >= 1200
        await scenario.patch(
            {"spec": {"suspend": False}, "metadata": {"annotations": {AFTER: "0"}}}
        )
        await scenario.never(is_suspended, 3600)


@virtually
async def test_without_a_limit_ray_is_not_asked_and_nothing_is_written() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(after="")
        version = (await scenario.cluster()).metadata.resource_version
        await asyncio.sleep(HALF_HOUR)
        assert not scenario.ray.asked
        assert (await scenario.cluster()).metadata.resource_version == version


@virtually
async def test_nothing_is_written_while_nothing_changes() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(after="10h")
        await scenario.until(is_idle, 400)
        await asyncio.sleep(60)
        version = (await scenario.cluster()).metadata.resource_version
        await asyncio.sleep(4 * 3600)
        assert (await scenario.cluster()).metadata.resource_version == version
        rounds = sum("component" in path for _, path in scenario.ray.asked)
        assert rounds <= 4 * 3600 / 300 + 5


def counted_cpus(cluster: RayCluster) -> float:
    usage = usage_of(cluster.metadata)
    return usage.cpus if usage else 0.0


@virtually
async def test_a_cluster_that_is_deleted_is_forgotten_without_a_failure() -> None:
    async with a_scenario() as scenario, operator(scenario) as manager:
        await scenario.create()
        await scenario.until(is_idle, 60)
        assert 'cluster="demo"' in manager.registry.render()
        await scenario.plane.client.delete(RAY_CLUSTERS, KEY)
        await asyncio.sleep(600)
        assert not manager.metrics.failures.get("idlesuspend-controller", "observe")
        assert 'cluster="demo"' not in manager.registry.render()


@virtually
async def test_pods_are_counted_from_when_they_have_a_node() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create()
        cluster = await scenario.until(lambda one: usage_of(one.metadata), 60)
        assert counted_cpus(cluster) == 0
        client, head = scenario.plane.client, cluster.status.head.pod_name
        body = {"metadata": {"name": head}, "target": {"kind": "Node", "name": "n1"}}
        await client.create(PODS, NAMESPACE, body, subresource=(head, "binding"))
        await scenario.until(lambda one: counted_cpus(one) == 1, 300)


@virtually
async def test_an_annotation_that_is_no_duration_is_explained() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(after="half an hour")
        await asyncio.sleep(60)
        status, reason, message = await scenario.condition()
        assert (status, reason) == ("Unknown", "InvalidIdleLimit")
        assert '"half an hour": must be a duration of at least 10s' in message
        assert not scenario.ray.asked
        await scenario.patch({"metadata": {"annotations": {AFTER: None}}})
        await scenario.until(lambda one: all(c.type != "Idle" for c in one.status.conditions), 60)


class EditedMeanwhile(FakeActivities):
    """While Ray answers the last question before the suspension, the user edits the cluster."""

    edit: Callable[[], Awaitable[None]] | None = None

    async def send(
        self, target: Target, method: str, path: str, body: bytes | None = None
    ) -> Reply | Unreachable:
        if self.edit is not None and "placement" in path:
            edit, self.edit = self.edit, None
            await edit()
        return await super().send(target, method, path, body)


@virtually
async def test_an_edit_between_the_last_question_and_the_suspension_wins() -> None:
    async with a_scenario() as scenario:
        ray = scenario.ray = EditedMeanwhile()
        async with operator(scenario):
            await scenario.create()
            await scenario.until(is_announced, 1300)
            await asyncio.sleep(590)
            keep = {"metadata": {"annotations": {AFTER: "100h"}}}
            ray.edit = lambda: scenario.patch(keep)
            await scenario.never(is_suspended, HALF_HOUR)
            assert ray.edit is None


@virtually
async def test_a_reconcile_that_raises_shows_in_its_own_condition_and_beside_the_other_controller() -> (
    None
):
    """`ReconcileError` of a RayCluster belongs to the controller that runs it: that would remove it at once."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        async with a_scenario() as scenario, operator(scenario) as manager:
            await scenario.create()
            await scenario.until(is_idle, 60)

            def raises(_: Any) -> Any:
                raise ZeroDivisionError("of the test")

            monkeypatch.setattr(idlesuspend, "plan", raises)
            await scenario.never(is_suspended, 2 * HALF_HOUR)
            status, reason, message = await scenario.condition()
            assert (status, reason) == ("Unknown", "ReconcileFailed")
            assert message.startswith("plan failed: ZeroDivisionError: of the test")
            cluster = await scenario.cluster()
            assert "ReconcileError" not in {one.type for one in cluster.status.conditions}
            assert cluster.status.state == "ready"
            found = (await scenario.plane.client.list(EVENTS, NAMESPACE)).items
            [event] = [one for one in found if one["reason"] == "ReconcileFailed"]
            assert event["type"] == "Warning"
            assert event["reportingController"] == "idlesuspend-controller"
            assert manager.metrics.failures.get("idlesuspend-controller", "plan") > 2
            # A failure that goes on is not written again and again, and nobody takes the condition away.
            await asyncio.sleep(600)
            assert (await scenario.cluster()).metadata.resource_version == (
                cluster.metadata.resource_version
            )
            monkeypatch.undo()
            await scenario.until(is_suspended, HALF_HOUR * 1.1)
            assert (await scenario.condition())[1] != "ReconcileFailed"
