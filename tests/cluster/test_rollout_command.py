"""`manta rollout` and `manta plan` on the embedded plane: what they say is what happens."""

from __future__ import annotations

import argparse
import asyncio
from itertools import groupby
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import PODS as POD_RESOURCE
from manta.api.resources import RESOURCE_QUOTAS
from manta.api.usage import UsageError
from manta.cli.output.plan_report import describe
from manta.cli.rollout import follow, printed, run
from manta.client.rollouts import history, set_paused, undo
from manta.controllers.raycluster.preview import preview
from manta.localplane.fakenodes.script import Script
from manta.rules.settings import Settings
from support.raycluster import NAMESPACE, container, ray_cluster, template
from support.rayoperator import Operated, condition, operated
from support.rollout import BAD, NEXT, REDIS, a_cluster, image_of, rolling, workers
from support.virtual import running, virtually

KEY = Key(NAMESPACE, "demo")
PODS = Script(start=0.2, ready=2.0, stop=4.0)


async def create(op: Operated, *groups: dict[str, Any], **spec: Any) -> None:
    await op.client.create(RAY_CLUSTERS, NAMESPACE, a_cluster(*groups, **spec))
    assert await follow(op.client, KEY, 300) == 0


async def edit(op: Operated, *groups: dict[str, Any], **spec: Any) -> None:
    await op.patch({"spec": a_cluster(*groups, **spec)["spec"]})


async def images(op: Operated) -> set[str]:
    return {image_of(pod) for pod in await op.pods(node="worker")}


def test_status_follows_an_update_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    @virtually
    async def story() -> None:
        async with operated(script=PODS) as op:
            await create(op, workers(replicas=2))
            await edit(op, workers(replicas=2, image=NEXT))
            assert await follow(op.client, KEY, 600) == 0

    story()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "raycluster/demo: the Pods of revision 1 are created"
    assert any("1 of 2 workers of group workers replaced; waiting" in one for one in lines)
    assert lines[-1] == "raycluster/demo: all Pods are of revision 2"
    assert len(lines) == len(set(lines)), "each change is said once"


def test_status_ends_with_1_when_an_update_stops(capsys: pytest.CaptureFixture[str]) -> None:
    broken = workers(image=BAD)
    broken["template"]["metadata"] = {"annotations": {"fake.manta.io/script": "pull=error"}}

    @virtually
    async def story() -> None:
        async with operated(script=PODS) as op:
            await create(op)
            await edit(op, broken, upgradeStrategy=rolling(progressDeadlineSeconds=60))
            assert await follow(op.client, KEY, 600) == 1

    story()
    assert "no progress for 60 s" in capsys.readouterr().out.splitlines()[-1]


def test_status_ends_with_1_when_an_edit_is_invalid(capsys: pytest.CaptureFixture[str]) -> None:
    @virtually
    async def story() -> None:
        async with operated(script=PODS) as op:
            await create(op)
            invalid = rolling(maxSurge=0, maxUnavailable=0)
            await edit(op, workers(image=NEXT), upgradeStrategy=invalid)
            assert await follow(op.client, KEY, 600) == 1

    story()
    assert "maxUnavailable" in capsys.readouterr().out.splitlines()[-1]


def test_status_refuses_a_time_limit_below_zero() -> None:
    with pytest.raises(UsageError, match="--timeout -1: must be 0"):
        run(argparse.Namespace(action="status", target="demo", timeout=-1.0))


def test_history_says_what_each_revision_changed() -> None:
    @virtually
    async def story() -> None:
        async with operated(script=PODS) as op:
            await create(op)
            await edit(op, workers(image=NEXT))
            assert await follow(op.client, KEY, 600) == 0
            found = await history(op.client, KEY)
            first, second = printed(found).splitlines()[1:]
            assert first.split() == ["1", "complete", "<none>"]
            assert second.split(maxsplit=2)[:2] == ["2", "newest"]
            assert 'image: "rayproject/ray:2.60.0" -> "rayproject/ray:2.60.1"' in second
            assert f'image: "{NEXT}"' in printed(found, 2)
            with pytest.raises(UsageError, match="there is no such revision; known: 1, 2"):
                printed(found, 7)

    story()


def test_undo_puts_the_templates_back_and_leaves_the_sizes() -> None:
    @virtually
    async def story() -> None:
        async with operated(script=PODS) as op:
            await create(op)
            await edit(op, workers(replicas=2, image=NEXT), headServiceAnnotations={"a": "b"})
            assert await follow(op.client, KEY, 600) == 0
            assert await undo(op.client, KEY) == "raycluster/demo rolled back to revision 1"
            assert await follow(op.client, KEY, 600) == 0
            assert await images(op) == {"rayproject/ray:2.60.0"}
            assert len(await op.pods(node="worker")) == 2
            spec = (await op.client.get(RAY_CLUSTERS, KEY))["spec"]
            assert spec["headServiceAnnotations"] == {"a": "b"}
            assert [one.number for one in await history(op.client, KEY)] == [2, 3]
            again = await undo(op.client, KEY, 2)
            assert again == "raycluster/demo rolled back to revision 2"
            with pytest.raises(UsageError, match="--to-revision 9: there is no such revision"):
                await undo(op.client, KEY, 9)

    story()


@pytest.mark.parametrize("by_annotation", [False, True])
def test_pause_and_resume(by_annotation: bool) -> None:
    annotation = {names.ANNOTATION_ROLLING_UPDATE: '{"maxUnavailable": 1}'}
    given: dict[str, Any] = {"annotations": annotation, "upgradeStrategy": {}}

    @virtually
    async def story() -> None:
        async with operated(script=PODS) as op:
            await create(op, **(given if by_annotation else {}))
            assert await set_paused(op.client, KEY, paused=True) == "raycluster/demo paused"
            again = await set_paused(op.client, KEY, paused=True)
            assert again == "raycluster/demo is already paused"
            op_edit = workers(image=NEXT)
            await op.patch({"spec": {"workerGroupSpecs": [op_edit]}})
            await asyncio.sleep(300)
            assert await images(op) == {"rayproject/ray:2.60.0"}
            assert await set_paused(op.client, KEY, paused=False) == "raycluster/demo resumed"
            assert await follow(op.client, KEY, 600) == 0
            assert await images(op) == {NEXT}
            again = await set_paused(op.client, KEY, paused=False)
            assert again == "raycluster/demo is not paused"

    story()


def test_resume_tries_a_revision_again_that_was_given_up() -> None:
    slow = workers(image=NEXT)
    slow["template"]["metadata"] = {"annotations": {"fake.manta.io/script": "ready=100"}}
    strategy = rolling(onFailure="rollback", progressDeadlineSeconds=60)

    @virtually
    async def story() -> None:
        async with operated(script=PODS) as op:
            await create(op, upgradeStrategy=strategy)
            await edit(op, slow, upgradeStrategy=strategy)
            assert await follow(op.client, KEY, 600) == 1
            assert await images(op) == {"rayproject/ray:2.60.0"}
            patient = {"progressDeadlineSeconds": 600}
            await op.patch({"spec": {"upgradeStrategy": {"rollingUpdate": patient}}})
            said = await set_paused(op.client, KEY, paused=False)
            assert said == "raycluster/demo tries revision 2 again"
            await op.until(lambda one: _reason(one) == "Complete", seconds=900)
            assert await images(op) == {NEXT}

    story()


def test_resume_goes_on_with_an_update_that_stopped_at_its_deadline() -> None:
    """A quota that had room only after the deadline: nothing is left that could become ready by itself."""
    strategy = rolling(progressDeadlineSeconds=60)

    @virtually
    async def story() -> None:
        async with operated(script=PODS) as op:
            await create(op, upgradeStrategy=strategy)
            pods = await op.client.list(POD_RESOURCE, NAMESPACE)
            full = {"spec": {"hard": {"pods": str(len(pods.items))}}}
            quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}}
            await op.client.create(RESOURCE_QUOTAS, NAMESPACE, quota | full)
            await asyncio.sleep(5)
            await edit(op, workers(image=NEXT), upgradeStrategy=strategy)
            assert await follow(op.client, KEY, 600) == 1
            await op.client.delete(RESOURCE_QUOTAS, Key(NAMESPACE, "q"))
            await asyncio.sleep(600)
            assert await images(op) == {"rayproject/ray:2.60.0"}
            stopped = condition(await op.read(), "RollingUpdate")
            assert "no progress for 60 s in group workers: " in stopped.message
            assert "exceeded quota: q" in stopped.message
            assert "manta rollout resume" in stopped.message
            said = await set_paused(op.client, KEY, paused=False)
            assert said == "raycluster/demo tries revision 2 again"
            await op.until(lambda one: _reason(one) == "Complete", seconds=900)
            assert await images(op) == {NEXT}

    story()


def _reason(cluster: Any) -> str:
    found = condition(cluster, "RollingUpdate")
    return found.reason if found else ""


def test_a_cluster_without_a_rolling_update_is_told_how_to_get_one() -> None:
    @virtually
    async def story() -> None:
        async with operated() as op:
            await op.create()
            with pytest.raises(
                UsageError, match=r"set spec\.upgradeStrategy\.type to RollingUpdate"
            ):
                await history(op.client, KEY)

    story()


# ── manta plan ───────────────────────────────────────────────────────────────────────────


async def planned(op: Operated, *groups: dict[str, Any], **spec: Any) -> Any:
    manifest = a_cluster(*groups, **spec)
    return await preview(op.client, Settings(), op.cluster.plane.clock, KEY, manifest)


EDITS: dict[str, dict[str, Any]] = {
    "one group": {"groups": [workers("a", 2, NEXT), workers("b", 1)]},
    "both groups": {"groups": [workers("a", 2, NEXT), workers("b", 1, NEXT)]},
    "and the head": {
        "groups": [workers("a", 2, NEXT), workers("b", 1)],
        "head": {"template": template(container(image=NEXT))},
    },
    "more and other": {"groups": [workers("a", 3, NEXT), workers("b", 0)]},
    "without surge": {
        "groups": [workers("a", 2, NEXT), workers("b", 1, NEXT)],
        "upgradeStrategy": rolling(maxUnavailable=1),
    },
}


@pytest.mark.parametrize("which", EDITS)
def test_the_predicted_order_is_what_happens_on_a_server(which: str) -> None:
    wanted = dict(EDITS[which])
    groups = wanted.pop("groups")
    wanted["gcsFaultToleranceOptions"] = REDIS

    @virtually
    async def story() -> None:
        async with operated(script=PODS) as op:
            await create(op, workers("a", 2), workers("b", 1), gcsFaultToleranceOptions=REDIS)
            found = await planned(op, *groups, **wanted)
            assert found.effect == "Pods are replaced one after the other"
            before = len(op.faults.log)
            done: list[str] = []
            async with running(_note(op, done)):
                await asyncio.sleep(1)
                await edit(op, *groups, **wanted)
                assert await follow(op.client, KEY, 900) == 0
                await asyncio.sleep(30)
            assert before < len(op.faults.log)
            assert _sorted(done) == _sorted(list(found.order))

    story()


async def _note(op: Operated, done: list[str]) -> None:
    """Notes creations and deletions of Pods in the words of `manta plan`."""
    from manta.api.resources import PODS as POD_RESOURCE

    known: set[str] = {pod["metadata"]["name"] for pod in await op.pods()}
    going: set[str] = set()
    async for event in op.client.watch(POD_RESOURCE, NAMESPACE, initial_events=True):
        if event.type not in ("ADDED", "MODIFIED"):
            continue
        meta = event.object["metadata"]
        name, group = meta["name"], meta["labels"].get(names.LABEL_GROUP, "")
        is_head = group == names.HEAD_GROUP
        if name not in known:
            known.add(name)
            done.append("create the head" if is_head else f"create a worker of group {group}")
        if meta.get("deletionTimestamp") and name not in going:
            going.add(name)
            done.append(f"delete {'head' if is_head else 'worker'} {name}")


def _sorted(steps: list[str]) -> list[str]:
    """Steps of one stage happen at once: neighbours with the same verb in any order."""
    parts = [sorted(each) for _, each in groupby(steps, key=lambda one: one.split()[0])]
    return [one for part in parts for one in part]


def test_plan_says_what_each_field_needs() -> None:
    tolerant = workers("a", 3, NEXT)
    tolerant["template"]["spec"]["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
    head = {"template": template(container(image=NEXT))}

    @virtually
    async def story() -> None:
        async with operated(script=PODS) as op:
            await create(op, workers("a", 2), workers("b", 1))
            found = await planned(
                op, tolerant, workers("b", 1), head=head, headServiceAnnotations={"x": "y"}
            )
            said = "\n".join(found.changes)
            assert "replicas: 2 -> 3 (in place)" in said
            assert (
                'containers[ray].image: "rayproject/ray:2.60.0" -> "rayproject/ray:2.60.1" (rolls group a)'
                in said
            )
            assert "(rolls the head)" in said
            assert "tolerations: added" in said
            assert "(for new Pods only)" in said
            assert "headServiceAnnotations" in said
            assert found.order[-1].startswith(
                "wait: all workers are replaced. The head is of an earlier"
            )
            lines = list(describe("RayCluster", KEY, found))
            assert any(one.startswith("  order   1. create a worker of group a") for one in lines)
            other = await planned(op, workers("a", 2), workers("b", 1), rayVersion="2.61.0")
            assert "(needs Recreate: workers of one Ray version cannot join" in other.changes[0]
            assert other.order[-1].startswith("wait: the edit cannot be rolled: rayVersion")

    story()


def test_plan_of_a_cluster_without_rolling_update_is_as_before() -> None:
    @virtually
    async def story() -> None:
        async with operated() as op:
            await op.create()
            await op.until_ready()
            manifest = ray_cluster(groups=[workers(replicas=1, image=NEXT)])
            found = await preview(op.client, Settings(), op.cluster.plane.clock, KEY, manifest)
            assert found is not None
            assert found.order == ()
            assert "(for new Pods only)" in found.changes[0]

    story()
