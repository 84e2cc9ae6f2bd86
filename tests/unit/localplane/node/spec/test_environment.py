from __future__ import annotations

from typing import Any

import msgspec
import pytest

from manta.api.core import Service
from manta.localplane.node.spec.environment import (
    ConfigError,
    PodPlacement,
    Sources,
    command_line,
    container_environment,
    expand,
)
from support.node import a_pod

PLACE = PodPlacement("manta", "10.88.0.1", "10.88.0.7", {"cpu": "4", "memory": "8Gi"})
SOURCES = Sources({"cm": {"key": b"from-cm", "other": b"2"}}, {"pw": {"key": b"secret"}})


def environment(env: list[dict[str, Any]], services: Any = (), **container: Any) -> dict[str, str]:
    pod = a_pod(
        containers=[{"name": "main", "env": env, **container}],
        metadata={"labels": {"ray.io/group": "small"}, "annotations": {"a": "b"}},
        serviceAccountName="ray",
    )
    return container_environment(pod, pod.spec.containers[0], PLACE, SOURCES, services)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)-$(B)", "1-$(B)"),
        ("$$(A)", "$(A)"),
        ("$A ${A}", "$A ${A}"),
        ("a$$b", "a$b"),
        ("$(A", "$(A"),
    ],
)
def test_references_are_replaced_when_defined_and_kept_when_not(text: str, expected: str) -> None:
    assert expand(text, {"A": "1"}) == expected


def test_later_variables_see_earlier_ones() -> None:
    env = environment([{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)$(C)"}])
    assert env["B"] == "1$(C)"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "pod"),
        ("metadata.namespace", "default"),
        ("metadata.labels['ray.io/group']", "small"),
        ("metadata.annotations['none']", ""),
        ("spec.nodeName", "manta"),
        ("spec.serviceAccountName", "ray"),
        ("status.podIP", "10.88.0.7"),
        ("status.hostIP", "10.88.0.1"),
    ],
)
def test_fields_of_the_pod(path: str, value: str) -> None:
    env = environment([{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": path}}}])
    assert env["A"] == value


@pytest.mark.parametrize(
    ("resource", "divisor", "value"),
    [
        ("limits.cpu", "0", "2"),
        ("limits.cpu", "1m", "1500"),
        ("requests.cpu", "1m", "500"),
        ("limits.memory", "0", "8589934592"),
        ("limits.memory", "1Mi", "8192"),
        ("requests.memory", "1Gi", "1"),
    ],
)
def test_resources_count_in_units_of_the_divisor(resource: str, divisor: str, value: str) -> None:
    reference = {"resource": resource, "divisor": divisor}
    resources = {"limits": {"cpu": "1500m"}, "requests": {"cpu": "500m", "memory": "1Gi"}}
    env = environment(
        [{"name": "A", "valueFrom": {"resourceFieldRef": reference}}], resources=resources
    )
    assert env["A"] == value


def test_keys_of_config_maps_and_secrets() -> None:
    taken = {"configMapKeyRef": {"name": "cm", "key": "key"}}
    hidden = {"secretKeyRef": {"name": "pw", "key": "key"}}
    env = environment([{"name": "A", "valueFrom": taken}, {"name": "B", "valueFrom": hidden}])
    assert (env["A"], env["B"]) == ("from-cm", "secret")


def test_env_from_takes_all_keys_under_a_prefix_and_env_wins() -> None:
    sources = [{"prefix": "X_", "configMapRef": {"name": "cm"}}]
    env = environment([{"name": "X_key", "value": "own"}], envFrom=sources)
    assert env == {"X_key": "own", "X_other": "2"}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"secretKeyRef": {"name": "no", "key": "key"}}, 'secret "no" not found'),
        ({"secretKeyRef": {"name": "pw", "key": "no"}}, "couldn't find key no in secret pw"),
        ({"configMapKeyRef": {"name": "no", "key": "key"}}, 'configmap "no" not found'),
        ({"fieldRef": {"fieldPath": "spec.no"}}, 'fieldPath "spec.no" is not supported'),
    ],
)
def test_a_reference_to_nothing_is_named(source: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        environment([{"name": "A", "valueFrom": source}])


def test_an_optional_reference_to_nothing_sets_nothing() -> None:
    source = {"secretKeyRef": {"name": "no", "key": "key", "optional": True}}
    assert environment([{"name": "A", "valueFrom": source}]) == {}


def service(name: str, namespace: str, address: str, /, **port: Any) -> Service:
    spec = {"clusterIP": address, "ports": [port]}
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": namespace}, "spec": spec}, Service
    )


def test_services_of_the_namespace_and_the_api_server_become_variables() -> None:
    services = [
        service("kubernetes", "default", "10.96.0.1", name="https", port=443),
        service("my-svc", "default", "10.96.0.9", port=80),
        service("headless", "default", "None", port=80),
        service("far", "elsewhere", "10.96.0.10", port=80),
    ]
    env = environment([], services)
    assert env["KUBERNETES_SERVICE_HOST"] == "10.96.0.1"
    assert env["KUBERNETES_SERVICE_PORT"] == "443"
    assert env["KUBERNETES_SERVICE_PORT_HTTPS"] == "443"
    assert env["MY_SVC_PORT_80_TCP_ADDR"] == "10.96.0.9"
    assert not any(name.startswith(("HEADLESS", "FAR")) for name in env)


def test_command_and_args_replace_the_images_own_words() -> None:
    def line(**container: Any) -> list[str]:
        pod = a_pod(containers=[{"name": "main", **container}])
        return command_line(pod.spec.containers[0], ("entry",), ("word",), {"A": "1"})

    assert line() == ["entry", "word"]
    assert line(args=["$(A)"]) == ["entry", "1"]
    assert line(command=["own"]) == ["own"]
    assert line(command=["own"], args=["x"]) == ["own", "x"]
