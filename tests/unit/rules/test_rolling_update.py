"""The options of a rolling update: defaults, rounding, the annotation, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from manta.api.ray import names
from manta.rules.rolling_update import Limits, drain_budget, limits, rolling_update
from manta.rules.settings import Settings
from manta.rules.validation.cluster import cluster_violations
from support.raycluster import group, ray_cluster
from support.raycluster_scenario import decode


def cluster(options: dict[str, Any] | None = None, replicas: int = 4, **spec: Any) -> Any:
    strategy: dict[str, Any] = {"type": "RollingUpdate"}
    strategy |= {"rollingUpdate": options} if options is not None else {}
    groups = [group("a", replicas=replicas), group("b", replicas=1)]
    return decode(ray_cluster(groups=groups, upgradeStrategy=strategy, **spec))


def limits_of(one: Any, at: int = 0) -> Limits:
    options = rolling_update(one)
    assert options is not None
    return limits(one, options, one.spec.worker_group_specs[at])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, Limits(1, 0)),
        ({"maxUnavailable": 2}, Limits(0, 2)),
        ({"maxSurge": 2}, Limits(2, 0)),
        ({"maxSurge": 0}, Limits(0, 1)),
        ({"maxSurge": "26%", "maxUnavailable": "26%"}, Limits(2, 1)),
        ({"maxSurge": "0%", "maxUnavailable": "1%"}, Limits(0, 1)),
        ({"maxUnavailable": 9}, Limits(0, 4)),
        ({"groups": [{"groupName": "a", "maxSurge": 3}]}, Limits(3, 0)),
        ({"maxSurge": 2, "groups": [{"groupName": "b", "maxSurge": 3}]}, Limits(2, 0)),
    ],
)
def test_limits_are_resolved_as_deployments_do(options: dict[str, Any], expected: Limits) -> None:
    assert limits_of(cluster(options)) == expected


def test_with_the_autoscaler_nothing_surges_by_default() -> None:
    assert limits_of(cluster(enableInTreeAutoscaling=True)) == Limits(0, 1)


def test_with_the_autoscaler_a_surge_ends_at_max_replicas() -> None:
    assert limits_of(cluster({"maxSurge": 3}, 9, enableInTreeAutoscaling=True)) == Limits(1, 0)
    assert limits_of(cluster({"maxSurge": 3}, 10, enableInTreeAutoscaling=True)) == Limits(0, 1)


def test_the_annotation_has_the_same_options() -> None:
    annotations = {names.ANNOTATION_ROLLING_UPDATE: '{"maxSurge": "50%", "paused": true}'}
    one = decode(ray_cluster(groups=[group(replicas=4)], annotations=annotations))
    options = rolling_update(one)
    assert options is not None
    assert options.paused
    assert limits_of(one) == Limits(2, 0)
    assert not cluster_violations(one, Settings())


@pytest.mark.parametrize("text", ["", "false", "False"])
def test_an_annotation_that_says_no_is_no_rolling_update(text: str) -> None:
    one = decode(ray_cluster(annotations={names.ANNOTATION_ROLLING_UPDATE: text}))
    assert rolling_update(one) is None
    assert not cluster_violations(one, Settings())


def test_without_a_rolling_update_no_worker_drains_unless_the_annotation_says_so() -> None:
    assert drain_budget(decode(ray_cluster())) == 0
    assert drain_budget(cluster()) == 120
    assert drain_budget(cluster({"drainSeconds": 5})) == 5
    asked = {names.ANNOTATION_DRAIN_SECONDS: "7"}
    assert drain_budget(cluster({"drainSeconds": 5}, annotations=asked)) == 7


AT = "spec.upgradeStrategy.rollingUpdate"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"maxSurge": 0, "maxUnavailable": "0%"},
            f'{AT}.maxUnavailable: "0%": may not be 0 when maxSurge is 0 too: no Pod could be replaced',
        ),
        (
            {"maxSurge": -1},
            f"{AT}.maxSurge: -1: must be a number of replicas, 0 or more, or percent",
        ),
        (
            {"maxSurge": "half"},
            f'{AT}.maxSurge: "half": must be a number of replicas, or percent such as "25%"',
        ),
        (
            {"maxUnavailable": "101%"},
            (
                f'{AT}.maxUnavailable: "101%": must be a number of replicas, or percent of at most 100%'
                ' such as "25%"'
            ),
        ),
        (
            {"minReadySeconds": 600, "progressDeadlineSeconds": 600},
            (
                f"{AT}.progressDeadlineSeconds: 600: must be more than minReadySeconds (600): no Pod"
                " could count in time"
            ),
        ),
        (
            {"drainSeconds": 90000},
            f"{AT}.drainSeconds: 90000: must be a number of seconds between 0 and 86400",
        ),
        ({"onFailure": "Undo"}, f'{AT}.onFailure: "Undo": must be stop or rollback'),
        (
            {"groups": [{"groupName": "aa"}]},
            f"{AT}.groups[0].groupName: \"aa\": names no worker group; did you mean 'a'?",
        ),
        (
            {"groups": [{"groupName": "a"}, {"groupName": "a"}]},
            f'{AT}.groups[1].groupName: "a": is there twice; remove one',
        ),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any], sentence: str) -> None:
    assert [str(one) for one in cluster_violations(cluster(options), Settings())] == [sentence]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("yes", "must be true, or JSON such as"),
        ('{"maxSurge": true}', "Expected `int | str | null`, got `bool` - at `$.maxSurge`"),
        ('{"maxSurges": 1}', 'maxSurges: "set": is no option of a rolling update; did you mean'),
        ('{"groups": [{"groupName": "workers", "surge": 1}]}', ".groups[0].surge"),
    ],
)
def test_an_annotation_that_cannot_be_read_is_refused(text: str, part: str) -> None:
    one = decode(ray_cluster(annotations={names.ANNOTATION_ROLLING_UPDATE: text}))
    [violation] = cluster_violations(one, Settings())
    assert part in str(violation)
    assert f"metadata.annotations[{names.ANNOTATION_ROLLING_UPDATE}]" in str(violation)


def test_the_annotation_and_another_strategy_exclude_each_other() -> None:
    annotations = {names.ANNOTATION_ROLLING_UPDATE: "true"}
    one = decode(ray_cluster(annotations=annotations, upgradeStrategy={"type": "Recreate"}))
    [violation] = cluster_violations(one, Settings())
    assert violation.message == "remove it, or spec.upgradeStrategy.type: Recreate"
    assert rolling_update(one) is None


def test_a_cluster_of_a_rayservice_is_not_rolled() -> None:
    one = decode(
        ray_cluster(
            annotations={names.ANNOTATION_ROLLING_UPDATE: "true"},
            labels={names.LABEL_ORIGIN_KIND: "RayService"},
        )
    )
    [violation] = cluster_violations(one, Settings())
    assert "belongs to a RayService" in violation.message


def test_options_without_the_type_are_refused() -> None:
    one = decode(ray_cluster(upgradeStrategy={"rollingUpdate": {"maxSurge": 1}}))
    [violation] = cluster_violations(one, Settings())
    assert str(violation).startswith("spec.upgradeStrategy.type: null: set it to RollingUpdate")


def test_consent_is_the_word_allow() -> None:
    one = decode(ray_cluster(annotations={names.ANNOTATION_ROLLING_UPDATE_HEAD: "yes"}))
    [violation] = cluster_violations(one, Settings())
    assert violation.message == "must be allow, or absent"
