"""Ray objects whose Pods run on the operator fixture's fake nodes, and whose heads answer there."""

from __future__ import annotations

import copy
from typing import Any

from support.operator_fixture import TAINT, OperatorFixture
from support.raycluster import ray_cluster
from support.rayjob import ray_job
from support.rayservice_objects import ray_service

Json = dict[str, Any]


def at_home(operator_fixture: OperatorFixture, pod_spec: Json) -> None:
    """Only our nodes take it, and they take nobody else's."""
    pod_spec["nodeSelector"] = {TAINT: operator_fixture.namespace}
    pod_spec["tolerations"] = [{"key": TAINT, "operator": "Exists"}]
    pod_spec.setdefault("terminationGracePeriodSeconds", 1)
    for container in pod_spec["containers"]:
        container["resources"] = {"requests": {"cpu": "10m", "memory": "16Mi"}}


def settle(operator_fixture: OperatorFixture, spec: Json) -> Json:
    """A RayCluster's spec, on our nodes, with the ports of our dashboards."""
    spec = copy.deepcopy(spec)
    head = spec["headGroupSpec"]["template"]["spec"]
    head["containers"][0]["ports"] = operator_fixture.dashboards.ports
    at_home(operator_fixture, head)
    for group in spec["workerGroupSpecs"]:
        at_home(operator_fixture, group["template"]["spec"])
    return spec


def a_cluster(operator_fixture: OperatorFixture, name: str, **fields: Any) -> Json:
    document = ray_cluster(name, **fields)
    return document | {"spec": settle(operator_fixture, document["spec"])}


def a_job(operator_fixture: OperatorFixture, name: str, **spec: Any) -> Json:
    document = ray_job(name, **spec)
    if cluster := document["spec"].get("rayClusterSpec"):
        document["spec"]["rayClusterSpec"] = settle(operator_fixture, cluster)
    if document["spec"].get("submissionMode", "K8sJobMode") == "K8sJobMode":
        submitter = {"containers": [{"name": "submit", "image": "i"}], "restartPolicy": "Never"}
        at_home(operator_fixture, submitter)
        document["spec"].setdefault("submitterPodTemplate", {"spec": submitter})
    return document


def a_service(operator_fixture: OperatorFixture, name: str, **spec: Any) -> Json:
    document = ray_service(name, **spec)
    document["spec"]["rayClusterConfig"] = settle(
        operator_fixture, document["spec"]["rayClusterConfig"]
    )
    return document
