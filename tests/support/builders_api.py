"""Realistic API objects as JSON values, for tests and benchmarks of the decoders."""

from __future__ import annotations

from typing import Any


def a_ray_worker_pod(number: int = 0) -> dict[str, Any]:
    """A worker Pod as a real API server returns it: about 7.7 KB, a third of it managedFields."""
    name = f"raycluster-sample-small-group-worker-{number:05d}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(name, number),
        "spec": _spec(name),
        "status": _status(number),
    }


def _metadata(name: str, number: int) -> dict[str, Any]:
    return {
        "name": name,
        "generateName": "raycluster-sample-small-group-worker-",
        "namespace": "default",
        "uid": f"3b0c1d2e-0000-4000-8000-{number:012d}",
        "resourceVersion": str(1000 + number),
        "creationTimestamp": "2026-11-15T08:30:00Z",
        "labels": {
            "app.kubernetes.io/created-by": "kuberay-operator",
            "app.kubernetes.io/name": "kuberay",
            "ray.io/cluster": "raycluster-sample",
            "ray.io/group": "small-group",
            "ray.io/identifier": "raycluster-sample-worker",
            "ray.io/is-ray-node": "yes",
            "ray.io/node-type": "worker",
            "ray.io/worker-group-replica-index": str(number),
        },
        "annotations": {"ray.io/ft-enabled": "false"},
        "ownerReferences": [
            {
                "apiVersion": "ray.io/v1",
                "kind": "RayCluster",
                "name": "raycluster-sample",
                "uid": "9d8f7e6c-1111-4222-8333-abcdefabcdef",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "managedFields": _managed_fields(),
    }


def _managed_fields() -> list[dict[str, Any]]:
    container: dict[str, Any] = {
        f"f:{field}": {}
        for field in ("args", "command", "image", "imagePullPolicy", "name", "resources")
    }
    env: dict[str, Any] = {
        f'k:{{"name":"RAY_SETTING_{n}"}}': {".": {}, "f:name": {}, "f:value": {}} for n in range(14)
    }
    fields = {
        "f:metadata": {"f:labels": {f"f:ray.io/label-{n}": {} for n in range(8)}},
        "f:spec": {"f:containers": {'k:{"name":"ray-worker"}': {**container, "f:env": env}}},
    }
    return [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2026-11-15T08:30:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": fields if manager == "manager" else {"f:status": {"f:conditions": {}}},
        }
        for manager in ("manager", "kubelet")
    ]


def _spec(name: str) -> dict[str, Any]:
    env: list[dict[str, Any]] = [
        {"name": f"RAY_SETTING_{n}", "value": f"value-of-setting-{n}"} for n in range(12)
    ]
    env.append(
        {
            "name": "RAY_CLUSTER_NAME",
            "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['ray.io/cluster']"}},
        }
    )
    token = {
        "name": "kube-api-access",
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    }
    container = {
        "name": "ray-worker",
        "image": "rayproject/ray:2.52.0",
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/bash", "-c", "--"],
        "args": [
            "ulimit -n 65536; ray start --address=raycluster-sample-head-svc.default.svc.cluster.local:6379 --block --num-cpus=1 --memory=1073741824 --metrics-export-port=8080"
        ],
        "env": env,
        "ports": [{"name": "metrics", "containerPort": 8080, "protocol": "TCP"}],
        "resources": {
            "limits": {"cpu": "1", "memory": "1Gi"},
            "requests": {"cpu": "1", "memory": "1Gi"},
        },
        "livenessProbe": _probe(),
        "readinessProbe": _probe(),
        "volumeMounts": [{"name": "shared-mem", "mountPath": "/dev/shm"}, token],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    init = {key: container[key] for key in ("image", "command", "env", "volumeMounts")}
    return {
        "containers": [container],
        "initContainers": [
            {
                "name": "wait-gcs-ready",
                **init,
                "resources": {"limits": {"cpu": "200m", "memory": "256Mi"}},
            }
        ],
        "nodeName": "node-1",
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 30,
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{why}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for why in ("not-ready", "unreachable")
        ],
        "volumes": [{"name": "shared-mem", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}],
    }


def _probe() -> dict[str, Any]:
    command = (
        "wget --tries 1 -T 2 -q -O- http://localhost:52365/api/local_raylet_healthz | grep success"
    )
    return {
        "exec": {"command": ["bash", "-c", command]},
        "initialDelaySeconds": 30,
        "timeoutSeconds": 2,
        "periodSeconds": 5,
        "successThreshold": 1,
        "failureThreshold": 120,
    }


def _status(number: int) -> dict[str, Any]:
    types = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": "Running",
        "podIP": f"10.0.{number // 250}.{number % 250 + 1}",
        "podIPs": [{"ip": f"10.0.{number // 250}.{number % 250 + 1}"}],
        "hostIP": "192.168.1.10",
        "qosClass": "Guaranteed",
        "startTime": "2026-11-15T08:30:01Z",
        "conditions": [
            {
                "type": kind,
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": "2026-11-15T08:31:00Z",
            }
            for kind in types
        ],
        "containerStatuses": [
            {
                "name": "ray-worker",
                "ready": True,
                "started": True,
                "restartCount": 1,
                "image": "docker.io/rayproject/ray:2.52.0",
                "imageID": "docker.io/rayproject/ray@sha256:" + "ab" * 32,
                "containerID": "containerd://" + "cd" * 32,
                "state": {"running": {"startedAt": "2026-11-15T08:30:30Z"}},
                "lastState": {
                    "terminated": {
                        "exitCode": 137,
                        "reason": "OOMKilled",
                        "startedAt": "2026-11-15T08:30:10Z",
                        "finishedAt": "2026-11-15T08:30:29Z",
                    }
                },
            }
        ],
        "initContainerStatuses": [
            {
                "name": "wait-gcs-ready",
                "ready": True,
                "restartCount": 0,
                "image": "docker.io/rayproject/ray:2.52.0",
                "state": {
                    "terminated": {
                        "exitCode": 0,
                        "reason": "Completed",
                        "startedAt": "2026-11-15T08:30:02Z",
                        "finishedAt": "2026-11-15T08:30:09Z",
                    }
                },
                "lastState": {},
            }
        ],
    }
