"""What a scrape of the operator tells of RayClusters, while they live and when they are gone."""

from __future__ import annotations

import asyncio
from typing import Any

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.times import parse_time
from manta.rules.settings import Settings
from support.raycluster import NAMESPACE, group
from support.rayoperator import Operated, condition, operated
from support.virtual import virtually

MEASURED = Settings(enable_metrics=True)


def scraped(op: Operated) -> dict[str, str]:
    """The value of each `kuberay_` series."""
    lines = op.manager.registry.render().splitlines()
    return dict(one.rsplit(" ", 1) for one in lines if one.startswith("kuberay_"))


def series(family: str, uid: str, name: str = "demo", **labels: Any) -> str:
    pairs = {"name": name, "namespace": NAMESPACE, "uid": uid, **labels}
    inner = ",".join(f'{key}="{value}"' for key, value in sorted(pairs.items()))
    return f"kuberay_cluster_{family}{{{inner}}}"


@virtually
async def test_a_scrape_follows_a_cluster_from_its_birth_to_its_end() -> None:
    async with operated(MEASURED) as op:
        op.cluster.nodes.script("ray.io/node-type=worker", "start=20")
        await op.create(groups=[group(replicas=2)])
        await op.until_pods(1, node="head")
        uid = (await op.read()).metadata.uid
        info = series("info", uid, owner_kind="None")
        assert scraped(op) == {
            info: "1.0",
            series("condition_provisioned", uid, condition="false"): "1.0",
        }

        found = await op.until_ready()
        await asyncio.sleep(1)
        reported = condition(found, "RayClusterProvisioned")
        assert reported is not None
        born = parse_time(found.metadata.creation_timestamp)
        took = int((parse_time(reported.last_transition_time) - born).total_seconds())
        assert 20 <= took <= 30
        pods_ready = {
            info: "1.0",
            series("condition_provisioned", uid, condition="true"): "1.0",
            series("provisioned_duration_seconds", uid): str(float(took)),
        }
        assert scraped(op) == pods_ready

        await asyncio.sleep(3600)
        assert scraped(op) == pods_ready
        await op.client.delete(RAY_CLUSTERS, Key(NAMESPACE, "demo"))
        await op.cluster.until_gone(RAY_CLUSTERS, "demo", NAMESPACE)
        await asyncio.sleep(1)
        assert scraped(op) == {}


@virtually
async def test_clusters_are_reported_with_the_kind_that_made_them() -> None:
    async with operated(MEASURED) as op:
        for kind in ("RayJob", "RayService"):
            labels = {
                "ray.io/originated-from-crd": kind,
                "ray.io/originated-from-cr-name": "parent",
            }
            await op.create(f"of-{kind.lower()}", groups=[], labels=labels)
        await op.create("own", groups=[])
        await asyncio.sleep(1)
        kinds = {one.partition('owner_kind="')[2].partition('"')[0] for one in scraped(op)}
        assert kinds - {""} == {"RayJob", "RayService", "None"}


@virtually
async def test_without_metrics_nothing_of_clusters_is_kept() -> None:
    async with operated(Settings(enable_metrics=False)) as op:
        await op.create(groups=[])
        await op.until_ready()
        assert scraped(op) == {}
