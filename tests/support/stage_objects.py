"""Ray objects whose Pods run on the stage's fake nodes, and whose heads answer there."""

from __future__ import annotations

import copy
from typing import Any

from support.raycluster import ray_cluster
from support.rayjob import ray_job
from support.rayservice_objects import ray_service
from support.stage import TAINT, Stage

Json = dict[str, Any]


def at_home(stage: Stage, pod_spec: Json) -> None:
    """Only our nodes take it, and they take nobody else's."""
    pod_spec["nodeSelector"] = {TAINT: stage.namespace}
    pod_spec["tolerations"] = [{"key": TAINT, "operator": "Exists"}]
    pod_spec.setdefault("terminationGracePeriodSeconds", 1)
    for container in pod_spec["containers"]:
        container["resources"] = {"requests": {"cpu": "10m", "memory": "16Mi"}}


def settle(stage: Stage, spec: Json) -> Json:
    """A RayCluster's spec, on our nodes, with the ports of our dashboards."""
    spec = copy.deepcopy(spec)
    head = spec["headGroupSpec"]["template"]["spec"]
    head["containers"][0]["ports"] = stage.dashboards.ports
    at_home(stage, head)
    for group in spec["workerGroupSpecs"]:
        at_home(stage, group["template"]["spec"])
    return spec


def a_cluster(stage: Stage, name: str, **fields: Any) -> Json:
    document = ray_cluster(name, **fields)
    return document | {"spec": settle(stage, document["spec"])}


def a_job(stage: Stage, name: str, **spec: Any) -> Json:
    document = ray_job(name, **spec)
    if cluster := document["spec"].get("rayClusterSpec"):
        document["spec"]["rayClusterSpec"] = settle(stage, cluster)
    if document["spec"].get("submissionMode", "K8sJobMode") == "K8sJobMode":
        submitter = {"containers": [{"name": "submit", "image": "i"}], "restartPolicy": "Never"}
        at_home(stage, submitter)
        document["spec"].setdefault("submitterPodTemplate", {"spec": submitter})
    return document


def a_service(stage: Stage, name: str, **spec: Any) -> Json:
    document = ray_service(name, **spec)
    document["spec"]["rayClusterConfig"] = settle(stage, document["spec"]["rayClusterConfig"])
    return document
