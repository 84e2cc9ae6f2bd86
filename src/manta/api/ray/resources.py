"""The four Ray kinds, as the API server addresses them."""

from __future__ import annotations

from typing import Final

from manta.api.resources import Resource

RAY_CLUSTERS: Final = Resource("ray.io", "v1", "rayclusters", "RayCluster")
RAY_JOBS: Final = Resource("ray.io", "v1", "rayjobs", "RayJob")
RAY_SERVICES: Final = Resource("ray.io", "v1", "rayservices", "RayService")
RAY_CRON_JOBS: Final = Resource("ray.io", "v1", "raycronjobs", "RayCronJob")

RAY_RESOURCES: Final = (RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES, RAY_CRON_JOBS)
