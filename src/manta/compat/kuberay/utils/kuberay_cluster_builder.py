"""KubeRay's `ClusterBuilder` and `Director`."""

from __future__ import annotations

import copy
import math
from abc import ABCMeta, abstractmethod
from typing import Any, Final, Self

from manta.compat.kuberay.connection import log
from manta.compat.kuberay.utils.kuberay_cluster_utils import ClusterUtils

Dict = dict[str, Any]
RAY_VERSION: Final = "2.46.0"
RAY_IMAGE: Final = f"rayproject/ray:{RAY_VERSION}"
HEAD_PARAMS: Final = {"dashboard-host": "0.0.0.0"}  # noqa: S104  # inside of the Pod


class IClusterBuilder(metaclass=ABCMeta):
    """The interface of a builder."""

    @abstractmethod
    def build_meta(self, name: str) -> Self:
        """Set the metadata."""

    @abstractmethod
    def build_head(self) -> Self:
        """Set the head."""

    @abstractmethod
    def build_worker(self, group_name: str) -> Self:
        """Add a worker group."""

    @abstractmethod
    def get_cluster(self) -> Dict:
        """The RayCluster as a dict."""


class ClusterBuilder(IClusterBuilder):
    """Builds a RayCluster piece by piece; `succeeded` tells whether the last piece was valid."""

    def __init__(self) -> None:
        """Begin with an empty cluster."""
        self.cluster: Dict = {}
        self.succeeded: bool = False
        self.cluster_utils = ClusterUtils()

    def build_meta(
        self,
        name: str,
        k8s_namespace: str = "default",
        labels: dict[str, str] | None = None,
        ray_version: str = "2.46.0",
    ) -> Self:
        """Set name, namespace, labels and version. Raises AssertionError for an invalid name."""
        self.cluster = self.cluster_utils.populate_meta(
            cluster=self.cluster,
            name=name,
            k8s_namespace=k8s_namespace,
            labels=labels,
            ray_version=ray_version,
        )
        return self

    def build_head(  # KubeRay's signature
        self,
        ray_image: str = "rayproject/ray:2.46.0",
        service_type: str = "ClusterIP",
        cpu_requests: str = "2",
        memory_requests: str = "3G",
        cpu_limits: str = "2",
        memory_limits: str = "3G",
        ray_start_params: dict[str, str] = HEAD_PARAMS,
    ) -> Self:
        """Set the head."""
        self.cluster, self.succeeded = self.cluster_utils.populate_ray_head(
            self.cluster,
            ray_image=ray_image,
            service_type=service_type,
            cpu_requests=cpu_requests,
            memory_requests=memory_requests,
            cpu_limits=cpu_limits,
            memory_limits=memory_limits,
            ray_start_params=dict(ray_start_params),
        )
        return self

    def build_worker(  # noqa: PLR0913, PLR0917  # KubeRay's signature
        self,
        group_name: str,
        ray_image: str = "rayproject/ray:2.46.0",
        ray_command: Any = ["/bin/bash", "-lc"],  # noqa: B006  # copied
        init_image: str = "busybox:1.28",
        cpu_requests: str = "1",
        memory_requests: str = "1G",
        cpu_limits: str = "2",
        memory_limits: str = "2G",
        replicas: int = 1,
        min_replicas: int = -1,
        max_replicas: int = -1,
        ray_start_params: dict[str, str] = {},  # noqa: B006  # copied
    ) -> Self:
        """Add a worker group. Without bounds, it has from half to three times its replicas."""
        if "spec" not in self.cluster:
            log.error("error creating worker group %s: call build_meta first", group_name)
            self.succeeded = False
            return self
        group, self.succeeded = self.cluster_utils.populate_worker_group(
            group_name,
            ray_image,
            copy.copy(ray_command),
            init_image,
            cpu_requests,
            memory_requests,
            cpu_limits,
            memory_limits,
            replicas,
            math.ceil(replicas / 2) if min_replicas < 0 else min_replicas,
            replicas * 3 if max_replicas < 0 else max_replicas,
            dict(ray_start_params),
        )
        if self.succeeded:
            self.cluster["spec"].setdefault("workerGroupSpecs", []).append(group)
        return self

    def get_cluster(self) -> Dict:
        """A copy of the RayCluster as a dict."""
        return copy.deepcopy(self.cluster)


class Director:
    """RayClusters of common sizes."""

    def __init__(self) -> None:
        """Make the builder that all sizes use."""
        self.cluster_builder = ClusterBuilder()

    def build_basic_cluster(
        self, name: str, k8s_namespace: str = "default", labels: dict[str, str] | None = None
    ) -> Dict | None:
        """A head without workers; None if it cannot be built."""
        return self._built(name, k8s_namespace, labels)

    def build_small_cluster(
        self, name: str, k8s_namespace: str = "default", labels: dict[str, str] | None = None
    ) -> Dict | None:
        """One worker of 2 CPUs and 2G (0 to 2); None if it cannot be built."""
        return self._built(name, k8s_namespace, labels, (1, 2), ("1", "1G", "2", "2G"))

    def build_medium_cluster(
        self, name: str, k8s_namespace: str = "default", labels: dict[str, str] | None = None
    ) -> Dict | None:
        """Three workers of 4 CPUs and 4G (0 to 6); None if it cannot be built."""
        return self._built(name, k8s_namespace, labels, (3, 6), ("2", "2G", "4", "4G"))

    def build_large_cluster(
        self, name: str, k8s_namespace: str = "default", labels: dict[str, str] | None = None
    ) -> Dict | None:
        """Six workers of 6 CPUs and 8G (0 to 12); None if it cannot be built."""
        return self._built(name, k8s_namespace, labels, (6, 12), ("3", "4G", "6", "8G"))

    def _built(
        self,
        name: str,
        namespace: str,
        labels: dict[str, str] | None,
        numbers: tuple[int, int] | None = None,
        amounts: tuple[str, str, str, str] = ("", "", "", ""),
    ) -> Dict | None:
        builder = self.cluster_builder.build_meta(name, namespace, labels).build_head()
        if numbers is not None:
            builder = builder.build_worker(
                f"{name}-workers",
                cpu_requests=amounts[0],
                memory_requests=amounts[1],
                cpu_limits=amounts[2],
                memory_limits=amounts[3],
                replicas=numbers[0],
                min_replicas=0,
                max_replicas=numbers[1],
            )
        return builder.get_cluster() if builder.succeeded else None
