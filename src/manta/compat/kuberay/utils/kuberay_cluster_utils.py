"""KubeRay's `ClusterUtils`: RayClusters as dictionaries.

As there, an argument that is missing is logged and gives False; an invalid name or range raises
AssertionError.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any, Final

from manta.client.cluster_parts import group_spec, pod_template, ray_container
from manta.compat.kuberay import constants
from manta.compat.kuberay.connection import log

Dict = dict[str, Any]
Result = tuple[Dict, bool]
ALL_CONTAINERS: Final = "all_containers"
_VOLUME_MOUNTS: Final = ({"mountPath": "/tmp/ray", "name": "ray-logs"},)  # noqa: S108  # Ray's own
_VOLUMES: Final = ({"emptyDir": {}, "name": "ray-logs"},)
_HEAD_PORTS: Final = ((6379, "gcs-server"), (8265, "dashboard"), (10001, "client"))
_NAME: Final = re.compile(r"[a-z0-9]([-.]*[a-z0-9])+")
_LABEL: Final = re.compile(r"[a-z0-9]([-._]*[a-z0-9])+")
_MAX_LENGTH: Final = 63


class ClusterUtils:
    """Fill in and change the dictionary of a RayCluster."""

    def populate_meta(
        self,
        cluster: Dict,
        name: str,
        k8s_namespace: str,
        labels: dict[str, str] | None,
        ray_version: str,
    ) -> Dict:
        """Set kind, metadata and version. Raises AssertionError for an invalid name."""
        _require(self.is_valid_name(name), f"name={name!r} is invalid")
        cluster["apiVersion"] = f"{constants.GROUP}/{constants.CLUSTER_VERSION}"
        cluster["kind"] = constants.CLUSTER_KIND
        cluster["metadata"] = {"name": name, "namespace": k8s_namespace, "labels": labels}
        cluster["spec"] = {"rayVersion": ray_version}
        return cluster

    def populate_ray_head(  # noqa: PLR0913, PLR0917  # KubeRay's signature
        self,
        cluster: Dict,
        ray_image: str,
        service_type: str,
        cpu_requests: str,
        memory_requests: str,
        cpu_limits: str,
        memory_limits: str,
        ray_start_params: dict[str, str],
    ) -> Result:
        """Set the head. False if an argument is empty, or the metadata is missing."""
        given = {
            "cluster": cluster,
            "ray_image": ray_image,
            "service_type": service_type,
            "cpu_requests": cpu_requests,
            "memory_requests": memory_requests,
            "cpu_limits": cpu_limits,
            "memory_limits": memory_limits,
            "ray_start_params": ray_start_params,
        }
        if _lacks("ray head", given):
            return cluster, False
        if "spec" not in cluster:
            log.error("error creating ray head: call populate_meta first, the spec is missing")
            return cluster, False
        ports = [
            {"containerPort": port, "name": name, "protocol": "TCP"} for port, name in _HEAD_PORTS
        ]
        requests, limits = _resources(
            cpu_requests, memory_requests, cpu_limits, memory_limits
        ).values()
        head = ray_container("ray-head", ray_image, requests, limits, ports=ports)
        group = group_spec(_template(head), sizes={"serviceType": service_type})
        cluster["spec"]["headGroupSpec"] = {**group, "rayStartParams": ray_start_params}
        return cluster, True

    def populate_worker_group(  # noqa: PLR0913, PLR0917  # KubeRay's signature
        self,
        group_name: str,
        ray_image: str,
        ray_command: Any,
        init_image: str,
        cpu_requests: str,
        memory_requests: str,
        cpu_limits: str,
        memory_limits: str,
        replicas: int,
        min_replicas: int,
        max_replicas: int,
        ray_start_params: dict[str, str],
    ) -> tuple[Dict | None, bool]:
        """A worker group; None and False if an argument is empty. Raises AssertionError.

        As in KubeRay, `init_image` must be given and has no effect.
        """
        given = {
            "group_name": group_name,
            "ray_image": ray_image,
            "ray_command": ray_command,
            "init_image": init_image,
            "cpu_requests": cpu_requests,
            "memory_requests": memory_requests,
            "cpu_limits": cpu_limits,
            "memory_limits": memory_limits,
            "replicas": replicas,
            "max_replicas": max_replicas,
        }
        if _lacks("worker group", given):
            return None, False
        _require(self.is_valid_name(group_name), f"group_name={group_name!r} is invalid")
        _require_range(min_replicas, max_replicas)
        requests, limits = _resources(
            cpu_requests, memory_requests, cpu_limits, memory_limits
        ).values()
        worker = {
            **ray_container("ray-worker", ray_image, requests, limits),
            "command": ray_command,
            "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", "ray stop"]}}},
        }
        sizes = {
            "groupName": group_name,
            "replicas": replicas,
            "minReplicas": min_replicas,
            "maxReplicas": max_replicas,
        }
        # KubeRay's client keeps empty parameters, and its users add to them.
        group = group_spec(_template(worker), sizes=sizes)
        return {**group, "rayStartParams": ray_start_params}, True

    def update_worker_group_replicas(
        self, cluster: Dict, group_name: str, max_replicas: int, min_replicas: int, replicas: int
    ) -> Result:
        """Set the numbers of a group. False if it does not exist. Raises AssertionError."""
        given = {"group_name": group_name, "max_replicas": max_replicas, "replicas": replicas}
        if _lacks("worker group", {"cluster": cluster, **given}):
            return cluster, False
        groups = _groups(cluster)
        _require_range(min_replicas, max_replicas)
        for group in groups:
            if group["groupName"] == group_name:
                group["maxReplicas"] = max_replicas
                group["minReplicas"] = min_replicas
                group["replicas"] = replicas
                return cluster, True
        return cluster, False

    def update_worker_group_resources(  # KubeRay's signature
        self,
        cluster: Dict,
        group_name: str,
        cpu_requests: str,
        memory_requests: str,
        cpu_limits: str,
        memory_limits: str,
        container_name: str = "unspecified",
    ) -> Result:
        """Set the resources of one container of a group, of the first, or of `all_containers`."""
        given = {
            "cluster": cluster,
            "group_name": group_name,
            "cpu_requests": cpu_requests,
            "memory_requests": memory_requests,
            "cpu_limits": cpu_limits,
            "memory_limits": memory_limits,
            "container_name": container_name,
        }
        if _lacks("worker group", given):
            return cluster, False
        resources = _resources(cpu_requests, memory_requests, cpu_limits, memory_limits)
        found = [one for one in _groups(cluster) if one["groupName"] == group_name]
        containers = [one for group in found for one in group["template"]["spec"]["containers"]]
        chosen = _chosen(containers, container_name)
        for container in chosen:
            for kind, amounts in resources.items():
                container["resources"][kind] |= amounts
        if not chosen:
            log.error("worker group %s has no container %s", group_name, container_name)
        return cluster, bool(chosen)

    def duplicate_worker_group(self, cluster: Dict, group_name: str, new_group_name: str) -> Result:
        """Add a copy of a group. False if it does not exist. Raises AssertionError."""
        given = {"cluster": cluster, "group_name": group_name, "new_group_name": new_group_name}
        if _lacks("worker group", given):
            return cluster, False
        _require(
            self.is_valid_name(new_group_name), f"new_group_name={new_group_name!r} is invalid"
        )
        groups = _groups(cluster)
        for group in groups:
            if group["groupName"] == group_name:
                groups.append(copy.deepcopy(group) | {"groupName": new_group_name})
                return cluster, True
        log.error("error duplicating worker group: there is no %s", group_name)
        return cluster, False

    def delete_worker_group(self, cluster: Dict, group_name: str) -> Result:
        """Remove a group. False if it does not exist. Raises AssertionError."""
        if _lacks("worker group", {"cluster": cluster, "group_name": group_name}):
            return cluster, False
        groups = _groups(cluster)
        for group in groups:
            if group["groupName"] == group_name:
                groups.remove(group)
                return cluster, True
        log.error("error removing worker group: there is no %s", group_name)
        return cluster, False

    def is_valid_name(self, name: str) -> bool:
        """Whether KubeRay's client accepts this name: 2 to 63 of a-z, 0-9, dash and dot."""
        return _is_valid(_NAME, name, "dashes, dots, and alphanumerics")

    def is_valid_label(self, name: str) -> bool:
        """Whether KubeRay's client accepts this label: as a name, with underscores."""
        return _is_valid(_LABEL, name, "dashes, underscores, dots, and alphanumerics")


def _is_valid(pattern: re.Pattern[str], name: str, allowed: str) -> bool:
    if len(name) <= _MAX_LENGTH and pattern.fullmatch(name):
        return True
    log.error(
        "%r: must have 63 characters or less, begin and end with an alphanumeric character, and contain "
        "only %s",
        name,
        allowed,
    )
    return False


def _lacks(what: str, arguments: Mapping[str, Any]) -> bool:
    """Whether an argument is empty; the first one is logged."""
    for name, value in arguments.items():
        if not value:
            log.error("error populating %s: %s=%r is missing", what, name, value)
            return True
    return False


def _require(condition: object, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _require_range(least: int, most: int) -> None:
    _require(most >= least, f"max_replicas={most} is less than min_replicas={least}")


def _groups(cluster: Dict) -> list[Dict]:
    groups: list[Dict] = cluster["spec"]["workerGroupSpecs"]
    _require(groups, "the cluster has no worker groups")
    return groups


def _chosen(containers: list[Dict], name: str) -> list[Dict]:
    if name == ALL_CONTAINERS:
        return containers
    if name == "unspecified":
        return containers[:1]
    return [one for one in containers if one["name"] == name]


def _resources(
    cpu_requests: str, memory_requests: str, cpu_limits: str, memory_limits: str
) -> dict[str, dict[str, str]]:
    return {
        "requests": {"cpu": cpu_requests, "memory": memory_requests},
        "limits": {"cpu": cpu_limits, "memory": memory_limits},
    }


def _template(container: Dict) -> Dict:
    mounted = {**container, "volumeMounts": copy.deepcopy(list(_VOLUME_MOUNTS))}
    return pod_template(mounted, pod={"volumes": copy.deepcopy(list(_VOLUMES))})
