"""The budget of a protected head on the embedded server: watched only where one is wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import POD_DISRUPTION_BUDGETS
from manta.kube.errors import NotFound
from support.raycluster import NAMESPACE
from support.rayoperator import Operated, operated, start_operator
from support.virtual import virtually

BUDGETS = "/poddisruptionbudgets"
KEY = Key(NAMESPACE, "demo-head")
PROTECTED = {"manta.ray.io/protect-head": "true"}


def asked(op: Operated) -> list[str]:
    return [f"{one.method} {one.path}" for one in op.faults.log if BUDGETS in one.path]


async def protects(op: Operated) -> bool:
    try:
        found = await op.client.get(POD_DISRUPTION_BUDGETS, KEY)
    except NotFound:
        return False
    return bool(found["spec"].get("minAvailable") == 1)


async def annotate(op: Operated, annotations: Mapping[str, str | None]) -> None:
    body = {"metadata": {"annotations": annotations}}
    await op.client.patch(RAY_CLUSTERS, Key(NAMESPACE, "demo"), body)


@virtually
async def test_nobody_asks_about_budgets_where_no_head_is_protected() -> None:
    async with operated() as op:
        await op.create()
        await op.until_ready()
        await asyncio.sleep(600)
        assert asked(op) == []
        assert op.manager.ready


@virtually
async def test_what_becomes_of_a_budget_is_noticed_and_repaired() -> None:
    async with operated() as op:
        await op.create(annotations=PROTECTED)
        await op.until_ready()
        assert await protects(op)
        await op.client.delete(POD_DISRUPTION_BUDGETS, KEY)
        await op.cluster.until(lambda: protects(op))
        edit = {"spec": {"minAvailable": None, "maxUnavailable": "100%"}}
        await op.client.patch(POD_DISRUPTION_BUDGETS, KEY, edit)
        await op.cluster.until(lambda: protects(op))
        written = len(op.writes(BUDGETS))
        await asyncio.sleep(600)
        assert len(op.writes(BUDGETS)) == written == 3
        await annotate(op, {"manta.ray.io/protect-head": None})
        await op.cluster.until_gone(POD_DISRUPTION_BUDGETS, KEY.name, NAMESPACE)


@virtually
async def test_a_head_that_runs_is_protected_as_soon_as_somebody_asks() -> None:
    async with operated() as op:
        await op.create()
        await op.until_ready()
        await annotate(op, PROTECTED)
        await op.cluster.until(lambda: protects(op))
        assert op.pod_deletes() == 0


@virtually
async def test_an_operator_that_begins_again_writes_no_budget_but_mends_one() -> None:
    async with operated() as first:
        await first.create(annotations=PROTECTED)
        await first.until_ready()
        first.manager.stop()
        await asyncio.sleep(30)
        async with start_operator(first.cluster, seed=8) as second:
            await asyncio.sleep(60)
            assert second.writes() == []
            await second.client.delete(POD_DISRUPTION_BUDGETS, KEY)
            await second.cluster.until(lambda: protects(second))
