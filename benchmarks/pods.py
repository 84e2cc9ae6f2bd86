"""Ray worker Pods as a real server stores them: 7 to 8 KB each, a quarter of it managedFields."""

from __future__ import annotations

import json
from typing import Any


def a_pod(number: int) -> dict[str, Any]:
    cluster = f"cluster-{number // 50}"
    name = f"{cluster}-workers-worker-{number:05x}"
    env = [{"name": f"RAY_SETTING_{index}", "value": f"value-{index}" * 3} for index in range(30)]
    mounts = [{"name": f"volume-{index}", "mountPath": f"/mnt/{index}"} for index in range(6)]
    container = {
        "name": "ray-worker",
        "image": "rayproject/ray:2.60.0-py311",
        "command": ["/bin/bash", "-c", "--"],
        "args": [f"ulimit -n 65536; ray start --address={cluster}-head-svc:6379 --block"],
        "env": env,
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1"}},
        "volumeMounts": mounts,
        "ports": [{"name": "metrics", "containerPort": 8080, "protocol": "TCP"}],
        "imagePullPolicy": "IfNotPresent",
    }
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": _metadata(name, cluster, number),
        "spec": {
            "containers": [container],
            "restartPolicy": "Always",
            "nodeName": f"node-{number % 100}",
            "volumes": [{"name": f"volume-{index}", "emptyDir": {}} for index in range(6)],
        },
        "status": status_of(number),
    }


def _metadata(name: str, cluster: str, number: int) -> dict[str, Any]:
    owned: dict[str, Any] = {f"f:{key}": {} for key in (f"setting{index}" for index in range(170))}
    return {
        "name": name,
        "namespace": f"team-{number % 10}",
        "uid": f"00000000-0000-4000-8000-{number:012d}",
        "resourceVersion": str(1_000_000 + number),
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {
            "ray.io/cluster": cluster,
            "ray.io/node-type": "worker",
            "ray.io/group": "workers",
            "ray.io/is-ray-node": "yes",
            "ray.io/identifier": f"{cluster}-worker",
            "app.kubernetes.io/name": "kuberay",
            "app.kubernetes.io/created-by": "kuberay-operator",
        },
        "ownerReferences": [
            {
                "apiVersion": "ray.io/v1",
                "kind": "RayCluster",
                "name": cluster,
                "uid": f"11111111-0000-4000-8000-{number // 50:012d}",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "managedFields": [
            {
                "manager": "manta",
                "operation": "Update",
                "apiVersion": "v1",
                "time": "2026-01-01T00:00:00Z",
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": owned},
            }
        ],
    }


def status_of(number: int) -> dict[str, Any]:
    moment = "2026-01-01T00:00:10Z"
    types = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": "Running",
        "podIP": f"10.{number // 65536}.{number // 256 % 256}.{number % 256}",
        "hostIP": "192.168.0.1",
        "startTime": moment,
        "qosClass": "Burstable",
        "conditions": [
            {"type": type_, "status": "True", "lastProbeTime": None, "lastTransitionTime": moment}
            for type_ in types
        ],
        "containerStatuses": [
            {
                "name": "ray-worker",
                "image": "rayproject/ray:2.60.0-py311",
                "imageID": f"sha256:{number:064x}",
                "containerID": f"containerd://{number:064x}",
                "ready": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": moment}},
                "lastState": {},
            }
        ],
    }


def a_created_pod(number: int) -> dict[str, Any]:
    """As an operator sends it: no status, and nothing that the server adds."""
    pod = a_pod(number)
    name, labels = pod["metadata"]["name"], pod["metadata"]["labels"]
    owners = pod["metadata"]["ownerReferences"]
    container = pod["spec"]["containers"][0]
    few = container | {"env": container["env"][:12], "volumeMounts": container["volumeMounts"][:3]}
    spec = pod["spec"] | {"containers": [few], "volumes": pod["spec"]["volumes"][:3]}
    meta = {"name": name, "labels": labels, "ownerReferences": owners}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": spec}


def pod_list(count: int, first: int = 0) -> bytes:
    items = [a_pod(number) for number in range(first, first + count)]
    document = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}
    return json.dumps(document, separators=(",", ":")).encode()
