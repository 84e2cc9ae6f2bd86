"""The keyword arguments that connect and that create objects, each written down once.

Builders, constructors, `create` and `submit` of the synchronous and the asynchronous client take the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Required, TypedDict

from manta.client.cluster_spec import HeadGroup, WorkerGroup


class ServerOptions(TypedDict, total=False):
    """Which API server, and as whom. Without any: KUBECONFIG, `~/.kube/config`, the service account of
    this Pod; and if none of these exists, the plane of `manta up`."""

    kubeconfig: str | PathLike[str] | None
    """As kubectl's flag."""
    context: str | None
    """As kubectl's flag."""
    server: str | None
    """The URL of the server, without a kubeconfig."""
    token: str | None
    """A bearer token; without `server`, it replaces the user of the kubeconfig."""
    ca: str | PathLike[str] | bytes | None
    """The certificate authority of `server`: a file, or PEM as bytes."""
    insecure: bool
    """Do not verify the certificate of `server` (default: False)."""
    plane: str | PathLike[str] | None
    """The directory of a `manta up --dir`."""


class ObjectOptions(TypedDict, total=False):
    """Arguments of every kind."""

    namespace: str
    """The namespace (default: that of the client)."""
    labels: Mapping[str, str]
    """Labels of the object."""
    annotations: Mapping[str, str]
    """Annotations of the object."""


class ShapeOptions(TypedDict, total=False):
    """The shape of a new cluster."""

    image: str
    """The container image of all Pods (default: `rayproject/ray` of the version that Manta is tested with)."""
    ray_version: str
    """The version of Ray in the image (default: from the tag of the image)."""
    head: HeadGroup
    """The head (default: 1 CPU, 2Gi)."""
    workers: WorkerGroup | Sequence[WorkerGroup]
    """One or more groups of workers (default: none)."""
    autoscale: bool
    """Run Ray's autoscaler; each group then needs `max_replicas` (default: False)."""


class ClusterOptions(ObjectOptions, ShapeOptions, total=False):
    """Arguments of a RayCluster."""

    name: Required[str]
    """The name of the RayCluster."""
    suspend: bool
    """Create it without Pods (default: False)."""
    spec: Mapping[str, Any]
    """More fields of the spec, as the CRD spells them; they replace those of the shape."""


class SubmitOptions(TypedDict, total=False):
    """Arguments of a job on a cluster that exists."""

    name: str
    """The name of the RayJob (default: from the script, with a random suffix)."""
    labels: Mapping[str, str]
    """Labels of the RayJob."""
    working_dir: str | PathLike[str]
    """A directory to send with the job (default: only the script that the command names)."""
    exclude: Sequence[str]
    """Patterns of files not to send, as in .gitignore."""
    include_ignored: bool
    """Also send what .gitignore and .rayignore exclude (default: False)."""
    runtime_env: Mapping[str, Any]
    """Ray's runtime environment."""
    env: Mapping[str, str]
    """Environment variables of the job."""
    pip: Sequence[str]
    """Packages to install for the job."""
    deadline: int
    """Seconds after which the operator stops the job (default: never)."""


class JobOptions(SubmitOptions, ShapeOptions, total=False):
    """Arguments of a job on a cluster of its own."""

    namespace: str
    """The namespace (default: that of the client)."""
    retries: int
    """Retries, each on a new cluster (default: 0)."""
    keep_cluster: bool
    """Keep the cluster after the job (default: False)."""


class ServiceOptions(ObjectOptions, ShapeOptions, total=False):
    """Arguments of a RayService."""

    name: Required[str]
    """The name of the RayService."""
    serve_config: Required[Mapping[str, Any] | str]
    """The config of Ray Serve (`applications: ...`), as a mapping or as YAML."""
    spec: Mapping[str, Any]
    """More fields of the spec, as the CRD spells them."""


class CronJobOptions(ObjectOptions, ShapeOptions, total=False):
    """Arguments of a RayCronJob."""

    name: Required[str]
    """The name of the RayCronJob."""
    schedule: Required[str]
    """Five cron fields, or `@hourly`, `@every 1h` and the like."""
    entrypoint: Required[str]
    """The command of each job."""
    time_zone: str
    """The zone of the schedule, such as Europe/Berlin (default: that of the operator)."""
    suspend: bool
    """Start no jobs yet (default: False)."""
    runtime_env: Mapping[str, Any]
    """Ray's runtime environment."""
    deadline: int
    """Seconds after which the operator stops a job (default: never)."""
    successful_jobs_history_limit: int
    """Succeeded RayJobs to keep (default: all)."""
    failed_jobs_history_limit: int
    """Failed RayJobs to keep (default: all)."""
