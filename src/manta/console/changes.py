"""What a confirmed action sends to the API server. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from manta.api.meta import Key
from manta.api.ray.naming import MAX_RAY_JOB_NAME
from manta.api.ray.resources import RAY_JOBS
from manta.api.usage import UsageError
from manta.client.upgrades import Operation, image_operations, rollback_operations
from manta.console.snapshot import Item, Snapshot
from manta.manifests.canary_cluster import Sizes, recorded_sizes
from manta.manifests.job_cluster import ABOUT_THE_JOB

Fields = Mapping[str, str]
_RETRY: Final = re.compile(r"-retry-\d+$")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_IMAGE: Final = re.compile(r"\S{1,512}")


@dataclass(frozen=True, slots=True)
class Patch:
    operations: tuple[Operation, ...]
    """A JSON patch that fails unless the object is the one that was shown."""


@dataclass(frozen=True, slots=True)
class Create:
    document: Mapping[str, Any]

    @property
    def key(self) -> Key:
        return Key(self.document["metadata"]["namespace"], self.document["metadata"]["name"])


@dataclass(frozen=True, slots=True)
class Delete:
    """The object with the UID that was shown."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Ray is asked to stop a job."""

    cluster: Key
    service: str
    submission: str


Change = Patch | Create | Delete | Stop


def change_of(word: str, one: Item, snapshot: Snapshot, fields: Fields) -> Change:
    """Raises UsageError about what the form holds."""
    same: Operation = {"op": "test", "path": "/metadata/uid", "value": one.uid}
    match word:
        case "delete":
            return Delete()
        case "stop":
            return _stop(one)
        case "retry":
            return Create(_again(one, fields))
        case "scale":
            return Patch((same, *_scaled(one, fields)))
        case "upgrade":
            return Patch((same, *_upgraded(one, fields)))
        case "rollback":
            return Patch((same, *_rolled_back(one, snapshot)))
        case _:
            suspend = {"op": "add", "path": "/spec/suspend", "value": word == "suspend"}
            return Patch((same, suspend))


def digest_of(change: Change) -> str:
    """Tells whether a change is the one that was shown."""
    return hashlib.sha256(msgspec.json.encode(change, order="deterministic")).hexdigest()


def retry_name(one: Item, snapshot: Snapshot) -> str:
    """The first name of this job with a number that no job has."""
    base = _RETRY.sub("", one.key.name)
    number = 1
    while True:
        ending = f"-retry-{number}"
        name = f"{base[: MAX_RAY_JOB_NAME - len(ending)].rstrip('-')}{ending}"
        if snapshot.get("RayJob", Key(one.key.namespace, name)) is None:
            return name
        number += 1


def _stop(one: Item) -> Stop:
    status = one.object.status
    cluster = Key(one.key.namespace, str(status.get("rayClusterName") or ""))
    return Stop(cluster, dashboard_service(one), str(status.get("jobId") or ""))


def dashboard_service(job: Item) -> str:
    """The Service in front of the head that runs a RayJob."""
    return str(job.object.status.get("dashboardURL") or "").partition(".")[0]


def _again(one: Item, fields: Fields) -> dict[str, Any]:
    """A new job of the same spec. A finished RayJob never runs again; this one keeps its result."""
    name = fields.get("name", "")
    if not _NAME.fullmatch(name) or len(name) > MAX_RAY_JOB_NAME:
        raise UsageError(
            f"Name {name!r}: write at most {MAX_RAY_JOB_NAME} lower-case letters, digits and `-`"
        )
    meta = one.object.metadata
    kept = {k: v for k, v in meta.annotations.items() if k not in ABOUT_THE_JOB}
    labels = {k: v for k, v in meta.labels.items() if not k.startswith("ray.io/")}
    optional = {"labels": labels, "annotations": kept}
    # Ray refuses a submission id that it has had.
    spec = {k: v for k, v in one.object.spec.items() if k not in ("suspend", "jobId")}
    return {
        "apiVersion": RAY_JOBS.api_version,
        "kind": RAY_JOBS.kind,
        "metadata": {
            "name": name,
            "namespace": one.key.namespace,
            **{k: v for k, v in optional.items() if v},
        },
        "spec": spec,
    }


def _scaled(one: Item, fields: Fields) -> list[Operation]:
    groups = one.object.spec.get("workerGroupSpecs") or []
    names = [str(group.get("groupName", "")) for group in groups]
    name, text = fields.get("group", ""), fields.get("replicas", "")
    if name not in names:
        raise UsageError(f"Worker group {name!r}: the cluster has {', '.join(names)}")
    if not text.isdecimal() or len(text) > 5:
        raise UsageError(f"Workers {text!r}: write a number from 0 to 99999")
    number = names.index(name)
    low, high = groups[number].get("minReplicas", 0), groups[number].get("maxReplicas", int(text))
    if not low <= int(text) <= high:
        raise UsageError(
            f"Workers {text}: group {name} has between {low} and {high}; change these bounds on the page Plan first"
        )
    path = f"/spec/workerGroupSpecs/{number}"
    return [
        {"op": "test", "path": f"{path}/groupName", "value": name},
        {"op": "add", "path": f"{path}/replicas", "value": int(text)},
    ]


def _upgraded(one: Item, fields: Fields) -> list[Operation]:
    image, version = fields.get("image", "").strip(), fields.get("version", "").strip()
    if not _IMAGE.fullmatch(image):
        raise UsageError(
            f"Image {image!r}: write the name of an image, such as rayproject/ray:2.52.0"
        )
    return image_operations(one.object.spec.get("rayClusterConfig") or {}, image, version)


def _rolled_back(one: Item, snapshot: Snapshot) -> list[Operation]:
    name = str((one.object.status.get("activeServiceStatus") or {}).get("rayClusterName", ""))
    active = snapshot.get("RayCluster", Key(one.key.namespace, name))
    if active is None:
        raise UsageError(
            f"RayCluster {name}: its spec is needed to roll back, but it is gone or you may not see it"
        )
    return rollback_operations(one.object.spec, one.object.status, _at_full_size(active))


def _at_full_size(cluster: Item) -> dict[str, Any]:
    """The spec without what a canary or an autoscaler has changed in it for the time being."""
    spec, sizes = cluster.object.spec, recorded_sizes(cluster.object.metadata.annotations) or {}
    groups = spec.get("workerGroupSpecs") or ()
    return {**spec, "workerGroupSpecs": [_full(one, sizes) for one in groups]} if groups else spec


def _full(group: Mapping[str, Any], sizes: Sizes) -> dict[str, Any]:
    kept = {name: value for name, value in group.items() if name != "scaleStrategy"}
    size = sizes.get(str(group.get("groupName", "")))
    if size is None:
        return kept
    numbers = {
        "replicas": size.replicas, "minReplicas": size.min_replicas, "maxReplicas": size.max_replicas,
    }  # fmt: skip
    return {name: value for name, value in (kept | numbers).items() if value is not None}
