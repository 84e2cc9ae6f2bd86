"""The rules of a canary's options: each violation names the field, the value and the cure."""

from __future__ import annotations

from typing import Any

import pytest

from manta.rules.settings import Settings
from manta.rules.validation.service import service_violations
from support.rayservice_objects import a_service

OPTIONS = "spec.upgradeStrategy.canaryUpgradeOptions"


def violations(options: Any = None, annotations: dict[str, str] | None = None) -> list[str]:
    strategy = {"type": "Canary"} | ({"canaryUpgradeOptions": options} if options else {})
    service = a_service(upgradeStrategy=strategy, annotations=annotations or {})
    return [str(one) for one in service_violations(service, Settings())]


def steps(*weights: int, **options: Any) -> dict[str, Any]:
    return {"steps": [{"weight": weight} for weight in weights], **options}


def test_a_canary_with_steps_is_valid() -> None:
    assert violations(steps(10, 50)) == []


@pytest.mark.parametrize("deadline", [1, 2_592_000])
def test_the_ends_of_every_range_are_valid(deadline: int) -> None:
    assert violations(steps(1, 99, progressDeadlineSeconds=deadline)) == []


def test_a_canary_needs_options_in_the_spec_or_in_the_annotation() -> None:
    [one] = violations()
    assert one.startswith(f"{OPTIONS}: null: must be set for a canary")
    text = "steps: [{weight: 10}]\n"
    assert violations(annotations={"manta.ray.io/canary": text}) == []


def test_an_annotation_that_cannot_be_read_says_so() -> None:
    [one] = violations(annotations={"manta.ray.io/canary": "steps: 5"})
    assert one.startswith("metadata.annotations[manta.ray.io/canary]")
    assert "Expected `array`, got `int`" in one


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("steps: [{weight: 10, pause: 600}]", "steps[0].pause: 600: is no option of a canary"),
        ("{steps: [{weight: 10}], maxsurge: 2}", "maxsurge: 2: is no option of a canary; did you"),
        ("{steps: [{weight: 10}], analysis: {errors: 2}}", "analysis.errors: 2: is no option"),
    ],
)
def test_a_misspelt_option_of_the_annotation_is_refused(text: str, expected: str) -> None:
    [one] = violations(annotations={"manta.ray.io/canary": text})
    assert one.startswith(f"metadata.annotations[manta.ray.io/canary].{expected}")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (steps(*range(1, 25)), f"{OPTIONS}.steps: 24: must have between 1 and 20 steps"),
        (steps(0), f"{OPTIONS}.steps[0].weight: 0: must be between 1 and 99 percent"),
        (steps(100), f"{OPTIONS}.steps[0].weight: 100: must be between 1 and 99 percent"),
        (steps(50, 10), f"{OPTIONS}.steps[1].weight: 10: must be more than the weight of the step"),
        (steps(10, maxSurge=0), f"{OPTIONS}.maxSurge: 0: must be a number of workers"),
        (steps(10, maxSurge="x%"), f'{OPTIONS}.maxSurge: "x%": must be a number of workers'),
        (
            steps(10, progressDeadlineSeconds=0),
            f"{OPTIONS}.progressDeadlineSeconds: 0: must be between 1 and 2592000 seconds",
        ),
        (
            {"steps": [{"weight": 10, "pauseSeconds": 10**14}]},
            f"{OPTIONS}.steps[0].pauseSeconds: {10**14}: must be between 0 and 2592000 seconds",
        ),
        (
            steps(10, analysis={"maxErrorPercent": 1, "intervalSeconds": 60}),
            f"{OPTIONS}.analysis.intervalSeconds: 60: must be between 1 and 15 seconds",
        ),
        (steps(10, analysis={"minRequests": 5}), f"{OPTIONS}.analysis: {{}}: must set a limit"),
        (
            steps(10, analysis={"maxErrorPercent": 101}),
            f"{OPTIONS}.analysis.maxErrorPercent: 101.0: must be between 0 and 100",
        ),
        (
            steps(10, analysis={"maxP95Milliseconds": 0}),
            f"{OPTIONS}.analysis.maxP95Milliseconds: 0: must be at least 1",
        ),
        (
            steps(10, analysis={"prometheus": {"query": "", "max": 1}}),
            f'{OPTIONS}.analysis.prometheus.query: "": must be a PromQL query',
        ),
    ],
)
def test_a_violation_names_field_value_and_cure(options: Any, expected: str) -> None:
    [one] = violations(options)
    assert one.startswith(expected)


def test_options_of_a_canary_are_ignored_by_other_strategies() -> None:
    strategy = {"type": "NewCluster", "canaryUpgradeOptions": steps(0)}
    service = a_service(upgradeStrategy=strategy)
    assert service_violations(service, Settings()) == ()
