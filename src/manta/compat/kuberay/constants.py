"""The constants of KubeRay's client."""

import logging

from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS

GROUP = RAY_CLUSTERS.group
CLUSTER_VERSION = RAY_CLUSTERS.version
JOB_VERSION = RAY_JOBS.version
CLUSTER_PLURAL = RAY_CLUSTERS.plural
JOB_PLURAL = RAY_JOBS.plural
CLUSTER_KIND = RAY_CLUSTERS.kind
JOB_KIND = RAY_JOBS.kind
LOGLEVEL = logging.INFO
