"""Random specs that the CRDs accept: every field has a generator, and a few are drawn for each object."""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

from manta.api.ray import names
from support.raycluster import NAMESPACE, container, template

Object = dict[str, Any]
Draw = Callable[[Random], Any]
CONFIG = "applications:\n  - name: app\n    import_path: demo.app\n    args: {{n: {n}}}\n"


def one_of(*values: Any) -> Draw:
    return lambda random: copy.deepcopy(random.choice(values))


def always(value: Any) -> Draw:
    return lambda _random: copy.deepcopy(value)


_RESOURCES = {"requests": {"cpu": "1"}, "limits": {"cpu": "1", "memory": "1Gi"}}
_ENV = [
    {"name": "STORAGE_BACKEND", "value": "s3"},
    {"name": "S3_REGION", "value": "eu"},
    {"name": "S3_BUCKET", "value": "logs"},
]
_RULE = {"ports": [{"port": 80}]}
_SERVICE = {"metadata": {"labels": {"team": "a"}}, "spec": {"type": "ClusterIP"}}

CLUSTER: dict[str, Draw] = {
    "suspend": one_of(False, True, False),
    "managedBy": one_of("ray.io/kuberay-operator"),
    "enableInTreeAutoscaling": one_of(True, False),
    "autoscalerOptions.version": one_of("v1", "v2"),
    "autoscalerOptions.image": always("rayproject/ray:2.60.0"),
    "autoscalerOptions.imagePullPolicy": always("IfNotPresent"),
    "autoscalerOptions.resources": always(_RESOURCES),
    "autoscalerOptions.securityContext": always({"runAsUser": 1000}),
    "autoscalerOptions.idleTimeoutSeconds": one_of(30, 60),
    "autoscalerOptions.upscalingMode": one_of("Default", "Aggressive", "Conservative"),
    "autoscalerOptions.env": always([{"name": "A", "value": "b"}]),
    "autoscalerOptions.envFrom": always([{"configMapRef": {"name": "c", "optional": True}}]),
    "autoscalerOptions.volumeMounts": always([]),
    "autoscalerOptions.command": always(["ray"]),
    "autoscalerOptions.args": always(["kuberay-autoscaler"]),
    "headServiceAnnotations": one_of({"a": "b"}, {"a": "c", "d": "e"}),
    "upgradeStrategy.type": one_of("Recreate", "None", "Recreate"),
    "authOptions.mode": one_of("token", "disabled"),
    "authOptions.enableK8sTokenAuth": one_of(True, False),
    "authOptions.secretName": always("my-token"),
    "gcsFaultToleranceOptions.redisAddress": always("redis:6379"),
    "gcsFaultToleranceOptions.backend": always("redis"),
    "gcsFaultToleranceOptions.redisUsername": always({"value": "user"}),
    "gcsFaultToleranceOptions.redisPassword": always(
        {"valueFrom": {"secretKeyRef": {"name": "redis", "key": "password"}}}
    ),
    "gcsFaultToleranceOptions.externalStorageNamespace": always("own"),
    "historyServerOptions.collectorOptions.image": always("collector:1"),
    "historyServerOptions.collectorOptions.imagePullPolicy": always("Always"),
    "historyServerOptions.collectorOptions.resources": always(_RESOURCES),
    "historyServerOptions.collectorOptions.env": always(_ENV),
    "networkPolicy.mode": one_of("DenyAll", "DenyAllIngress", "DenyAllEgress"),
    "networkPolicy.head.ingressRules": always([_RULE]),
    "networkPolicy.head.egressRules": always([_RULE]),
    "networkPolicy.worker.ingressRules": always([_RULE]),
    "networkPolicy.worker.egressRules": always([_RULE]),
    "networkPolicy.workerGroups": always([{"groupName": "a", "egressRules": [_RULE]}]),
    "tlsOptions.enabled": one_of(False, True),
    "headGroupSpec.rayStartParams": one_of({"num-cpus": "0"}, {"dashboard-host": "0.0.0.0"}),
    "headGroupSpec.resources": one_of({"CPU": "2"}, {"CPU": "1", "special": "3"}),
    "headGroupSpec.labels": always({"zone": "a"}),
    "headGroupSpec.serviceType": one_of("ClusterIP", "NodePort"),
    "headGroupSpec.headService": always(_SERVICE),
    "headGroupSpec.enableIngress": one_of(True, False),
    "headGroupSpec.ingressOptions.host": always("ray.example.com"),
    "headGroupSpec.ingressOptions.path": one_of("/ray", "/"),
    "headGroupSpec.ingressOptions.pathType": one_of("Exact", "Prefix"),
    "headGroupSpec.ingressOptions.tls": always([{"hosts": ["ray.example.com"]}]),
    "headGroupSpec.template.spec.restartPolicy": one_of("Always", "Never"),
}

RARE: dict[str, Draw] = {
    "managedBy": always("kueue.x-k8s.io/multikueue"),
    "gcsFaultToleranceOptions": one_of(
        {"backend": "rocksdb", "storage": {"size": "1Gi", "deletionPolicy": "DeleteWithCluster"}},
        {
            "backend": "rocksdb",
            "storage": {
                "size": "2Gi",
                "storageClassName": "fast",
                "accessModes": ["ReadWriteOnce"],
                "subPath": "gcs",
                "deletionPolicy": "Retain",
            },
        },
        {"backend": "rocksdb", "storage": {"claimName": "mine"}},
    ),
    "networkPolicy.workerGroups": always([{"groupName": "a", "ingressRules": [_RULE]}]),
    "gcsFaultToleranceOptions.redisUsername": always(
        {"valueFrom": {"secretKeyRef": {"name": "redis", "key": "user"}}}
    ),
    "gcsFaultToleranceOptions.redisPassword": always({"value": "secret"}),
}
"""Fields that need a feature gate, or stop the operator from acting."""

GROUP: dict[str, Draw] = {
    "replicas": one_of(0, 1, 2, 3, 5),
    "minReplicas": one_of(0, 1, 2),
    "maxReplicas": one_of(2, 3, 10),
    "numOfHosts": one_of(1, 2, 4),
    "idleTimeoutSeconds": one_of(30, 60),
    "priority": one_of(0, 5),
    "suspend": one_of(True, False),
    "rayStartParams": always({"num-cpus": "1"}),
    "resources": always({"CPU": "2"}),
    "labels": always({"zone": "b"}),
    "scaleStrategy": always({"workersToDelete": ["gone"]}),
    "template.spec.restartPolicy": one_of("Never", "Always"),
}

_RULES = [
    {"policy": "DeleteWorkers", "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": 5}},
    {"policy": "DeleteCluster", "condition": {"jobStatus": "FAILED", "ttlSeconds": 10}},
    {"policy": "DeleteCluster", "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": 20}},
    {"policy": "DeleteCluster", "condition": {"jobDeploymentStatus": "Failed"}},
]

JOB: dict[str, Draw] = {
    "runtimeEnvYAML": always("env_vars: {A: b}\n"),
    "metadata": always({"team": "a"}),
    "jobId": always("my-id"),
    "submissionMode": one_of("K8sJobMode", "HTTPMode", "SidecarMode", "InteractiveMode"),
    "entrypointNumCpus": always(1.0),
    "entrypointNumGpus": always(1.0),
    "entrypointResources": always('{"special": 1}'),
    "submitterPodTemplate": always(
        {"spec": {"restartPolicy": "Never", "containers": [container("submit")]}}
    ),
    "submitterConfig.backoffLimit": one_of(0, 3),
    "suspend": one_of(True, False),
    "managedBy": always("ray.io/kuberay-operator"),
    "backoffLimit": one_of(1, 2),
    "activeDeadlineSeconds": one_of(15, 300),
    "preRunningDeadlineSeconds": one_of(30, 600),
    "shutdownAfterJobFinishes": one_of(True, True, False),
    "ttlSecondsAfterFinished": one_of(0, 10, 30),
    "deletionStrategy": one_of(
        {"onSuccess": {"policy": "DeleteWorkers"}, "onFailure": {"policy": "DeleteCluster"}},
        {"onSuccess": {"policy": "DeleteSelf"}, "onFailure": {"policy": "DeleteNone"}},
        {"deletionRules": _RULES},
        {"deletionRules": _RULES[2:3]},
    ),
}

SERVICE: dict[str, Draw] = {
    "serveConfigV2": lambda random: CONFIG.format(n=random.randrange(1000)),
    "serveService": always({"metadata": {"name": "my-serve-svc"}, "spec": {"type": "NodePort"}}),
    "upgradeStrategy.type": one_of("NewCluster", "None", "NewCluster"),
    "upgradeStrategy": always(
        {
            "type": "NewClusterWithIncrementalUpgrade",
            "clusterUpgradeOptions": {
                "maxSurgePercent": 50,
                "stepSizePercent": 50,
                "intervalSeconds": 5,
                "gatewayClassName": "manta",
            },
        }
    ),
    "suspend": one_of(True, False),
    "managedBy": always("ray.io/kuberay-operator"),
    "rayClusterDeletionDelaySeconds": one_of(0, 20),
    "excludeHeadPodFromServeSvc": one_of(True, False),
    "serviceUnhealthySecondThreshold": always(60),
    "deploymentUnhealthySecondThreshold": always(60),
}

CRON: dict[str, Draw] = {
    "timeZone": one_of("Europe/Berlin", "UTC"),
    "suspend": one_of(False, True),
    "successfulJobsHistoryLimit": one_of(0, 1, 2),
    "failedJobsHistoryLimit": one_of(0, 1),
}

ANNOTATIONS: dict[str, dict[str, Draw]] = {
    "RayCluster": {
        names.ANNOTATION_PROTECT_HEAD: one_of("true", "true", "false"),
        names.ANNOTATION_ENABLE_SERVE_SERVICE: always("true"),
        names.ANNOTATION_FT_DELETION_TIMEOUT: one_of("20", "300"),
        names.ANNOTATION_DRAIN_SECONDS: always("30"),
    },
    "RayService": {names.ANNOTATION_INITIALIZING_TIMEOUT: always("100h")},
    "RayJob": {},
    "RayCronJob": {},
}
"""What users may ask for by an annotation."""


def _set(spec: Object, path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for parent in parents:
        if not isinstance(spec.get(parent), dict):
            spec[parent] = {}
        spec = spec[parent]
    spec[last] = value


def _drawn(random: Random, spec: Object, table: dict[str, Draw], most: int) -> None:
    for path in random.sample(sorted(table), min(random.randint(0, most), len(table))):
        _set(spec, path, table[path](random))


def image(random: Random) -> str:
    return f"rayproject/ray:2.60.{random.randrange(3)}"


def a_template(random: Random) -> Object:
    return template(container(image=image(random)))


def a_group(random: Random, name: str) -> Object:
    group: Object = {
        "groupName": name,
        "minReplicas": 0,
        "maxReplicas": 10,
        "replicas": random.choice([0, 1, 1, 2, 3]),
        "template": a_template(random),
    }
    _drawn(random, group, GROUP, 2)
    return group


def a_cluster_spec(random: Random, *, rare: bool = False) -> Object:
    groups = [a_group(random, name) for name in "ab"[: random.choice([0, 1, 1, 1, 2])]]
    spec: Object = {
        "rayVersion": "2.60.0",
        "headGroupSpec": {"template": a_template(random)},
        "workerGroupSpecs": groups,
    }
    _drawn(random, spec, CLUSTER, 4)
    if random.random() < 0.2:
        spec["gcsFaultToleranceOptions"] = {"redisAddress": "redis:6379"}
    if random.random() < 0.15:
        spec["upgradeStrategy"] = {"type": "Recreate"}
    if rare:
        _drawn(random, spec, RARE, 1)
    if random.random() < 0.9:
        _agree(spec)
    return spec


def _agree(spec: Object) -> None:
    """Set what other fields of a cluster need: few specs with a random choice of fields are valid."""
    groups = spec["workerGroupSpecs"]
    if any(name in group for group in groups for name in ("priority", "idleTimeoutSeconds")):
        spec["enableInTreeAutoscaling"] = True
        spec["autoscalerOptions"] = {**spec.get("autoscalerOptions", {}), "version": "v2"}
    if "historyServerOptions" in spec:
        given = spec["historyServerOptions"]["collectorOptions"]
        spec["historyServerOptions"] = {
            "collectorOptions": {"image": "collector:1", **given, "env": copy.deepcopy(_ENV)}
        }
    if set(spec.get("authOptions", {})) - {"mode"}:
        spec["authOptions"]["mode"] = "token"


def a_job_spec(random: Random, *, rare: bool = False) -> Object:
    spec: Object = {"entrypoint": "python main.py", "rayClusterSpec": a_cluster_spec(random)}
    for field in ("suspend", "upgradeStrategy"):
        spec["rayClusterSpec"].pop(field, None)
    if random.random() < 0.7:
        spec["shutdownAfterJobFinishes"] = True
    if random.random() < 0.4:
        spec["submissionMode"] = random.choice(["HTTPMode", "HTTPMode", "SidecarMode"])
    _drawn(random, spec, JOB, 4)
    if "deletionStrategy" in spec:
        spec.pop("shutdownAfterJobFinishes", None)
        spec.pop("ttlSecondsAfterFinished", None)
    if spec.get("submissionMode") == "SidecarMode":
        for field in ("submitterPodTemplate", "submitterConfig"):
            spec.pop(field, None)
        spec["rayClusterSpec"]["headGroupSpec"]["template"]["spec"].pop("restartPolicy", None)
    return spec


def a_service_spec(random: Random, *, rare: bool = False) -> Object:
    spec: Object = {
        "serveConfigV2": CONFIG.format(n=0),
        "rayClusterConfig": a_cluster_spec(random),
    }
    for field in ("suspend", "upgradeStrategy"):
        spec["rayClusterConfig"].pop(field, None)
    _drawn(random, spec, SERVICE, 3)
    if "clusterUpgradeOptions" in spec.get("upgradeStrategy", {}):
        spec["rayClusterConfig"]["enableInTreeAutoscaling"] = True  # else it is invalid
    return spec


def a_cron_spec(random: Random, *, rare: bool = False) -> Object:
    job = a_job_spec(random)
    job["shutdownAfterJobFinishes"] = True
    if job.get("submissionMode") == "InteractiveMode":  # it waits for a user who never comes
        job["submissionMode"] = "HTTPMode"
    for field in ("suspend", "jobId", "clusterSelector", "deletionStrategy"):
        job.pop(field, None)
    spec: Object = {
        "schedule": random.choice(["* * * * *", "*/2 * * * *", "@every 3m"]),
        "jobTemplate": job,
    }
    _drawn(random, spec, CRON, 2)
    return spec


SPECS: dict[str, Callable[..., Object]] = {
    "RayCluster": a_cluster_spec,
    "RayJob": a_job_spec,
    "RayService": a_service_spec,
    "RayCronJob": a_cron_spec,
}
TABLES: dict[str, tuple[str, dict[str, Draw]]] = {
    "RayCluster": ("", CLUSTER),
    "RayJob": ("", JOB),
    "RayService": ("", SERVICE),
    "RayCronJob": ("", CRON),
}


def an_object(random: Random, kind: str, name: str, *, rare: bool = False) -> Object:
    meta: Object = {"name": name, "namespace": NAMESPACE}
    if random.random() < 0.3 and (annotations := an_annotation(random, kind)):
        meta["annotations"] = annotations
    return {
        "apiVersion": "ray.io/v1",
        "kind": kind,
        "metadata": meta,
        "spec": SPECS[kind](random, rare=rare),
    }


def an_annotation(random: Random, kind: str) -> Object:
    """One that means something to this kind; empty if none does."""
    known = sorted(ANNOTATIONS[kind])
    chosen = random.sample(known, min(1, len(known)))
    return {name: ANNOTATIONS[kind][name](random) for name in chosen}


def an_edit(random: Random, found: Object) -> Object:
    """A merge patch of the spec: fields set, changed or removed, groups scaled, added or removed."""
    kind = found["kind"]
    patch: Object = {}
    table = TABLES[kind][1]
    if kind == "RayCluster" or random.random() < 0.5:
        prefix = {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}.get(kind, "")
        inner = found["spec"].get(prefix) if prefix else found["spec"]
        if inner and kind != "RayCronJob":
            changed = _cluster_edit(random, inner)
            if prefix:
                changed.pop("suspend", None)  # the kind has a field of its own for that
            return {prefix: changed} if prefix else changed
    path = random.choice(sorted(table))
    _set(patch, path, None if random.random() < 0.3 else table[path](random))
    return patch


def _cluster_edit(random: Random, spec: Object) -> Object:
    groups = copy.deepcopy(spec.get("workerGroupSpecs") or [])
    patch: Object = {}
    match random.choice(["scale", "scale", "group", "image", "field", "remove", "suspend"]):
        case "scale" if groups:
            random.choice(groups)["replicas"] = random.choice([0, 1, 2, 3, 4])
            patch["workerGroupSpecs"] = groups
        case "group" if len(groups) < 3:
            name = next(one for one in "abc" if one not in [each["groupName"] for each in groups])
            patch["workerGroupSpecs"] = [*groups, a_group(random, name)]
        case "remove" if groups:
            groups.pop(random.randrange(len(groups)))
            patch["workerGroupSpecs"] = groups
        case "image":
            patch["headGroupSpec"] = {"template": a_template(random)}
        case "suspend":
            patch["suspend"] = random.random() < 0.5
        case _:
            path = random.choice(sorted(CLUSTER))
            _set(patch, path, None if random.random() < 0.3 else CLUSTER[path](random))
    return patch
