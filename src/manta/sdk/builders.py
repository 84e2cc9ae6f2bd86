"""Manifests of the four kinds from a few arguments. Pure: nothing is sent.

>>> cluster = build_cluster(name="demo", workers=WorkerGroup(replicas=2, cpu=4, gpu=1))
>>> cluster.spec.worker_group_specs[0].replicas
2
>>> print(cluster.to_yaml().splitlines()[3])
  name: demo
>>> build_cluster(name="demo", workers=WorkerGroup(replicas=-2))
Traceback (most recent call last):
    ...
manta.api.usage.InvalidValue: workers[0].replicas=-2: must be a whole number, 0 or more
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Unpack

from manta.api.documents.writer import to_yaml
from manta.api.ray.cluster import RayCluster
from manta.api.ray.cronjob import RayCronJob
from manta.api.ray.manifest import Document, Manifest
from manta.api.ray.service import RayService
from manta.client.cluster_spec import DEFAULT_IMAGE, WorkerGroup, cluster_spec
from manta.sdk.options import ClusterOptions, CronJobOptions, ServiceOptions, ShapeOptions

SHAPE: Final = frozenset(ShapeOptions.__annotations__)


def build_cluster(**options: Unpack[ClusterOptions]) -> RayCluster:
    """A RayCluster (arguments: `ClusterOptions`). Raises InvalidValue.

    >>> build_cluster(name="demo").spec.ray_version
    '2.60.0'
    """
    spec = shape_of(options)
    if options.get("suspend"):
        spec["suspend"] = True
    return RayCluster.from_dict(
        _document(RayCluster, options, spec | dict(options.get("spec", {})))
    )


def build_service(**options: Unpack[ServiceOptions]) -> RayService:
    """A RayService (arguments: `ServiceOptions`). Raises InvalidValue.

    >>> app = {"name": "text", "import_path": "app:text", "route_prefix": "/"}
    >>> service = build_service(name="text", serve_config={"applications": [app]})
    >>> service.spec.serve_config_v2.splitlines()[0]
    'applications:'
    """
    spec = {
        "serveConfigV2": serve_config_text(options["serve_config"]),
        "rayClusterConfig": shape_of(options),
        **options.get("spec", {}),
    }
    return RayService.from_dict(_document(RayService, options, spec))


def build_cron_job(**options: Unpack[CronJobOptions]) -> RayCronJob:
    """A RayCronJob, each job on a cluster of its own (arguments: `CronJobOptions`). Raises InvalidValue.

    >>> build_cron_job(name="nightly", schedule="0 3 * * *", entrypoint="python /app/job.py").spec.schedule
    '0 3 * * *'
    """
    job: Document = {
        "entrypoint": options["entrypoint"],
        "rayClusterSpec": shape_of(options),
        "shutdownAfterJobFinishes": True,
    }
    if options.get("runtime_env"):
        job["runtimeEnvYAML"] = to_yaml(dict(options["runtime_env"]))
    if "deadline" in options:
        job["activeDeadlineSeconds"] = options["deadline"]
    given = {
        "timeZone": options.get("time_zone"),
        "suspend": options.get("suspend"),
        "successfulJobsHistoryLimit": options.get("successful_jobs_history_limit"),
        "failedJobsHistoryLimit": options.get("failed_jobs_history_limit"),
    }
    spec: Document = {"schedule": options["schedule"], "jobTemplate": job}
    spec |= {name: value for name, value in given.items() if value is not None}
    return RayCronJob.from_dict(_document(RayCronJob, options, spec))


def shape_of(options: Mapping[str, Any]) -> Document:
    """The spec of a cluster of this shape. Raises InvalidValue."""
    workers = options.get("workers", ())
    groups = (workers,) if isinstance(workers, WorkerGroup) else tuple(workers)
    return cluster_spec(
        image=options.get("image", DEFAULT_IMAGE),
        ray_version=options.get("ray_version", ""),
        head=options.get("head"),
        workers=groups,
        autoscale=options.get("autoscale", False),
    )


def serve_config_text(config: Mapping[str, Any] | str) -> str:
    """The config of Ray Serve as the text that the CRD has."""
    return config if isinstance(config, str) else to_yaml(dict(config))


def selector_of(labels: Mapping[str, str] | str) -> str:
    """A label selector.

    >>> selector_of({"team": "a", "env": "dev"})
    'team=a,env=dev'
    """
    if isinstance(labels, str):
        return labels
    return ",".join(f"{name}={value}" for name, value in labels.items())


def _document(
    kind: type[Manifest], options: Mapping[str, Any], spec: Mapping[str, Any]
) -> Document:
    resource = kind.resource()
    fields: Sequence[str] = ("name", "namespace", "labels", "annotations")
    meta = {name: options[name] for name in fields if options.get(name)}
    meta = {name: dict(v) if isinstance(v, Mapping) else v for name, v in meta.items()}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": meta,
        "spec": dict(spec),
    }
