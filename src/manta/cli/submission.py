"""The RayJob that `manta submit` makes of its flags. Pure: flags in, manifests out.

Nothing in it is known to Manta only: KubeRay would run it as well. The files travel in ConfigMaps
that the submitter mounts; Ray's own client in the submitter hands them on to the cluster. A package
that needs more than one ConfigMap is joined by an init container.
"""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from manta.api.documents.writer import to_yaml
from manta.api.ray.naming import MAX_RAY_JOB_NAME
from manta.cli.package import Package
from manta.rules.traits import parse_ray_version

Document = dict[str, Any]
DEFAULT_IMAGE: Final = "rayproject/ray:2.60.0"
FOLDER: Final = "/manta/package"
FILE: Final = "package.zip"
PARTS: Final = "/manta/parts"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the flags ask for."""

    name: str
    namespace: str
    command: Sequence[str]
    image: str = DEFAULT_IMAGE
    cluster: str = ""
    """Run on this RayCluster; empty: on one that is made for the job, and deleted after it."""
    workers: int = 1
    cpus: str = "1"
    memory: str = "2Gi"
    gpus: int = 0
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    retries: int = 0
    deadline: int | None = None
    keep: bool = False


def job_name(command: Sequence[str], suffix: str) -> str:
    """`train-x7k2p` for `python train.py`: readable, valid and new."""
    words = [word for word in command if not word.startswith("-")]
    chosen = next((word for word in words if word.endswith(".py")), words[0] if words else "job")
    stem = chosen.rsplit("/", 1)[-1].removesuffix(".py").lower()
    plain = re.sub(r"[^a-z0-9]+", "-", stem).strip("-")
    plain = plain if plain[:1].isalpha() else f"job-{plain}".strip("-")
    return f"{plain[: MAX_RAY_JOB_NAME - len(suffix) - 1].rstrip('-')}-{suffix}"


def build_job(wanted: Wanted, package: Package | None, uploaded: str = "") -> Document:
    """`uploaded`: the package is with Ray already, under this URI."""
    environment = dict(wanted.runtime_env)
    if package is not None:
        environment["working_dir"] = uploaded or f"{FOLDER}/{FILE}"
    spec: Document = {"entrypoint": shlex.join(wanted.command), "submissionMode": "K8sJobMode"}
    if environment:
        spec["runtimeEnvYAML"] = _yaml(environment)
    if package is not None and not uploaded:
        spec["submitterPodTemplate"] = _submitter(wanted, package_names(wanted, package))
    if wanted.deadline is not None:
        spec["activeDeadlineSeconds"] = wanted.deadline
    spec |= _where(wanted)
    meta = {"name": wanted.name, "namespace": wanted.namespace}
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": meta, "spec": spec}


def build_packages(wanted: Wanted, package: Package) -> list[Document]:
    """One ConfigMap, or as many as the package needs."""
    names, parts = package_names(wanted, package), package.parts
    keys = [FILE] if len(parts) == 1 else [f"part-{at:03}" for at in range(len(parts))]
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": wanted.namespace},
            "binaryData": {key: base64.b64encode(part).decode()},
        }
        for name, key, part in zip(names, keys, parts, strict=True)
    ]


def package_names(wanted: Wanted, package: Package) -> list[str]:
    """Names of the ConfigMaps."""
    base, count = f"{wanted.name}-package", len(package.parts)
    return [base] if count == 1 else [f"{base}-{at}" for at in range(count)]


def _where(wanted: Wanted) -> Document:
    if wanted.cluster:
        return {"clusterSelector": {"ray.io/cluster": wanted.cluster}}
    own: Document = {
        "rayClusterSpec": _cluster(wanted),
        "shutdownAfterJobFinishes": not wanted.keep,
    }
    return own | ({"backoffLimit": wanted.retries} if wanted.retries else {})


def _cluster(wanted: Wanted) -> Document:
    spec: Document = {"headGroupSpec": {"template": _template(wanted, "ray-head", gpus=0)}}
    tag = wanted.image.rpartition(":")[2]
    version = parse_ray_version(tag) if tag[:1].isdigit() else None
    if version is not None:
        spec = {"rayVersion": ".".join(map(str, version)), **spec}
    if wanted.workers:
        group = {
            "groupName": "workers",
            "replicas": wanted.workers,
            "minReplicas": wanted.workers,
            "maxReplicas": wanted.workers,
            "template": _template(wanted, "ray-worker", gpus=wanted.gpus),
        }
        spec["workerGroupSpecs"] = [group]
    return spec


def _template(wanted: Wanted, container: str, *, gpus: int) -> Document:
    amounts: Document = {"cpu": wanted.cpus, "memory": wanted.memory}
    if gpus:
        amounts["nvidia.com/gpu"] = str(gpus)
    resources = {"requests": amounts, "limits": amounts}
    return {
        "spec": {"containers": [{"name": container, "image": wanted.image, "resources": resources}]}
    }


def _submitter(wanted: Wanted, packages: Sequence[str]) -> Document:
    mount = {"name": "package", "mountPath": FOLDER}
    container = _container(wanted, "ray-job-submitter", [{**mount, "readOnly": True}])
    spec: Document = {"restartPolicy": "Never", "containers": [container]}
    if len(packages) == 1:
        spec["volumes"] = [{"name": "package", "configMap": {"name": packages[0]}}]
        return {"spec": spec}
    parts = {"name": "parts", "mountPath": PARTS, "readOnly": True}
    joiner = _container(wanted, "join-package", [mount, parts])
    joiner["command"] = ["sh", "-c", f"cat {PARTS}/part-* > {FOLDER}/{FILE}"]
    sources = [{"configMap": {"name": name}} for name in packages]
    volumes = [
        {"name": "parts", "projected": {"sources": sources}},
        {"name": "package", "emptyDir": {}},
    ]
    return {"spec": {**spec, "initContainers": [joiner], "volumes": volumes}}


def _container(wanted: Wanted, name: str, mounts: list[Document]) -> Document:
    return {
        "name": name,
        "image": wanted.image,
        "resources": {
            "requests": {"cpu": "500m", "memory": "200Mi"},
            "limits": {"cpu": "1", "memory": "1Gi"},
        },
        "volumeMounts": mounts,
    }


def _yaml(value: Mapping[str, Any]) -> str:
    return to_yaml(dict(sorted(value.items())))


# ── how it ended ─────────────────────────────────────────────────────────────────────────


def exit_code(status: Mapping[str, Any]) -> int:
    """The job's own exit code as far as Ray tells it; 1 for a failure that has none."""
    if status.get("jobDeploymentStatus") == "ValidationFailed":
        return 2
    if status.get("jobStatus") == "SUCCEEDED" and status.get("jobDeploymentStatus") == "Complete":
        return 0
    told = re.search(r"exit code (-?\d+)", status.get("message") or "")
    code = int(told.group(1)) if told else 1
    return code if 0 < code < 256 else 1
