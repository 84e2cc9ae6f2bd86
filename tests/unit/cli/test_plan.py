"""How a plan reads."""

from __future__ import annotations

import pytest

from manta.api.meta import Key
from manta.cli.main import main
from manta.cli.output.plan_report import describe
from manta.cli.plan import KINDS, previewer_of
from manta.controllers.raycluster.preview import preview_of
from support.raycluster import container, group, ray_cluster, template
from support.raycluster_scenario import HEAD, Scenario, decode

KEY = Key("default", "demo")


def test_every_action_has_a_line_with_its_stage_and_cause() -> None:
    scenario = Scenario(decode(ray_cluster(groups=[group(replicas=1)])))
    lines = list(describe("RayCluster", KEY, preview_of(scenario.snapshot(), None)))
    assert lines[0] == "RayCluster default/demo: it is new, and everything is created"
    assert lines[1] == "  1. create Service default/demo-head-svc: head service"
    assert lines[2] == f"  2. create Pod default/{HEAD}: no head"
    assert lines[3].startswith("  3. create Pod default/demo-workers-worker-")


def test_an_edit_that_spares_running_pods_says_so() -> None:
    scenario = Scenario(decode(ray_cluster()))
    scenario.settle()
    live = scenario.cluster
    changed = template(container(env=[{"name": "A", "value": "b"}]))
    scenario.set_spec(ray_cluster(groups=[group(template=changed)]))
    text = "\n".join(describe("RayCluster", KEY, preview_of(scenario.snapshot(), live)))
    assert "nothing changes" in text
    assert "only new ones" in text


def test_what_is_wrong_is_said_field_by_field() -> None:
    scenario = Scenario(decode(ray_cluster(groups=[group(minReplicas=-1)])))
    text = "\n".join(describe("RayCluster", KEY, preview_of(scenario.snapshot(), None)))
    assert "invalid  spec.workerGroupSpecs[0].minReplicas: -1: must be zero or more" in text


def test_what_is_not_there_is_said_to_be_not_there() -> None:
    assert "does not exist" in next(describe("RayCluster", KEY, None))


def test_the_fields_of_an_edit_are_named() -> None:
    scenario = Scenario(decode(ray_cluster()))
    scenario.settle()
    live = scenario.cluster
    scenario.set_spec(ray_cluster(rayVersion="2.61.0"))
    lines = list(describe("RayCluster", KEY, preview_of(scenario.snapshot(), live)))
    assert any(line.startswith("  edit     spec.rayVersion:") for line in lines)


def test_a_kind_without_a_plan_is_reported_those_that_have_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["plan", "pod/x"]) == 2
    assert "RayCluster" in capsys.readouterr().err


def test_every_kind_with_a_plan_can_be_loaded() -> None:
    assert all(callable(previewer_of(kind)) for kind in KINDS)
