"""`manta plan`: shows what the operator would do, without a single write."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from manta.api.meta import Key
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.preview import ONLY_NEW_PODS, Effect, preview
from manta.kube.errors import BadRequest
from manta.reconcile.preview import Preview
from manta.rules.settings import Settings
from support.raycluster import NAMESPACE, group, ray_cluster, template
from support.rayoperator import Operated, operated
from support.virtual import virtually

KEY = Key(NAMESPACE, "demo")


async def ask(op: Operated, manifest: dict[str, Any] | None = None) -> Preview:
    before = op.cluster.plane.app.store.revision
    found = await preview(op.client, Settings(), op.cluster.plane.clock, KEY, manifest)
    assert found is not None
    assert op.cluster.plane.app.store.revision == before
    return found


@virtually
async def test_a_new_cluster_is_reported_action_by_action() -> None:
    async with operated() as op:
        found = await ask(op, ray_cluster(groups=[group(replicas=2)]))
        causes = [one.cause for one in found.plan.actions]
        assert causes == [Cause.HEAD_SERVICE, Cause.NO_HEAD, Cause.SCALE_UP, Cause.SCALE_UP]
        assert found.effect is Effect.NEW


@virtually
async def test_edits_of_a_live_cluster_are_weighed() -> None:
    async with operated() as op:
        recreate: dict[str, Any] = {"upgradeStrategy": {"type": "Recreate"}}
        await op.create(groups=[group(replicas=2)], **recreate)
        await op.until_ready()
        await asyncio.sleep(5)
        assert (await ask(op)).effect is Effect.NOTHING

        def edited(**spec: Any) -> dict[str, Any]:
            return ray_cluster(**{"groups": [group(replicas=2)], **recreate, **spec})

        assert (await ask(op, edited())).effect is Effect.NOTHING
        grown = await ask(op, edited(groups=[group(replicas=3)]))
        assert grown.effect is Effect.IN_PLACE
        shrunk = await ask(op, edited(groups=[group(replicas=1)]))
        assert shrunk.effect is Effect.SOME_DELETED
        assert [one.cause for one in shrunk.plan.actions] == [Cause.SCALE_DOWN]
        recreated = await ask(op, edited(rayVersion="2.61.0", groups=[group(replicas=3)]))
        assert recreated.effect is Effect.ALL_RECREATED
        assert recreated.changes == (
            'spec.rayVersion: "2.60.0" -> "2.61.0" (recreates all Pods)',
            "spec.workerGroupSpecs[workers].replicas: 2 -> 3 (in place)",
        )
        spared = await ask(op, edited(rayVersion="2.61.0", upgradeStrategy={"type": "None"}))
        assert spared.effect is Effect.NOTHING
        assert spared.remarks == ()  # nothing that the Pods are made of depends on it
        other = {"spec": {**template()["spec"], "nodeSelector": {"a": "b"}}}
        spared = await ask(
            op, edited(groups=[group(replicas=2, template=other)], upgradeStrategy={"type": "None"})
        )
        assert spared.effect is Effect.NOTHING
        assert spared.remarks == (ONLY_NEW_PODS,)
        [change] = [one for one in spared.changes if "nodeSelector" in one]
        assert change.endswith("(for new Pods only)")
        annotated = await ask(
            op, edited(headServiceAnnotations={"a": "b"}, upgradeStrategy={"type": "None"})
        )
        assert annotated.effect is Effect.IN_PLACE
        assert annotated.remarks == ()
        asleep = await ask(op, edited(suspend=True))
        assert asleep.effect is Effect.ALL_DELETED
        wrong = await ask(op, edited(groups=[group(minReplicas=3, maxReplicas=1)]))
        assert wrong.violations
        assert wrong.effect is Effect.INVALID


@virtually
async def test_what_is_not_there_or_not_ours_has_no_plan() -> None:
    async with operated() as op:
        clock = op.cluster.plane.clock
        assert await preview(op.client, Settings(), clock, KEY) is None
        await op.create(managedBy="kueue.x-k8s.io/multikueue")
        assert await preview(op.client, Settings(), clock, KEY) is None


@virtually
async def test_a_typo_in_an_edit_is_refused_by_the_server() -> None:
    """U6: an unknown field was dropped in silence."""
    async with operated() as op:
        await op.create()
        await op.until_ready()
        with pytest.raises(BadRequest, match=r'unknown field "spec\.headGroupSpecs"'):
            await ask(op, ray_cluster(headGroupSpecs={}))
