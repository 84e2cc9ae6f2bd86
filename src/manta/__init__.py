"""Manta: a Kubernetes operator for Ray, and a one-machine plane that runs Ray without Kubernetes.

For programs, this module is a client of Ray on Kubernetes:

    import manta

    with manta.Client() as ray:
        cluster = ray.clusters.create(name="demo", workers=manta.WorkerGroup(replicas=2, cpu=4))
        cluster.wait_ready()
        job = cluster.submit("python train.py", working_dir=".")
        for line in job.logs(follow=True):
            print(line)
        job.result()

Names are loaded when they are used: commands and the operator do not pay for them.
"""

__version__ = "0.1.0"

_MODULES = {
    "manta.api.usage": ("InvalidValue",),
    "manta.client.cluster_spec": ("HeadGroup", "WorkerGroup"),
    "manta.client.connection": ("NoServerError",),
    "manta.client.job_logs": ("NoLogError",),
    "manta.kube.errors": (
        "AlreadyExists", "ApiError", "Conflict", "CredentialsError", "Forbidden", "Invalid",
        "MantaError", "NotFound", "Unauthorized", "Unreachable",
    ),
    "manta.sdk.async_client": ("AsyncClient",),
    "manta.sdk.async_clusters": ("AsyncCluster", "AsyncClusters"),
    "manta.sdk.async_cron_jobs": ("AsyncCronJob", "AsyncCronJobs"),
    "manta.sdk.async_jobs": ("AsyncJob", "AsyncJobs"),
    "manta.sdk.async_services": ("AsyncService", "AsyncServices"),
    "manta.sdk.builders": ("build_cluster", "build_cron_job", "build_service"),
    "manta.sdk.client": ("Client",),
    "manta.sdk.clusters": ("Cluster", "Clusters"),
    "manta.sdk.cron_jobs": ("CronJob", "CronJobs"),
    "manta.sdk.errors": ("Deleted", "JobFailed", "WaitError", "WaitFailed", "WaitTimeout"),
    "manta.sdk.jobs": ("Job", "Jobs"),
    "manta.sdk.options": (
        "ClusterOptions", "CronJobOptions", "JobOptions", "ServiceOptions", "SubmitOptions",
    ),
    "manta.sdk.services": ("Service", "Services"),
    "manta.sdk.types": (
        "HeadGroupSpec", "RayCluster", "RayClusterSpec", "RayClusterStatus", "RayCronJob",
        "RayCronJobSpec", "RayCronJobStatus", "RayJob", "RayJobSpec", "RayJobStatus", "RayService",
        "RayServiceSpec", "RayServiceStatuses", "WorkerGroupSpec",
    ),
}  # fmt: skip
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = ["__version__", *_HOME]  # noqa: PLE0604  # __init__.pyi lists them


def __getattr__(name: str) -> object:
    """Load a name of the SDK (PEP 562). Raises AttributeError for others."""
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module 'manta' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
