"""The hash of a spec: moved by what needs new Pods, by nothing else (C43)."""

from __future__ import annotations

from typing import Any

import pytest

from manta.rules.spec_hash import spec_hash
from support.raycluster import container, group, ray_cluster, template
from support.raycluster_scenario import decode


def hash_of(**spec: Any) -> str:
    return spec_hash(decode(ray_cluster(**spec)).spec)


@pytest.mark.parametrize(
    "spec",
    [
        {"groups": [group(replicas=7)]},
        {"groups": [group(replicas=None)]},
        {"groups": [group(minReplicas=2, maxReplicas=3)]},
        {"groups": [group(scaleStrategy={"workersToDelete": ["a"]})]},
        {"groups": [group(template=template(tolerations=[{"key": "x"}]))]},
        {"groups": [group(template=template(schedulingGates=[{"name": "x"}]))]},
        {"head": {"template": template(tolerations=[{"key": "x"}])}},
        {"suspend": True},
        {"upgradeStrategy": {"type": "Recreate"}},
    ],
)
def test_c43_scaling_and_queueing_do_not_move_it(spec: dict[str, Any]) -> None:
    assert hash_of(**spec) == hash_of()


@pytest.mark.parametrize(
    "spec",
    [
        {"rayVersion": "1"},
        {"groups": []},
        {"groups": [group("other")]},
        {"groups": [group(template=template(container(image="new")))]},
        {"groups": [group(rayStartParams={"num-cpus": "1"})]},
        {"head": {"template": template(container(image="new"))}},
        {"enableInTreeAutoscaling": True},
    ],
)
def test_what_needs_new_pods_moves_it(spec: dict[str, Any]) -> None:
    assert hash_of(**spec) != hash_of()


def test_c43_the_order_of_fields_does_not_move_it() -> None:
    one = container(env=[{"name": "A", "value": "b"}])
    other = dict(reversed(list(one.items())))
    assert hash_of(head={"template": template(one)}) == hash_of(head={"template": template(other)})


def test_groups_that_were_appended_can_be_left_out() -> None:
    both = decode(ray_cluster(groups=[group("a"), group("b")])).spec
    first = decode(ray_cluster(groups=[group("a")])).spec
    assert spec_hash(both, worker_groups=1) == spec_hash(first)
    assert spec_hash(both) != spec_hash(first)


def test_it_is_base32_with_digits_first() -> None:
    assert set(hash_of()) <= set("0123456789ABCDEFGHIJKLMNOPQRSTUV=")
