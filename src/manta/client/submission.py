"""The manifests of a submitted job. Pure.

KubeRay can run these manifests too. ConfigMaps hold the package, and the submitter mounts them; Ray's
own client in the submitter uploads the package to the cluster. If it needs more than one ConfigMap,
an init container joins the parts.
"""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from manta.api.documents.writer import to_yaml
from manta.api.ray.names import LABEL_CLUSTER
from manta.api.ray.naming import MAX_RAY_JOB_NAME
from manta.api.text import bytes_text
from manta.api.usage import UsageError
from manta.client.cluster_spec import DEFAULT_IMAGE, HeadGroup, WorkerGroup, cluster_spec
from manta.client.package import LARGEST_IN_CONFIGMAPS, Package

Document = dict[str, Any]
PACKAGE_DIR: Final = "/manta/package"
PACKAGE_FILE: Final = "package.zip"
PARTS_DIR: Final = "/manta/parts"


@dataclass(frozen=True, slots=True)
class Submission:
    """A job to submit: the flags of `manta submit`, or the arguments of the SDK."""

    name: str
    namespace: str
    command: Sequence[str]
    """The words of the command, to find the script in."""
    entrypoint: str = ""
    """The command as a shell reads it; empty: the words of `command`."""
    image: str = DEFAULT_IMAGE
    cluster: str = ""
    """Run on this RayCluster; empty: on a new one."""
    workers: int = 1
    cpus: str = "1"
    memory: str = "2Gi"
    gpus: int = 0
    cluster_spec: Mapping[str, Any] = field(default_factory=dict)
    """The spec of the new RayCluster; empty: from the four fields above."""
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    retries: int = 0
    deadline: int | None = None
    keep: bool = False
    """Keep the new RayCluster after the job."""
    labels: Mapping[str, str] = field(default_factory=dict)


def job_name(command: Sequence[str], suffix: str) -> str:
    """A valid name from the command: `train-x7k2p` for `python train.py`."""
    words = [word for word in command if not word.startswith("-")]
    chosen = next((word for word in words if word.endswith(".py")), words[0] if words else "job")
    stem = chosen.rsplit("/", 1)[-1].removesuffix(".py").lower()
    plain = re.sub(r"[^a-z0-9]+", "-", stem).strip("-")
    plain = plain if plain[:1].isalpha() else f"job-{plain}".strip("-")
    return f"{plain[: MAX_RAY_JOB_NAME - len(suffix) - 1].rstrip('-')}-{suffix}"


def build_job(submission: Submission, package: Package | None, uploaded: str = "") -> Document:
    """The RayJob. `uploaded`: the URI of the package if Ray has it already."""
    environment = dict(submission.runtime_env)
    if package is not None:
        environment["working_dir"] = uploaded or f"{PACKAGE_DIR}/{PACKAGE_FILE}"
    entrypoint = submission.entrypoint or shlex.join(submission.command)
    spec: Document = {"entrypoint": entrypoint, "submissionMode": "K8sJobMode"}
    if environment:
        spec["runtimeEnvYAML"] = to_yaml(dict(sorted(environment.items())))
    if package is not None and not uploaded:
        spec["submitterPodTemplate"] = _submitter(submission, package_names(submission, package))
    if submission.deadline is not None:
        spec["activeDeadlineSeconds"] = submission.deadline
    spec |= _cluster_fields(submission)
    meta: Document = {"name": submission.name, "namespace": submission.namespace}
    if submission.labels:
        meta["labels"] = dict(submission.labels)
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": meta, "spec": spec}


def build_packages(submission: Submission, package: Package) -> list[Document]:
    """The ConfigMaps that hold the package, in parts if it is too large for one."""
    names, parts = package_names(submission, package), package.parts
    keys = [PACKAGE_FILE] if len(parts) == 1 else [f"part-{n:03}" for n in range(len(parts))]
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": submission.namespace},
            "binaryData": {key: base64.b64encode(part).decode()},
        }
        for name, key, part in zip(names, keys, parts, strict=True)
    ]


def check_size(submission: Submission, package: Package) -> None:
    """Raises UsageError for a package that is too large for the way that it takes."""
    if package.fits_configmaps or submission.cluster:
        return
    raise UsageError(
        f"{package.what}: too large for ConfigMaps (at most "
        f"{bytes_text(LARGEST_IN_CONFIGMAPS)} zipped), and a new cluster does not exist yet to "
        "upload it to. Exclude files with .rayignore or --exclude, put them into the image or "
        "onto a volume, or use --cluster NAME with an existing cluster (up to 100 MB)"
    )


def package_names(submission: Submission, package: Package) -> list[str]:
    """Names of the ConfigMaps of a package."""
    base, count = f"{submission.name}-package", len(package.parts)
    return [base] if count == 1 else [f"{base}-{index}" for index in range(count)]


def _cluster_fields(submission: Submission) -> Document:
    if submission.cluster:
        return {"clusterSelector": {LABEL_CLUSTER: submission.cluster}}
    own: Document = {
        "rayClusterSpec": _cluster(submission),
        "shutdownAfterJobFinishes": not submission.keep,
    }
    return own | ({"backoffLimit": submission.retries} if submission.retries else {})


def _cluster(submission: Submission) -> Document:
    if submission.cluster_spec:
        return dict(submission.cluster_spec)
    head = HeadGroup(cpu=submission.cpus, memory=submission.memory)
    group = WorkerGroup(
        replicas=submission.workers,
        min_replicas=submission.workers,
        max_replicas=submission.workers,
        cpu=submission.cpus,
        memory=submission.memory,
        gpu=submission.gpus,
    )
    workers = (group,) if submission.workers else ()
    return cluster_spec(image=submission.image, head=head, workers=workers)


def _submitter(submission: Submission, packages: Sequence[str]) -> Document:
    mount = {"name": "package", "mountPath": PACKAGE_DIR}
    container = _container(submission, "ray-job-submitter", [{**mount, "readOnly": True}])
    spec: Document = {"restartPolicy": "Never", "containers": [container]}
    if len(packages) == 1:
        spec["volumes"] = [{"name": "package", "configMap": {"name": packages[0]}}]
        return {"spec": spec}
    parts = {"name": "parts", "mountPath": PARTS_DIR, "readOnly": True}
    joiner = _container(submission, "join-package", [mount, parts])
    joiner["command"] = ["sh", "-c", f"cat {PARTS_DIR}/part-* > {PACKAGE_DIR}/{PACKAGE_FILE}"]
    sources = [{"configMap": {"name": name}} for name in packages]
    volumes = [
        {"name": "parts", "projected": {"sources": sources}},
        {"name": "package", "emptyDir": {}},
    ]
    return {"spec": {**spec, "initContainers": [joiner], "volumes": volumes}}


def _container(submission: Submission, name: str, mounts: list[Document]) -> Document:
    return {
        "name": name,
        "image": submission.image,
        "resources": {
            "requests": {"cpu": "500m", "memory": "200Mi"},
            "limits": {"cpu": "1", "memory": "1Gi"},
        },
        "volumeMounts": mounts,
    }


# ── result ───────────────────────────────────────────────────────────────────────────────


def exit_code(status: Mapping[str, Any]) -> int:
    """The exit code for `manta submit`: that of the job if Ray reports one; 2 if the spec is invalid."""
    if status.get("jobDeploymentStatus") == "ValidationFailed":
        return 2
    if status.get("jobStatus") == "SUCCEEDED" and status.get("jobDeploymentStatus") == "Complete":
        return 0
    reported = re.search(r"exit code (-?\d+)", status.get("message") or "")
    code = int(reported.group(1)) if reported else 1
    return code if 0 < code < 256 else 1
