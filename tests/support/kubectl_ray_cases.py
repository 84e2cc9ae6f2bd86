"""Every flag of KubeRay's plugin in a command line, with its effect.

The same lines are given to KubeRay's plugin; `differs` says why the results are not equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import Resource

TPU = (
    "cloud.google.com/gke-tpu-accelerator=tpu-v5-lite-podslice,"
    "cloud.google.com/gke-tpu-topology=1x1"
)


@dataclass(frozen=True)
class Case:
    name: str
    words: Sequence[str]
    effect: dict[str, Any] = field(default_factory=dict)
    """Path in the object -> value; None: absent."""
    resource: Resource = RAY_CLUSTERS
    of: str = "new"
    """The object that is looked at."""
    differs: str = ""


def _cluster(name: str, *flags: str, differs: str = "", **effect: Any) -> Case:
    paths = {path.replace("__", "."): value for path, value in effect.items()}
    return Case(name, ("create", "cluster", "new", *flags), paths, differs=differs)


HEAD = "spec.headGroupSpec.template.spec.containers.0"
WORKER = "spec.workerGroupSpecs.0.template.spec.containers.0"
REQUESTS, LIMITS = "resources.requests", "resources.limits"

CREATE_CLUSTER = (
    Case(
        "defaults",
        ("create", "cluster", "new"),
        {
            "spec.rayVersion": "2.52.0",
            f"{HEAD}.image": "rayproject/ray:2.52.0",
            f"{HEAD}.{REQUESTS}": {"cpu": "2", "memory": "4Gi"},
            f"{HEAD}.{LIMITS}": {"memory": "4Gi"},
            f"{HEAD}.ports.1": {"containerPort": 8265, "name": "dashboard", "protocol": "TCP"},
            "spec.workerGroupSpecs.0.groupName": "default-group",
            "spec.workerGroupSpecs.0.replicas": 1,
            "spec.workerGroupSpecs.0.numOfHosts": 1,
            f"{WORKER}.{REQUESTS}": {"cpu": "2", "memory": "4Gi"},
            f"{WORKER}.{LIMITS}": {"memory": "4Gi"},
            "spec.enableInTreeAutoscaling": None,
        },
    ),
    _cluster("labels", "--labels", "a=b,c=d", metadata__labels={"a": "b", "c": "d"}),
    _cluster("annotations", "--annotations=x=y", metadata__annotations={"x": "y"}),
    Case(
        "ray-version moves the image",
        ("create", "cluster", "new", "--ray-version", "2.60.0"),
        {"spec.rayVersion": "2.60.0", f"{HEAD}.image": "rayproject/ray:2.60.0"},
    ),
    Case(
        "image",
        ("create", "cluster", "new", "--image", "reg/ray:1", "--ray-version=2.60.0"),
        {f"{HEAD}.image": "reg/ray:1", f"{WORKER}.image": "reg/ray:1"},
    ),
    Case(
        "head sizes",
        (
            *("create", "cluster", "new", "--head-cpu", "500m", "--head-memory", "1024Mi"),
            *("--head-gpu", "1", "--head-ephemeral-storage", "10Gi"),
        ),
        {
            f"{HEAD}.{REQUESTS}": {
                "cpu": "500m",
                "memory": "1Gi",
                "nvidia.com/gpu": "1",
                "ephemeral-storage": "10Gi",
            },
            f"{HEAD}.{LIMITS}": {
                "memory": "1Gi",
                "nvidia.com/gpu": "1",
                "ephemeral-storage": "10Gi",
            },
        },
    ),
    _cluster(
        "head ray-start-params",
        "--head-ray-start-params",
        "dashboard-host=0.0.0.0,num-cpus=0",
        spec__headGroupSpec__rayStartParams={"dashboard-host": "0.0.0.0", "num-cpus": "0"},
    ),
    _cluster(
        "head node selectors",
        "--head-node-selectors",
        "kubernetes.io/os=linux",
        spec__headGroupSpec__template__spec__nodeSelector={"kubernetes.io/os": "linux"},
    ),
    Case(
        "worker sizes",
        (
            *("create", "cluster", "new", "--worker-replicas", "3", "--worker-cpu", "4"),
            *("--worker-memory", "8Gi", "--worker-gpu", "2", "--worker-ephemeral-storage", "1Gi"),
        ),
        {
            "spec.workerGroupSpecs.0.replicas": 3,
            f"{WORKER}.{REQUESTS}": {
                "cpu": "4",
                "memory": "8Gi",
                "nvidia.com/gpu": "2",
                "ephemeral-storage": "1Gi",
            },
        },
    ),
    Case(
        "TPUs",
        (
            *("create", "cluster", "new", "--worker-tpu", "4", "--num-of-hosts", "2"),
            *("--worker-node-selectors", TPU),
        ),
        {
            f"{WORKER}.{LIMITS}": {"memory": "4Gi", "google.com/tpu": "4"},
            "spec.workerGroupSpecs.0.numOfHosts": 2,
        },
    ),
    _cluster(
        "worker ray-start-params",
        "--worker-ray-start-params",
        "num-cpus=2",
        spec__workerGroupSpecs__0__rayStartParams={"num-cpus": "2"},
    ),
    _cluster(
        "autoscaler v1",
        "--autoscaler",
        "v1",
        spec__enableInTreeAutoscaling=True,
        spec__autoscalerOptions={"version": "v1"},
    ),
    _cluster("autoscaler v2", "--autoscaler=V2", spec__autoscalerOptions={"version": "v2"}),
    Case(
        "short YAML",
        ("create", "cluster", "new", "--file", "{dir}/short.yaml"),
        {
            "metadata.labels": {"team": "a"},
            "spec.headGroupSpec.template.spec.serviceAccountName": "runner",
            f"{HEAD}.{REQUESTS}": {"cpu": "3", "memory": "4Gi"},
            "spec.workerGroupSpecs.0.groupName": "default-group",
            "spec.workerGroupSpecs.1.groupName": "big",
            "spec.workerGroupSpecs.1.template.spec.volumes.0.csi.driver": (
                "gcsfuse.csi.storage.gke.io"
            ),
            "spec.headGroupSpec.template.metadata.annotations": {
                "gke-gcsfuse/cpu-request": "250m",
                "gke-gcsfuse/memory-limit": "256Mi",
                "gke-gcsfuse/memory-request": "256Mi",
            },
            "spec.autoscalerOptions.version": "v2",
        },
    ),
)
SHORT_YAML = """\
labels: {team: a}
ray-version: 2.52.0
service-account: runner
head: {cpu: 3}
worker-groups:
  - {replicas: 2, cpu: "1", memory: 2Gi}
  - {name: big, replicas: 1, cpu: 8, gpu: 1, memory: 32Gi, ephemeral-storage: 5Gi, num-of-hosts: 1,
     ray-start-params: {num-cpus: "8"}, node-selectors: {pool: big}}
autoscaler: {version: v2}
gke:
  gcsfuse:
    bucket-name: models
    mount-path: /models
    mount-options: implicit-dirs
    resources: {cpu: 250m, memory: 256Mi}
    disable-metrics: true
    gcsfuse-metadata-prefetch-on-mount: false
    skip-csi-bucket-access-check: true
"""

GROUP = "spec.workerGroupSpecs.2"
CREATE_GROUP = (
    Case(
        "group defaults",
        ("create", "workergroup", "more", "-c", "demo"),
        {
            f"{GROUP}.groupName": "more",
            f"{GROUP}.replicas": 1,
            f"{GROUP}.minReplicas": 1,
            f"{GROUP}.maxReplicas": 10,
            f"{GROUP}.numOfHosts": 1,
            f"{GROUP}.template.spec.containers.0.image": "rayproject/ray:2.52.0",
            f"{GROUP}.template.spec.containers.0.resources.limits": {"cpu": "2", "memory": "4Gi"},
        },
        of="demo",
    ),
    Case(
        "group flags",
        (
            *("create", "workergroup", "more", "--ray-cluster", "demo", "--image", "reg/ray:1"),
            *("--worker-replicas", "2", "--worker-min-replicas", "0"),
            *("--worker-max-replicas", "5", "--worker-cpu", "1", "--worker-gpu", "1"),
            *("--worker-tpu", "1", "--num-of-hosts", "1", "--worker-memory", "2Gi"),
            *("--worker-ray-start-params", "num-cpus=1", "--worker-node-selectors", TPU),
        ),
        {
            f"{GROUP}.replicas": 2,
            f"{GROUP}.minReplicas": 0,
            f"{GROUP}.maxReplicas": 5,
            f"{GROUP}.rayStartParams": {"num-cpus": "1"},
            f"{GROUP}.template.spec.containers.0.image": "reg/ray:1",
            f"{GROUP}.template.spec.containers.0.resources.requests": {
                "cpu": "1",
                "memory": "2Gi",
                "nvidia.com/gpu": "1",
                "google.com/tpu": "1",
            },
        },
        of="demo",
    ),
    Case(
        "group ray-version moves the image",
        ("create", "workergroup", "more", "-c", "demo", "--ray-version", "2.60.0"),
        {f"{GROUP}.template.spec.containers.0.image": "rayproject/ray:2.60.0"},
        of="demo",
        differs="KubeRay's plugin keeps the image of its default version",
    ),
)

FIRST = "spec.workerGroupSpecs.0"
SCALE = (
    Case(
        "replicas",
        ("scale", "cluster", "demo", "-w", "gpu", "-r", "3"),
        {f"{FIRST}.replicas": 3, f"{FIRST}.maxReplicas": 4},
        of="demo",
    ),
    Case(
        "bounds",
        (
            *("scale", "cluster", "demo", "--worker-group", "gpu", "--replicas=5"),
            *("--min-replicas", "2", "--max-replicas", "9"),
        ),
        {f"{FIRST}.replicas": 5, f"{FIRST}.minReplicas": 2, f"{FIRST}.maxReplicas": 9},
        of="demo",
    ),
    Case(
        "nothing to change",
        ("scale", "cluster", "demo", "-w", "gpu", "-r", "2"),
        {f"{FIRST}.replicas": 2},
        of="demo",
    ),
)

TABLES: Sequence[Sequence[str]] = (
    ("get", "cluster"),
    ("get", "clusters", "demo"),
    ("list", "cluster", "other"),
    ("get", "workergroup"),
    ("get", "workergroups", "gpu"),
    ("get", "workergroup", "-c", "demo"),
    ("get", "workergroup", "--ray-cluster", "other"),
    ("get", "node"),
    ("get", "nodes", "demo-head"),
    ("get", "node", "--ray-cluster", "demo"),
    ("get", "node", "-c", "nobody"),
    ("get", "token", "locked"),
)
"""Reads whose standard output is the same in both plugins."""

ERRORS: Sequence[tuple[Sequence[str], str]] = (
    (("get", "cluster", "nope"), "Ray cluster nope not found in namespace"),
    (
        ("get", "node", "nope", "-c", "demo"),
        "Ray node nope not found in namespace .* Ray cluster demo",
    ),
    (("get", "workergroup", "nope", "-A"), "worker group nope not found in any namespace"),
    (("get", "token", "demo"), "not configured to use authentication tokens"),
    (("get", "token"), "CLUSTER|arg"),
    (("create", "cluster", "demo"), "already exists"),
    (("create", "cluster"), "NAME|CLUSTERNAME"),
    (("create", "cluster", "x", "--head-cpu", "much"), "quantit"),
    (("create", "cluster", "x", "--worker-memory=-1Gi"), "negative"),
    (("create", "cluster", "x", "--worker-tpu", "1"), "gke-tpu-accelerator is not set"),
    (("create", "cluster", "x", "--autoscaler", "v3"), "must be one of"),
    (("create", "cluster", "x", "--labels", "a"), "key=value"),
    (("create", "cluster", "x", "--file", "{dir}/none.yaml"), "none.yaml"),
    (("create", "cluster", "x", "--file", "{dir}/odd.yaml"), "unknown field|not found in type"),
    (("create", "cluster", "x", "--file", "{dir}/short.yaml", "--image", "i"), "image"),
    (("create", "workergroup", "g"), "ray-cluster"),
    (("scale", "cluster", "demo"), "worker-group"),
    (("scale", "cluster", "demo", "-w", "gpu"), "at least one of"),
    (("scale", "cluster", "demo", "-w", "gpu", "-r", "99"), "cannot .*greater than"),
    (("scale", "cluster", "demo", "-w", "gpu", "--min-replicas", "3"), "cannot .*less than"),
    (("scale", "cluster", "demo", "-w", "nope", "-r", "1"), "nope"),
    (("delete", "raypod/x", "-y"), "unsupported resource type"),
    (("delete",), "NAME|minimum of 1"),
    (("session", "rayjobs/"), "NAME|type"),
    (("log", "demo", "--node-type", "gpu"), "must be one of"),
    (("log", "demo", "--out-dir", "{dir}/none"), "irectory"),
    (("log", "demo", "--link", "aws"), "gke"),
    (("log", "demo", "--link", "gke", "--out-dir", "{dir}"), "out-dir"),
    (("job", "submit", "--name", "x", "--", "true"), "orking"),
    (("job", "submit", "--working-dir", "{dir}", "--", "true"), "--name"),
    (
        ("job", "submit", "-f", "{dir}/k8sjob.yaml", "--working-dir", "{dir}", "--", "true"),
        "InteractiveMode",
    ),
    (
        ("job", "submit", "-f", "{dir}/retries.yaml", "--working-dir", "{dir}", "--", "true"),
        "(?i)backoffLimit",
    ),
    (
        (*("job", "submit", "--name", "x", "--working-dir", "{dir}"), "--address=", "--", "true"),
        "--address .*empty",
    ),
)
"""Wrong use: both plugins refuse it, and nothing changes."""

JOB_DRY_RUNS = (
    Case(
        "job defaults",
        (*("job", "submit", "--dry-run", "--name", "j", "--working-dir", "{dir}"), "--", "true"),
        {
            "spec.submissionMode": "InteractiveMode",
            "spec.shutdownAfterJobFinishes": False,
            "spec.ttlSecondsAfterFinished": 0,
            "spec.entrypoint": "true",
            "spec.rayClusterSpec.workerGroupSpecs.0.groupName": "default-group",
        },
        resource=RAY_JOBS,
    ),
    Case(
        "job flags",
        (
            *("job", "submit", "--dry-run", "--name", "j", "--working-dir", "{dir}"),
            *("--image", "reg/ray:1", "--head-cpu", "1", "--head-memory", "5Gi", "--head-gpu", "1"),
            *("--worker-replicas", "3", "--worker-cpu", "1", "--worker-memory", "1Gi"),
            *("--worker-gpu", "2", "--head-node-selectors", "a=b", "--worker-node-selectors"),
            *("c=d", "--ttl-seconds-after-finished", "60", "--submission-id", "raysubmit_1"),
            *("--", "python", "train.py", "--epochs", "3"),
        ),
        {
            "spec.jobId": "raysubmit_1",
            "spec.entrypoint": "python train.py --epochs 3",
            "spec.ttlSecondsAfterFinished": 60,
            "spec.shutdownAfterJobFinishes": True,
            "spec.rayClusterSpec.workerGroupSpecs.0.replicas": 3,
            "spec.rayClusterSpec.headGroupSpec.template.spec.nodeSelector": {"a": "b"},
        },
        resource=RAY_JOBS,
    ),
    Case(
        "job ray-version moves the image",
        (
            *("job", "submit", "--dry-run", "--name", "j", "--working-dir", "{dir}"),
            *("--ray-version", "2.60.0", "--", "true"),
        ),
        {
            "spec.rayClusterSpec.headGroupSpec.template.spec.containers.0.image": (
                "rayproject/ray:2.60.0"
            )
        },
        resource=RAY_JOBS,
        differs="KubeRay's plugin keeps the image of its default version",
    ),
)


def at(document: Any, path: str) -> Any:
    """The value at a dotted path; None if it is absent. Keys with dots stand last."""
    for part in path.split("."):
        if isinstance(document, list):
            document = document[int(part)] if int(part) < len(document) else None
        elif isinstance(document, dict):
            document = document.get(part)
        else:
            return None
    return document
