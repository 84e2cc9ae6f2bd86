"""v1alpha1, frozen: served and deprecated, and it gets no new fields. This table says which
fields it has; everything else of a struct that is listed here belongs to v1 alone."""

from __future__ import annotations

from typing import Final

from tools.crds.schema import Dialect, Schema

from manta.api.ray import cluster, job, service

FIELDS: Final[dict[type, str]] = {
    cluster.RayClusterSpec: (
        "autoscalerOptions enableInTreeAutoscaling headGroupSpec headServiceAnnotations"
        " rayVersion suspend workerGroupSpecs"
    ),
    cluster.AutoscalerOptions: (
        "env envFrom idleTimeoutSeconds image imagePullPolicy resources securityContext"
        " upscalingMode volumeMounts"
    ),
    cluster.HeadGroupSpec: "enableIngress headService rayStartParams serviceType template",
    cluster.WorkerGroupSpec: (
        "groupName maxReplicas minReplicas rayStartParams replicas scaleStrategy template"
    ),
    cluster.RayClusterStatus: (
        "availableWorkerReplicas desiredCPU desiredGPU desiredMemory desiredTPU"
        " desiredWorkerReplicas endpoints head lastUpdateTime maxWorkerReplicas minWorkerReplicas"
        " observedGeneration readyWorkerReplicas reason state"
    ),
    cluster.HeadInfo: "podIP serviceIP",
    job.RayJobSpec: (
        "clusterSelector entrypoint entrypointNumCpus entrypointNumGpus entrypointResources jobId"
        " metadata rayClusterSpec runtimeEnvYAML shutdownAfterJobFinishes submitterPodTemplate"
        " suspend ttlSecondsAfterFinished"
    ),
    job.RayJobStatus: (
        "dashboardURL endTime jobDeploymentStatus jobId jobStatus message observedGeneration"
        " rayClusterName rayClusterStatus startTime"
    ),
    service.RayServiceSpec: (
        "deploymentUnhealthySecondThreshold rayClusterConfig serveConfigV2 serveService"
        " serviceUnhealthySecondThreshold"
    ),
    service.RayServiceStatuses: (
        "activeServiceStatus lastUpdateTime observedGeneration pendingServiceStatus serviceStatus"
    ),
    service.RayServiceStatus: "applicationStatuses rayClusterName rayClusterStatus",
}

REQUIRED: Final[dict[type, list[str]]] = {
    cluster.HeadGroupSpec: ["rayStartParams", "template"],
    cluster.WorkerGroupSpec: [
        "groupName",
        "maxReplicas",
        "minReplicas",
        "rayStartParams",
        "template",
    ],
    job.RayJobSpec: ["entrypoint"],
    service.RayServiceSpec: [],
}

_HEALTH_TIME: Final[dict[str, Schema]] = {
    "healthLastUpdateTime": {"type": "string", "format": "date-time"}
}
EXTRA: Final[dict[type, dict[str, Schema]]] = {
    service.AppStatus: _HEALTH_TIME,
    service.ServeDeploymentStatus: _HEALTH_TIME,
}


class Alpha(Dialect):
    def fields(self, struct: type, names: list[str]) -> list[str]:
        return FIELDS[struct].split() if struct in FIELDS else names

    def required(self, struct: type, names: list[str]) -> list[str]:
        return REQUIRED.get(struct, names)

    def extra(self, struct: type) -> dict[str, Schema]:
        return EXTRA.get(struct, {})
