"""KubeRay's `RayClusterApi`."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from manta.api.ray.resources import RAY_CLUSTERS
from manta.compat.kuberay.connection import Connection, log, official_client


class RayClusterApi(Connection):
    """List, read, create, change and delete RayClusters."""

    resource = RAY_CLUSTERS

    @cached_property
    def core_v1_api(self) -> Any:
        """`CoreV1Api` of the `kubernetes` package, if it is installed. Raises ImportError."""
        return official_client("CoreV1Api")

    def list_ray_clusters(
        self,
        k8s_namespace: str = "default",
        label_selector: str = "",
        async_req: bool = False,  # noqa: FBT001, FBT002  # KubeRay's signature
    ) -> Any:
        """The RayClusterList as a dict; None after an error. `async_req`: an object with `get()`."""
        work = self._list(k8s_namespace, label_selector)
        if async_req:
            return self._later("list rayclusters", work)
        return self._answer("list rayclusters", work)

    def get_ray_cluster(self, name: str, k8s_namespace: str = "default") -> Any:
        """The RayCluster as a dict; None if it does not exist or after an error."""
        return self._answer(f"get raycluster {name}", self._get(name, k8s_namespace))

    def get_ray_cluster_status(
        self,
        name: str,
        k8s_namespace: str = "default",
        timeout: int = 60,
        delay_between_attempts: int = 5,  # a watch needs no delay
    ) -> Any:
        """The status, once the operator has written one; None after `timeout` seconds or an error."""
        work = self._status_when(name, k8s_namespace, timeout, lambda _: True)
        return self._answer(f"status of raycluster {name}", work)

    def wait_until_ray_cluster_running(
        self,
        name: str,
        k8s_namespace: str = "default",
        timeout: int = 60,
        delay_between_attempts: int = 5,  # a watch needs no delay
    ) -> bool:
        """Whether the state becomes `ready` within `timeout` seconds."""
        work = self._status_when(
            name, k8s_namespace, timeout, lambda status: status.get("state") == "ready"
        )
        return self._answer(f"wait for raycluster {name}", work) is not None

    def create_ray_cluster(self, body: Any, k8s_namespace: str = "default") -> Any:
        """The created RayCluster as a dict; None if the name is taken or after an error."""
        return self._answer("create raycluster", self._create(body, k8s_namespace))

    def delete_ray_cluster(self, name: str, k8s_namespace: str = "default") -> Any:
        """The answer of the server as a dict; None if the cluster is gone or after an error."""
        return self._answer(f"delete raycluster {name}", self._delete(name, k8s_namespace))

    def patch_ray_cluster(self, name: str, ray_patch: Any, k8s_namespace: str = "default") -> Any:
        """Merge this into the RayCluster. Whether it succeeded."""
        done = self._answer(f"patch raycluster {name}", self._patch(name, ray_patch, k8s_namespace))
        if done is not None:
            log.info("raycluster `%s` is patched successfully", name)
        return done is not None
