"""What is allowed and hardly meant."""

from __future__ import annotations

from typing import Any

from manta.localplane.apiserver.builtin_kinds.warnings import warnings_of


def spec(**container: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", **container}]}


def test_half_a_byte_is_warned_of_with_its_place() -> None:
    pod = {"spec": spec(resources={"requests": {"memory": "500m", "cpu": "500m"}})}
    [told] = warnings_of("Pod", pod, None)
    assert told == (
        'spec.containers[0].resources.requests[memory]: fractional byte value "500m" is invalid, '
        "must be an integer"
    )


def test_a_variable_that_hides_another_is_warned_of() -> None:
    pod = {"spec": spec(env=[{"name": "A"}, {"name": "B"}, {"name": "A"}])}
    [told] = warnings_of("Pod", pod, None)
    assert told.startswith('spec.containers[0].env[2]: hides previous definition of "A"')


def test_a_template_is_looked_at_when_it_changes_and_only_then() -> None:
    constraint = {"maxSkew": 1, "topologyKey": "z"}
    template = {"spec": {**spec(), "topologySpreadConstraints": [constraint]}}
    new = {"spec": {"template": template}}
    [told] = warnings_of("Deployment", new, {"spec": {"template": {"spec": spec()}}})
    assert told.startswith("spec.template.spec.topologySpreadConstraints[0].labelSelector: a null")
    assert list(warnings_of("Deployment", new, new)) == []
    assert list(warnings_of("ConfigMap", {"data": {}}, None)) == []
