"""One object cannot take the operator's memory or time: what a user typed is a bounded amount of work."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_CRON_JOBS, RAY_JOBS, RAY_SERVICES
from manta.api.resources import EVENTS, PODS, Resource
from manta.rules.runtime_env import parse_runtime_env
from manta.rules.serve_config import parse_serve_config
from manta.rules.text_cache import MAX_TEXT, TextParser
from manta.rules.validation.violation import Violation
from support.raycluster import NAMESPACE, group, ray_cluster
from support.reconcile_failures import all_controllers, an_object
from support.virtual import virtually

HUGE = 2**31 - 1
KINDS: dict[str, tuple[Resource, tuple[str, ...]]] = {
    "RayCluster": (RAY_CLUSTERS, ()),
    "RayJob": (RAY_JOBS, ("rayClusterSpec",)),
    "RayService": (RAY_SERVICES, ("rayClusterConfig",)),
    "RayCronJob": (RAY_CRON_JOBS, ("jobTemplate", "rayClusterSpec")),
}


def huge(kind: str, name: str) -> dict[str, Any]:
    groups = [group(replicas=HUGE, minReplicas=0, maxReplicas=HUGE)]
    made = an_object(kind, name)
    if kind == "RayCronJob":
        made["spec"]["jobTemplate"] = {"entrypoint": "x", "rayClusterSpec": {}}
    spec = made["spec"]
    for step in KINDS[kind][1][:-1]:
        spec = spec[step]
    if KINDS[kind][1]:
        spec[KINDS[kind][1][-1]] = ray_cluster(groups=groups)["spec"]
    else:
        made["spec"] = ray_cluster(groups=groups)["spec"]
    return made


@pytest.mark.parametrize("kind", KINDS)
@virtually
async def test_two_billion_replicas_make_no_pod_and_say_why(kind: str) -> None:
    """X6."""
    async with all_controllers() as all_:
        await all_.client.create(KINDS[kind][0], NAMESPACE, huge(kind, "huge"))
        await all_.make(kind, "good")
        await asyncio.sleep(120)
        found = (await all_.client.list(PODS, NAMESPACE)).items
        assert not [one for one in found if "huge" in one["metadata"]["name"]]
        said = str(await all_.get(kind, "huge"))
        reported = await all_.client.list(EVENTS, NAMESPACE)
        notes = [one["note"] for one in reported.items if one["regarding"]["name"] == "huge"]
        assert "150000" in said or any("150000" in one for one in notes)
        if kind != "RayCronJob":
            assert (await all_.get(kind, "good"))["status"]


@virtually
async def test_a_cluster_of_more_than_a_plan_holds_is_made_in_several() -> None:
    """X6."""
    async with all_controllers() as all_:
        groups = [group(replicas=1100, maxReplicas=1100)]
        await all_.client.create(RAY_CLUSTERS, NAMESPACE, ray_cluster("big", groups=groups))
        await asyncio.sleep(20)
        found = (await all_.client.list(PODS, NAMESPACE)).items
        assert len(found) == 1 + 1100
        assert await all_.condition("RayCluster", "big") is None


BOMB = "a: &a [x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 8)}]\n" for n in range(9)
)


@pytest.mark.parametrize("parse", [parse_serve_config, parse_runtime_env])
@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        "z: 2020-99-99",
        "z: " + "9" * 5000,
        "[" * 5000,
        "a: " + "x" * MAX_TEXT,
        "- {}\n" * 90_000,
        "? " * 3000,
    ],
    ids=["aliases", "date", "digits", "depth", "length", "items", "keys"],
)
def test_a_hostile_text_is_a_violation_or_a_value_and_never_raises(
    parse: TextParser[Any], text: str
) -> None:
    """X6, X14, S2."""
    result = parse(text)
    assert isinstance(result, Violation | dict)
    assert len(str(result)) < 20_000


def test_a_text_beyond_the_limit_is_refused_with_the_limit() -> None:
    wrong = parse_serve_config("x" * (MAX_TEXT + 1))
    assert isinstance(wrong, Violation)
    assert str(MAX_TEXT) in str(wrong)


def test_parsed_texts_are_remembered_within_a_bound() -> None:
    calls: list[str] = []

    def parse(text: str) -> int:
        calls.append(text[:1])
        return len(text)

    parser = TextParser(parse, limit=100_000)
    for letter in "abcdef":
        assert parser(letter * 30_000) == 30_000
    assert parser.size <= 100_000
    assert parser("f" * 30_000) == 30_000
    assert calls == list("abcdef")
    assert not parser.knows("a" * 30_000)


@virtually
async def test_a_large_config_is_parsed_in_a_thread_and_served() -> None:
    """X6: 1 MB of flat YAML blocked the loop."""
    text = "applications:\n" + "".join(
        f"- {{name: a{n}, import_path: 'x:y', args: {{t: {'v' * 40}}}}}\n" for n in range(2000)
    )
    assert 64 * 1024 < len(text) < MAX_TEXT
    async with all_controllers() as all_:
        body = an_object("RayService", "large")
        body["spec"]["serveConfigV2"] = text
        await all_.client.create(RAY_SERVICES, NAMESPACE, body)
        await asyncio.sleep(30)
        assert parse_serve_config.knows(text)
        service = await all_.client.get(RAY_SERVICES, Key(NAMESPACE, "large"))
        assert service["status"]["pendingServiceStatus"]["rayClusterName"]
