"""Objects as KubeRay 1.5 to 1.7 leaves them, and what KubeRay would do with what it finds.

Built by hand from the facts about its object shapes, without a line of Manta's own builders: a
take-over that only works on what Manta itself would have made proves nothing. What changed between
its releases is in `Release`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES
from manta.api.resources import (
    INGRESSES,
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
from support.raycluster import NAMESPACE

Json = dict[str, Any]
HASH = "ray.io/hash-without-replicas-and-workers-to-delete"
GROUPS = "ray.io/num-worker-groups"
VERSION = "ray.io/kuberay-version"
RECREATE = "ray.io/upgrade-strategy-recreate-hash"
A_HASH = "9EVBQ0J5TVU3G4OI4DSC2KB1M8A6I7SS"
ANOTHER_HASH = "0C6O0L5F4SOLC1AJ2J3PC4QR1GN2FD0P"
"""As KubeRay's look: base 32, and nothing that we could compute again."""


@dataclass(frozen=True, slots=True)
class Release:
    version: str
    indexes_workers: bool
    """Every worker Pod says which replica it is (the gate became beta with 1.6)."""
    service_finalizer: bool
    ulimit: str


RELEASES = (
    Release("v1.5.1", False, False, "ulimit -n 65536"),
    Release("v1.6.2", True, False, "ulimit -n 65536"),
    Release("v1.7.0", True, True, "ulimit -n ${RAY_START_ULIMIT_OPEN_FILES:-65536}"),
)


@dataclass
class KubeRay:
    """Puts objects where KubeRay has put them. Pods are run by whoever plays the kubelet."""

    client: Client
    release: Release
    namespace: str = NAMESPACE
    _letters: int = 0

    def suffix(self) -> str:
        self._letters += 1
        return f"x{self._letters:04}".translate(str.maketrans("013", "bcd"))

    async def put(self, resource: Resource, body: Json, status: Json | None = None) -> Json:
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        body["metadata"] = {**body["metadata"], "namespace": self.namespace}
        made = await self.client.create(resource, self.namespace, body, into=dict)
        if status is None:
            return made
        key = Key(self.namespace, made["metadata"]["name"])
        return await self.client.patch(
            resource, key, {"status": status}, subresource="status", into=dict
        )

    # ── a RayCluster and all that belongs to it ──────────────────────────────────────────

    async def cluster(
        self,
        document: Json,
        *,
        origin: Json | None = None,
        ready: bool = True,
        hash_: str = A_HASH,
        sidecar: Json | None = None,
    ) -> Json:
        """`origin` is the RayService or RayJob that it was made for."""
        document = copy.deepcopy(document)
        meta, spec = document["metadata"], document["spec"]
        if origin is not None:
            meta["ownerReferences"] = [owner(origin)]
            meta["labels"] = origin_labels(origin) | meta.get("labels", {})
            if origin["kind"] == "RayService":
                count = str(len(spec["workerGroupSpecs"]))
                meta["annotations"] = {
                    HASH: hash_,
                    GROUPS: count,
                    VERSION: self.release.version,
                }
        if "gcsFaultToleranceOptions" in spec:
            meta["finalizers"] = ["ray.io/gcs-ft-redis-cleanup-finalizer"]
        cluster = await self.put(RAY_CLUSTERS, document)
        if spec.get("enableInTreeAutoscaling"):
            await self._autoscaler_rbac(cluster)
        if spec.get("authOptions"):
            await self._token(cluster)
        if spec["headGroupSpec"].get("enableIngress"):
            await self._ingress(cluster)
        await self._head_service(cluster)
        head = await self._head(cluster, origin, sidecar)
        for group in spec["workerGroupSpecs"]:
            await self._workers(cluster, group, origin)
        return await self._status(cluster, head) if ready else cluster

    async def _head(self, cluster: Json, origin: Json | None, sidecar: Json | None) -> Json:
        name, spec = cluster["metadata"]["name"], cluster["spec"]
        template = copy.deepcopy(spec["headGroupSpec"]["template"])
        with_redis = "gcsFaultToleranceOptions" in spec
        serves = {"ray.io/serve": "true"} if _is_for(origin, "RayService") else {}
        annotations = {
            "ray.io/ft-enabled": str(with_redis).lower(),
            RECREATE: A_HASH,
            VERSION: self.release.version,
        }
        if with_redis:
            uid = cluster["metadata"]["uid"]
            annotations["ray.io/external-storage-namespace"] = uid
        self._ray_container(cluster, template, head=True)
        if spec.get("enableInTreeAutoscaling"):
            template["spec"]["serviceAccountName"] = name
            template["spec"]["containers"].append(
                {"name": "autoscaler", "image": template["spec"]["containers"][0]["image"]}
            )
        if sidecar:
            template["spec"]["containers"].append(sidecar)
            template["spec"]["restartPolicy"] = "Never"
        meta = {
            "name": f"{name}-head-{self.suffix()}",
            "generateName": f"{name}-head-",
            "labels": self._labels(cluster, "head", "headgroup") | serves,
            "annotations": annotations | (template.get("metadata") or {}).get("annotations", {}),
            "ownerReferences": [owner(cluster)],
        }
        return await self.put(PODS, {"metadata": meta, "spec": template["spec"]})

    async def _workers(self, cluster: Json, group: Json, origin: Json | None) -> None:
        hosts = group.get("numOfHosts", 1)
        for index in range(group.get("replicas") or 0):
            replica = f"{group['groupName']}-{self.suffix()}"
            for host in range(hosts):
                await self._worker(cluster, group, origin, self._place(index, replica, host, hosts))

    def _place(self, index: int, replica: str, host: int, hosts: int) -> Json:
        if not self.release.indexes_workers:
            return {}
        place = {"ray.io/worker-group-replica-index": str(index)}
        if hosts > 1:
            place |= {
                "ray.io/worker-group-replica-name": replica,
                "ray.io/replica-host-index": str(host),
            }
        return place

    async def _worker(self, cluster: Json, group: Json, origin: Json | None, place: Json) -> None:
        name = f"{cluster['metadata']['name']}-{group['groupName']}-worker-"
        template = copy.deepcopy(group["template"])
        self._ray_container(cluster, template, head=False)
        image = template["spec"]["containers"][0]["image"]
        template["spec"]["initContainers"] = [{"name": "wait-gcs-ready", "image": image}]
        serves = {"ray.io/serve": "true"} if _is_for(origin, "RayService") else {}
        meta = {
            "name": f"{name}{self.suffix()}",
            "generateName": name,
            "labels": self._labels(cluster, "worker", group["groupName"]) | serves | place,
            "ownerReferences": [owner(cluster)],
        }
        await self.put(PODS, {"metadata": meta, "spec": template["spec"]})

    def _ray_container(self, cluster: Json, template: Json, *, head: bool) -> None:
        command = "ray start --head  --block " if head else "ray start  --block "
        container = template["spec"]["containers"][0]
        container["command"] = ["/bin/bash", "-c", "--"]
        container["args"] = [f"{self.release.ulimit}; {command}"]
        container["env"] = [
            {"name": "KUBERAY_GEN_RAY_START_CMD", "value": command},
            {"name": "RAY_PORT", "value": "6379"},
            {"name": "RAY_USAGE_STATS_KUBERAY_IN_USE", "value": "1"},
        ]
        template["spec"]["volumes"] = [{"name": "shared-mem", "emptyDir": {"medium": "Memory"}}]
        container["volumeMounts"] = [{"name": "shared-mem", "mountPath": "/dev/shm"}]

    @staticmethod
    def _labels(cluster: Json, node: str, group: str) -> Json:
        name = cluster["metadata"]["name"]
        return {
            "ray.io/is-ray-node": "yes",
            "ray.io/cluster": name,
            "ray.io/node-type": node,
            "ray.io/group": group,
            "ray.io/identifier": f"{name}-{node}",
            "app.kubernetes.io/name": "kuberay",
            "app.kubernetes.io/created-by": "kuberay-operator",
        }

    async def _head_service(self, cluster: Json) -> None:
        name = cluster["metadata"]["name"]
        selector = {
            key: value
            for key, value in self._labels(cluster, "head", "").items()
            if key not in ("ray.io/is-ray-node", "ray.io/group")
        }
        meta = {
            "name": f"{name}-head-svc",
            "labels": selector,
            "ownerReferences": [owner(cluster)],
        }
        spec = {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": selector,
            "ports": head_ports(),
        }
        await self.put(SERVICES, {"metadata": meta, "spec": spec})

    async def _autoscaler_rbac(self, cluster: Json) -> None:
        name = cluster["metadata"]["name"]
        labels = {
            "ray.io/cluster": name,
            "app.kubernetes.io/name": "kuberay",
            "app.kubernetes.io/created-by": "kuberay-operator",
        }
        meta = {"name": name, "labels": labels, "ownerReferences": [owner(cluster)]}
        await self.put(SERVICE_ACCOUNTS, {"metadata": meta})
        pods = {
            "apiGroups": [""],
            "resources": ["pods"],
            "verbs": ["get", "list", "watch", "patch"],
        }
        resize = {"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["patch"]}
        clusters = {
            "apiGroups": ["ray.io"],
            "resources": ["rayclusters"],
            "verbs": ["get", "patch"],
        }
        await self.put(ROLES, {"metadata": meta, "rules": [pods, resize, clusters]})
        await self.put(
            ROLE_BINDINGS,
            {
                "metadata": meta,
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": self.namespace}],
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "Role",
                    "name": name,
                },
            },
        )

    async def _token(self, cluster: Json) -> None:
        name = cluster["metadata"]["name"]
        meta = {
            "name": name,
            "labels": {"ray.io/cluster": name},
            "ownerReferences": [owner(cluster)],
        }
        await self.put(SECRETS, {"metadata": meta, "stringData": {"auth_token": "kept"}})

    async def _ingress(self, cluster: Json) -> None:
        """Before 1.7 the path was one of its own; and nothing was changed later."""
        name = cluster["metadata"]["name"]
        old = self.release.version < "v1.7"
        path = {"path": f"/{name}/(.*)", "pathType": "Exact"} if old else {"path": "/"}
        backend = {"service": {"name": f"{name}-head-svc", "port": {"number": 8265}}}
        rule = {"http": {"paths": [{"pathType": "Prefix", **path, "backend": backend}]}}
        meta = {
            "name": f"{name}-head-ingress",
            "labels": {"ray.io/cluster": name},
            "ownerReferences": [owner(cluster)],
        }
        await self.put(INGRESSES, {"metadata": meta, "spec": {"rules": [rule]}})

    async def _status(self, cluster: Json, head: Json) -> Json:
        groups = cluster["spec"]["workerGroupSpecs"]
        workers = sum((one.get("replicas") or 0) * one.get("numOfHosts", 1) for one in groups)
        name, when = cluster["metadata"]["name"], "2026-01-01T00:00:00Z"
        said = (
            ("HeadPodReady", "HeadPodRunningAndReady"),
            ("RayClusterProvisioned", "AllPodRunningAndReadyFirstTime"),
        )
        status = {
            "state": "ready",
            "desiredWorkerReplicas": workers,
            "readyWorkerReplicas": workers,
            "availableWorkerReplicas": workers,
            "observedGeneration": cluster["metadata"]["generation"],
            "lastUpdateTime": when,
            "stateTransitionTimes": {"ready": when},
            "endpoints": {one["name"]: str(one["port"]) for one in head_ports()},
            "head": {
                "podIP": "10.1.0.1",
                "podName": head["metadata"]["name"],
                "serviceIP": "10.1.0.1",
                "serviceName": f"{name}-head-svc",
            },
            "conditions": [condition(type_, "True", reason) for type_, reason in said],
        }
        key = Key(self.namespace, name)
        return await self.client.patch(
            RAY_CLUSTERS, key, {"status": status}, subresource="status", into=dict
        )

    # ── a RayService ─────────────────────────────────────────────────────────────────────

    async def service(self, document: Json) -> Json:
        document = copy.deepcopy(document)
        if self.release.service_finalizer:
            document["metadata"]["finalizers"] = ["ray.io/rayservice-finalizer"]
        return await self.put(RAY_SERVICES, document)

    async def service_status(self, service: Json, active: str, pending: str = "") -> None:
        running = {"status": "RUNNING", "deployments": {"Main": {"status": "HEALTHY"}}}
        reason = "BothActivePendingClustersExist" if pending else "NoPendingCluster"
        status = {
            "observedGeneration": service["metadata"]["generation"],
            "serviceStatus": "Running",
            "numServeEndpoints": 2,
            "activeServiceStatus": {
                "rayClusterName": active,
                "applicationStatuses": {"app": running},
                "rayClusterStatus": {"state": "ready"},
            },
            "pendingServiceStatus": {"rayClusterName": pending} if pending else {},
            "conditions": [
                condition("Ready", "True", "NonZeroServeEndpoints"),
                condition("UpgradeInProgress", str(bool(pending)), reason),
            ],
        }
        key = Key(self.namespace, service["metadata"]["name"])
        await self.client.patch(RAY_SERVICES, key, {"status": status}, subresource="status")

    async def service_services(self, service: Json, cluster: Json) -> None:
        """The head and the serve Service that follow the active cluster."""
        name, target = service["metadata"]["name"], cluster["metadata"]["name"]
        labels = origin_labels(service)
        selector = {
            key: value
            for key, value in self._labels(cluster, "head", "").items()
            if key not in ("ray.io/is-ray-node", "ray.io/group")
        }
        head = labels | {"ray.io/node-type": "head", "ray.io/identifier": f"{name}-head"}
        meta = {"name": f"{name}-head-svc", "ownerReferences": [owner(service)], "labels": head}
        spec = {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": selector,
            "ports": head_ports(),
        }
        await self.put(SERVICES, {"metadata": meta, "spec": spec})
        serve = labels | {"ray.io/serve": f"{name}-serve"}
        meta = {"name": f"{name}-serve-svc", "ownerReferences": [owner(service)], "labels": serve}
        ports = [{"name": "serve", "port": 8000, "targetPort": 8000, "protocol": "TCP"}]
        spec = {"selector": {"ray.io/cluster": target, "ray.io/serve": "true"}, "ports": ports}
        await self.put(SERVICES, {"metadata": meta, "spec": spec})

    # ── a RayJob ─────────────────────────────────────────────────────────────────────────

    async def job(self, document: Json, cluster: str, job_id: str, **status: Any) -> Json:
        document = copy.deepcopy(document)
        document["metadata"]["finalizers"] = ["ray.io/rayjob-finalizer"]
        when = "2026-01-01T00:00:00Z"
        known = {
            "jobId": job_id,
            "rayClusterName": cluster,
            "dashboardURL": f"{cluster}-head-svc.{self.namespace}.svc.cluster.local:8265",
            "jobStatus": "RUNNING",
            "jobDeploymentStatus": "Running",
            "startTime": when,
            "rayJobInfo": {"startTime": when},
            "rayClusterStatus": {"state": "ready"},
            "succeeded": 0,
            "failed": 0,
            **status,
        }
        return await self.put(RAY_JOBS, document, known)

    async def submitter(self, job: Json) -> Json:
        name, status = job["metadata"]["name"], job["status"]
        labels = origin_labels(job) | {"app.kubernetes.io/created-by": "kuberay-operator"}
        env = {
            "PYTHONUNBUFFERED": "1",
            "RAY_DASHBOARD_ADDRESS": status["dashboardURL"],
            "RAY_JOB_SUBMISSION_ID": status["jobId"],
        }
        container = {
            "name": "ray-job-submitter",
            "image": "rayproject/ray:2.60.0",
            "command": ["/bin/bash", "-ce", "--"],
            "args": ["ray job submit"],
            "env": [{"name": key, "value": value} for key, value in env.items()],
        }
        spec = {"containers": [container], "restartPolicy": "Never"}
        template = {"metadata": {"labels": labels}, "spec": spec}
        meta = {"name": name, "labels": labels, "ownerReferences": [owner(job)]}
        body = {"metadata": meta, "spec": {"backoffLimit": 2, "template": template}}
        return await self.put(JOBS, body)


# ── shapes ───────────────────────────────────────────────────────────────────────────────


def owner(one: Json) -> Json:
    return {
        "apiVersion": one["apiVersion"],
        "kind": one["kind"],
        "name": one["metadata"]["name"],
        "uid": one["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def origin_labels(one: Json) -> Json:
    return {
        "ray.io/originated-from-cr-name": one["metadata"]["name"],
        "ray.io/originated-from-crd": one["kind"],
    }


def head_ports() -> list[Json]:
    ports = {"client": 10001, "dashboard": 8265, "gcs-server": 6379, "metrics": 8080, "serve": 8000}
    return [
        {"name": name, "port": port, "targetPort": port, "protocol": "TCP", "appProtocol": "tcp"}
        for name, port in ports.items()
    ]


def condition(type_: str, status: str, reason: str) -> Json:
    when = "2026-01-01T00:00:00Z"
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": "",
        "lastTransitionTime": when,
    }


def _is_for(origin: Json | None, kind: str) -> bool:
    return origin is not None and origin["kind"] == kind


# ── the way back: KubeRay's own decisions, on what it finds ──────────────────────────────


async def would_do(
    client: Client, release: Release, namespace: str = NAMESPACE, prefix: str = ""
) -> list[str]:
    """What KubeRay of this release would begin to change, had it to take over here and now."""
    found: list[str] = []
    pods = (await client.list(PODS, namespace)).items

    def of_interest(items: list[Json]) -> list[Json]:
        return [one for one in items if one["metadata"]["name"].startswith(prefix)]

    for cluster in of_interest((await client.list(RAY_CLUSTERS, namespace)).items):
        found += _with_pods(cluster, pods, release)
        found += _with_hash(cluster, release)
    for service in of_interest((await client.list(RAY_SERVICES, namespace)).items):
        found += await _with_services(client, service)
        found += await _with_pending(client, service)
    return found


def _with_pods(cluster: Json, pods: list[Json], release: Release) -> list[str]:
    name, found = cluster["metadata"]["name"], []
    mine = [one for one in pods if one["metadata"]["labels"].get("ray.io/cluster") == name]
    heads = [one for one in mine if one["metadata"]["labels"]["ray.io/node-type"] == "head"]
    if len(heads) != 1:
        found.append(f"{name}: complain about {len(heads)} heads")
    for group in cluster["spec"]["workerGroupSpecs"]:
        of_group = [
            one
            for one in mine
            if one["metadata"]["labels"].get("ray.io/group") == group["groupName"]
        ]
        wanted = (group.get("replicas") or 0) * group.get("numOfHosts", 1)
        if len(of_group) != wanted:
            found.append(f"{name}: {wanted - len(of_group):+} workers in {group['groupName']}")
    for head in heads:
        notes = head["metadata"].get("annotations") or {}
        # A hash of another operator's is only read if the version says that it is KubeRay's own.
        if notes.get(VERSION) == release.version and notes.get(RECREATE) not in ("", A_HASH):
            found.append(f"{name}: recreate all Pods")
    return found


def _with_hash(cluster: Json, release: Release) -> list[str]:
    """A RayService's cluster with KubeRay's version and another's hash would be replaced."""
    notes = cluster["metadata"].get("annotations") or {}
    if notes.get(VERSION) == release.version and notes[HASH] not in (A_HASH, ANOTHER_HASH):
        return [f"{cluster['metadata']['name']}: make a new cluster in its place"]
    return []


async def _with_services(client: Client, service: Json) -> list[str]:
    """Both Services must select one of the two clusters that the status names: else it panics."""
    status, name = service["status"], service["metadata"]["name"]
    sides = ("activeServiceStatus", "pendingServiceStatus")
    known = {(status.get(side) or {}).get("rayClusterName") for side in sides}
    found = set()
    for suffix in ("head-svc", "serve-svc"):
        key = Key(service["metadata"]["namespace"], f"{name}-{suffix}")
        one = await client.get(SERVICES, key)
        found.add(one["spec"]["selector"]["ray.io/cluster"])
    return [] if len(found) == 1 and found <= known else [f"{name}: panic over its Services"]


async def _with_pending(client: Client, service: Json) -> list[str]:
    """The pending cluster is compared by hash alone, unless its worker groups cannot be counted."""
    name = (service["status"].get("pendingServiceStatus") or {}).get("rayClusterName")
    if not name:
        return []
    cluster = await client.get(RAY_CLUSTERS, Key(service["metadata"]["namespace"], name))
    notes = cluster["metadata"].get("annotations") or {}
    known = notes.get(HASH) in (A_HASH, ANOTHER_HASH)
    return [f"{name}: restart the upgrade"] if not known and notes[GROUPS].isdecimal() else []
