"""Objects that KubeRay's own operator has made, kept as files and made again on any server.

Recorded on a real control plane by `tests/kubernetes/test_takeover_from_kuberay.py` (MANTA_RECORD=1), with KubeRay's names,
hashes, annotations and finalizers. Times are made the same, what a server gives to objects is left to the server, and what containers run is left out.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES
from manta.api.resources import (
    JOBS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from manta.kube.client import Client

Json = dict[str, Any]
DIRECTORY = Path(__file__).parents[1] / "golden/kuberay"
RECORDED = ("plain", "moving", "k8sjobmode")
"""The objects that are kept, by the beginning of their names."""
_OWNERS_FIRST: tuple[Resource, ...] = (
    *(RAY_SERVICES, RAY_JOBS, RAY_CLUSTERS),
    *(SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, SECRETS, SERVICES, JOBS, PODS),
)
_TELLS = (RAY_SERVICES, RAY_JOBS, RAY_CLUSTERS)
"""Kinds whose status is of KubeRay's making."""
_OF_THE_SERVER = (
    "managedFields",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "namespace",
)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_THEN = "2026-01-01T00:00:00Z"


# ── recording ────────────────────────────────────────────────────────────────────────────


async def record(client: Client, namespace: str, release: str) -> None:
    found = [
        _cleaned(resource, one)
        for resource in _OWNERS_FIRST
        for one in (await client.list(resource, namespace)).items
        if one["metadata"]["name"].startswith(RECORDED)
    ]
    text = json.dumps(found, indent=1, sort_keys=True).replace(namespace, "default")
    DIRECTORY.mkdir(exist_ok=True)
    (DIRECTORY / f"{release}.json").write_text(_TIME.sub(_THEN, text) + "\n")


def _cleaned(resource: Resource, one: Json) -> Json:
    meta = {key: value for key, value in one["metadata"].items() if key not in _OF_THE_SERVER}
    kept = {"kind": resource.kind, **one, "metadata": meta}
    if resource not in _TELLS:
        kept.pop("status", None)
    if resource is PODS:
        kept["spec"].pop("nodeName", None)
        _silence(kept["spec"])
    if resource is JOBS:
        _silence(kept["spec"]["template"]["spec"])
    if resource is SERVICES and kept["spec"].get("clusterIP") != "None":
        kept["spec"] = {k: v for k, v in kept["spec"].items() if not k.startswith("clusterIP")}
    return kept


def _silence(pod: Json) -> None:
    """What containers run is KubeRay's own text, and nothing to us."""
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        container["args"] = ["as KubeRay has it"]
        for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
            if "exec" in container.get(probe, {}):
                container[probe]["exec"]["command"] = ["true"]


# ── making them again ────────────────────────────────────────────────────────────────────


def objects_of(release: str) -> list[Json]:
    found: list[Json] = json.loads((DIRECTORY / f"{release}.json").read_text())
    return found


async def make_again(client: Client, scenario: list[Json]) -> None:
    resources = {one.kind: one for one in _OWNERS_FIRST}
    uids: dict[str, str] = {}
    for one in scenario:
        resource, status = resources[one["kind"]], one.get("status")
        made = await client.create(resource, "default", _as_new(resource, one, uids), into=dict)
        uids[one["metadata"]["uid"]] = made["metadata"]["uid"]
        if status:
            written = dict(status)
            if "observedGeneration" in written:
                written["observedGeneration"] = made["metadata"]["generation"]
            key = Key("default", one["metadata"]["name"])
            await client.patch(resource, key, {"status": written}, subresource="status")


def _as_new(resource: Resource, one: Json, uids: dict[str, str]) -> Json:
    meta = {key: value for key, value in one["metadata"].items() if key != "uid"}
    meta["ownerReferences"] = [
        {**owner, "uid": uids[owner["uid"]]} for owner in meta.get("ownerReferences", ())
    ]
    body = {key: value for key, value in one.items() if key != "status"}
    if resource is JOBS:  # by uid, which the server gives
        spec = {key: value for key, value in one["spec"].items() if key != "selector"}
        labels = spec["template"]["metadata"]["labels"]
        kept = {key: value for key, value in labels.items() if not key.endswith("controller-uid")}
        template = {**spec["template"], "metadata": {"labels": kept}}
        body["spec"] = {**spec, "template": template}
    return body | {"apiVersion": resource.api_version, "metadata": meta}
