"""What is allowed and hardly meant."""

from __future__ import annotations

from typing import Any

from support.strategies import strategy_of


def spec(**container: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", **container}]}


def test_half_a_byte_is_warned_of_with_its_place() -> None:
    pod = {"spec": spec(resources={"requests": {"memory": "500m", "cpu": "500m"}})}
    [reported] = strategy_of("v1", "Pod").warnings(pod, None)
    assert reported == (
        'spec.containers[0].resources.requests[memory]: fractional byte value "500m" is invalid, '
        "must be an integer"
    )


def test_a_variable_that_hides_another_is_warned_of() -> None:
    pod = {"spec": spec(env=[{"name": "A"}, {"name": "B"}, {"name": "A"}])}
    [reported] = strategy_of("v1", "Pod").warnings(pod, None)
    assert reported.startswith('spec.containers[0].env[2]: hides previous definition of "A"')


def test_a_template_is_looked_at_when_it_changes_and_only_then() -> None:
    constraint = {"maxSkew": 1, "topologyKey": "z"}
    template = {"spec": {**spec(), "topologySpreadConstraints": [constraint]}}
    new = {"spec": {"template": template}}
    deployments = strategy_of("apps/v1", "Deployment")
    [reported] = deployments.warnings(new, {"spec": {"template": {"spec": spec()}}})
    assert reported.startswith(
        "spec.template.spec.topologySpreadConstraints[0].labelSelector: a null"
    )
    assert deployments.warnings(new, new) == []
    assert strategy_of("v1", "ConfigMap").warnings({"data": {}}, None) == []
