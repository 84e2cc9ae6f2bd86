# The names that `manta/__init__.py` loads when they are used, for type checkers and editors.

from manta.api.usage import InvalidValue as InvalidValue
from manta.client.cluster_spec import HeadGroup as HeadGroup
from manta.client.cluster_spec import WorkerGroup as WorkerGroup
from manta.client.connection import NoServerError as NoServerError
from manta.client.job_logs import NoLogError as NoLogError
from manta.kube.errors import AlreadyExists as AlreadyExists
from manta.kube.errors import ApiError as ApiError
from manta.kube.errors import Conflict as Conflict
from manta.kube.errors import CredentialsError as CredentialsError
from manta.kube.errors import Forbidden as Forbidden
from manta.kube.errors import Invalid as Invalid
from manta.kube.errors import MantaError as MantaError
from manta.kube.errors import NotFound as NotFound
from manta.kube.errors import Unauthorized as Unauthorized
from manta.kube.errors import Unreachable as Unreachable
from manta.sdk.async_client import AsyncClient as AsyncClient
from manta.sdk.async_clusters import AsyncCluster as AsyncCluster
from manta.sdk.async_clusters import AsyncClusters as AsyncClusters
from manta.sdk.async_cron_jobs import AsyncCronJob as AsyncCronJob
from manta.sdk.async_cron_jobs import AsyncCronJobs as AsyncCronJobs
from manta.sdk.async_jobs import AsyncJob as AsyncJob
from manta.sdk.async_jobs import AsyncJobs as AsyncJobs
from manta.sdk.async_services import AsyncService as AsyncService
from manta.sdk.async_services import AsyncServices as AsyncServices
from manta.sdk.builders import build_cluster as build_cluster
from manta.sdk.builders import build_cron_job as build_cron_job
from manta.sdk.builders import build_service as build_service
from manta.sdk.client import Client as Client
from manta.sdk.clusters import Cluster as Cluster
from manta.sdk.clusters import Clusters as Clusters
from manta.sdk.cron_jobs import CronJob as CronJob
from manta.sdk.cron_jobs import CronJobs as CronJobs
from manta.sdk.errors import Deleted as Deleted
from manta.sdk.errors import JobFailed as JobFailed
from manta.sdk.errors import WaitError as WaitError
from manta.sdk.errors import WaitFailed as WaitFailed
from manta.sdk.errors import WaitTimeout as WaitTimeout
from manta.sdk.jobs import Job as Job
from manta.sdk.jobs import Jobs as Jobs
from manta.sdk.options import ClusterOptions as ClusterOptions
from manta.sdk.options import CronJobOptions as CronJobOptions
from manta.sdk.options import JobOptions as JobOptions
from manta.sdk.options import ServiceOptions as ServiceOptions
from manta.sdk.options import SubmitOptions as SubmitOptions
from manta.sdk.services import Service as Service
from manta.sdk.services import Services as Services
from manta.sdk.types import HeadGroupSpec as HeadGroupSpec
from manta.sdk.types import RayCluster as RayCluster
from manta.sdk.types import RayClusterSpec as RayClusterSpec
from manta.sdk.types import RayClusterStatus as RayClusterStatus
from manta.sdk.types import RayCronJob as RayCronJob
from manta.sdk.types import RayCronJobSpec as RayCronJobSpec
from manta.sdk.types import RayCronJobStatus as RayCronJobStatus
from manta.sdk.types import RayJob as RayJob
from manta.sdk.types import RayJobSpec as RayJobSpec
from manta.sdk.types import RayJobStatus as RayJobStatus
from manta.sdk.types import RayService as RayService
from manta.sdk.types import RayServiceSpec as RayServiceSpec
from manta.sdk.types import RayServiceStatuses as RayServiceStatuses
from manta.sdk.types import WorkerGroupSpec as WorkerGroupSpec

__version__: str

__all__ = [
    "AlreadyExists",
    "ApiError",
    "AsyncClient",
    "AsyncCluster",
    "AsyncClusters",
    "AsyncCronJob",
    "AsyncCronJobs",
    "AsyncJob",
    "AsyncJobs",
    "AsyncService",
    "AsyncServices",
    "Client",
    "Cluster",
    "ClusterOptions",
    "Clusters",
    "Conflict",
    "CredentialsError",
    "CronJob",
    "CronJobOptions",
    "CronJobs",
    "Deleted",
    "Forbidden",
    "HeadGroup",
    "HeadGroupSpec",
    "Invalid",
    "InvalidValue",
    "Job",
    "JobFailed",
    "JobOptions",
    "Jobs",
    "MantaError",
    "NoLogError",
    "NoServerError",
    "NotFound",
    "RayCluster",
    "RayClusterSpec",
    "RayClusterStatus",
    "RayCronJob",
    "RayCronJobSpec",
    "RayCronJobStatus",
    "RayJob",
    "RayJobSpec",
    "RayJobStatus",
    "RayService",
    "RayServiceSpec",
    "RayServiceStatuses",
    "Service",
    "ServiceOptions",
    "Services",
    "SubmitOptions",
    "Unauthorized",
    "Unreachable",
    "WaitError",
    "WaitFailed",
    "WaitTimeout",
    "WorkerGroup",
    "WorkerGroupSpec",
    "__version__",
    "build_cluster",
    "build_cron_job",
    "build_service",
]
