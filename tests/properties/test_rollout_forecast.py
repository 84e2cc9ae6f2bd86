"""What `manta plan` predicts for an edit is what happens: 200 generated edits, and some on the embedded plane."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from manta.api.ray import names
from manta.controllers.raycluster.forecast import Step, forecast
from manta.reconcile.actions import Create, Delete
from support.raycluster import container, template
from support.raycluster_scenario import Scenario
from support.rollout import REDIS, a_cluster, a_rollout, roll, rolling, workers

IMAGES = tuple(f"rayproject/ray:2.60.{number}" for number in range(3))


def an_edit(random: Random) -> tuple[dict[str, Any], dict[str, Any]]:
    """A cluster, and the cluster after the edit."""
    amount = random.choice([1, 2, "34%", "100%"])
    options = {random.choice(["maxSurge", "maxUnavailable"]): amount}
    more: dict[str, Any] = {"upgradeStrategy": rolling(**options)}
    if random.random() < 0.7:
        more["gcsFaultToleranceOptions"] = REDIS
    names_ = ["a", "b", "c"][: random.randint(1, 3)]
    hosts = {name: random.choice([1, 1, 2]) for name in names_}
    return _spec(random, names_, hosts, more), _spec(random, names_, hosts, more)


def _spec(
    random: Random, groups: list[str], hosts: dict[str, int], more: dict[str, Any]
) -> dict[str, Any]:
    made = [
        workers(name, random.randint(0, 3), random.choice(IMAGES), numOfHosts=hosts[name])
        for name in groups
    ]
    head = {"template": template(container(image=random.choice(IMAGES)))}
    return {"groups": made, "head": head, **more}


def happened(scenario: Scenario, known: dict[str, str]) -> list[Step]:
    """`known` are the groups of the Pods that existed before."""
    found: list[Step] = []
    groups = dict(known)
    for one in scenario.log:
        if isinstance(one, Create) and one.resource.kind == "Pod":
            meta = one.manifest["metadata"]
            groups[meta["name"]] = meta["labels"][names.LABEL_GROUP]
            found.append(Step("create", groups[meta["name"]]))
        elif isinstance(one, Delete) and one.resource.kind == "Pod":
            name = one.key.name
            found.append(Step("delete", groups[name], name if name in known else ""))
    return found


@pytest.mark.parametrize("part", range(10))
def test_the_predicted_order_is_what_happens(part: int) -> None:
    for seed in range(part * 20, part * 20 + 20):
        before, after = an_edit(Random(seed))
        scenario = a_rollout(*before.pop("groups"), **before)
        known = {
            name: pod["metadata"]["labels"][names.LABEL_GROUP]
            for name, pod in scenario.pods.items()
        }
        scenario.set_spec(a_cluster(*after.pop("groups"), **after))
        predicted = forecast(scenario.snapshot())
        roll(scenario)
        assert list(predicted.steps) == happened(scenario, known), f"seed {seed}"
