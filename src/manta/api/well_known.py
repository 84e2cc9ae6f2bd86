"""Labels, annotations, finalizers, taints and Secret types of Kubernetes and of the embedded control plane.

`api/ray/names.py` has those of Ray. No other module spells one out (`tests/architecture/test_names.py`).
"""

from __future__ import annotations

from typing import Final

# ── labels ───────────────────────────────────────────────────────────────────────────────
LABEL_APP_COMPONENT: Final = "app.kubernetes.io/component"
LABEL_APP_CREATED_BY: Final = "app.kubernetes.io/created-by"
LABEL_APP_INSTANCE: Final = "app.kubernetes.io/instance"
LABEL_APP_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
LABEL_APP_NAME: Final = "app.kubernetes.io/name"
LABEL_APP_VERSION: Final = "app.kubernetes.io/version"
LABEL_ARCH: Final = "kubernetes.io/arch"
LABEL_ARCH_BETA: Final = "beta.kubernetes.io/arch"
LABEL_BOOTSTRAPPING: Final = "kubernetes.io/bootstrapping"
LABEL_ENDPOINTS_MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
LABEL_ENDPOINT_SLICE_MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
LABEL_HEADLESS_SERVICE: Final = "service.kubernetes.io/headless"
LABEL_HOSTNAME: Final = "kubernetes.io/hostname"
LABEL_JOB_NAME: Final = "batch.kubernetes.io/job-name"
LABEL_JOB_UID: Final = "batch.kubernetes.io/controller-uid"
LABEL_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
LABEL_NODE_ROLE: Final = "kubernetes.io/role"
LABEL_OS: Final = "kubernetes.io/os"
LABEL_OS_BETA: Final = "beta.kubernetes.io/os"
LABEL_POD_INDEX: Final = "apps.kubernetes.io/pod-index"
LABEL_SERVICE_NAME: Final = "kubernetes.io/service-name"
LABEL_STATEFUL_SET_POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
LABEL_ZONE: Final = "topology.kubernetes.io/zone"
PREFIX_RBAC_AGGREGATE: Final = "rbac.authorization.k8s.io/aggregate-to-"

# ── annotations ──────────────────────────────────────────────────────────────────────────
ANNOTATION_CHANGE_CAUSE: Final = "kubernetes.io/change-cause"
ANNOTATION_CRON_JOB_SCHEDULED_TIME: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
ANNOTATION_DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
ANNOTATION_DEFAULT_STORAGE_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
ANNOTATION_DESCRIPTION: Final = "kubernetes.io/description"
ANNOTATION_DESIRED_REPLICAS: Final = "deployment.kubernetes.io/desired-replicas"
ANNOTATION_INGRESS_CLASS: Final = "kubernetes.io/ingress.class"
ANNOTATION_INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
ANNOTATION_JOB_COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
ANNOTATION_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
ANNOTATION_LAST_CHANGE_TRIGGER_TIME: Final = "endpoints.kubernetes.io/last-change-trigger-time"
ANNOTATION_LIMIT_RANGER: Final = "kubernetes.io/limit-ranger"
ANNOTATION_MAX_REPLICAS: Final = "deployment.kubernetes.io/max-replicas"
ANNOTATION_MIRROR_POD: Final = "kubernetes.io/config.mirror"
ANNOTATION_RBAC_AUTOUPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"
ANNOTATION_REVISION: Final = "deployment.kubernetes.io/revision"
ANNOTATION_REWRITE_TARGET: Final = "nginx.ingress.kubernetes.io/rewrite-target"
ANNOTATION_SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
ANNOTATION_SERVICE_ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"
ANNOTATION_SERVICE_ACCOUNT_UID: Final = "kubernetes.io/service-account.uid"

# ── annotations of the embedded plane ────────────────────────────────────────────────────
ANNOTATION_FAKE_SCRIPT: Final = "fake.manta.io/script"
"""On a Pod of a fake node: what its containers do."""
ANNOTATION_LOST_NODE: Final = "manta.dev/lost"
"""On a Node: `true` makes its agent fall silent, to test what a lost node causes."""

ANNOTATION_KEEP_VOLUME: Final = "manta.dev/keep-volume"
"""On a Pod: the name of an emptyDir that `manta up --history` keeps after the Pod is gone."""
ANNOTATION_POSTS_PORT: Final = "manta.dev/posts-port"
"""On such a Pod: the port of localhost where the node agent accepts POST requests of the Pod and keeps their bodies."""

GATEWAY_CONTROLLER: Final = "manta.dev/gateway"

# ── finalizers and taints ────────────────────────────────────────────────────────────────
FINALIZER_CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
FINALIZER_JOB_TRACKING: Final = "batch.kubernetes.io/job-tracking"
FINALIZER_POD_GROUP: Final = "scheduling.k8s.io/podgroup-protection"
"""Keeps a PodGroup of Kubernetes that is deleted while Pods name it."""
FINALIZER_VOLUME_PROTECTION: Final = "kubernetes.io/pv-protection"
TAINT_NOT_READY: Final = "node.kubernetes.io/not-ready"
TAINT_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
"""An administrator sets it to say that a Node is shut down."""
TAINT_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
TAINT_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"

# ── types of Secrets, and other names ────────────────────────────────────────────────────
SECRET_BASIC_AUTH: Final = "kubernetes.io/basic-auth"  # noqa: S105  a type, not a secret
SECRET_DOCKERCFG: Final = "kubernetes.io/dockercfg"  # noqa: S105
SECRET_DOCKER_CONFIG_JSON: Final = "kubernetes.io/dockerconfigjson"  # noqa: S105
SECRET_SERVICE_ACCOUNT_TOKEN: Final = "kubernetes.io/service-account-token"  # noqa: S105
SECRET_SSH_AUTH: Final = "kubernetes.io/ssh-auth"  # noqa: S105
SECRET_TLS: Final = "kubernetes.io/tls"  # noqa: S105
EXTENSION_EXEC_CONFIG: Final = "client.authentication.k8s.io/exec"
"""The extension of a cluster in a kubeconfig that configures exec plugins."""
EXTRA_POD_NAME: Final = "authentication.kubernetes.io/pod-name"
EXTRA_POD_UID: Final = "authentication.kubernetes.io/pod-uid"

# ── GPUs, as the device plugins of their vendors name them ───────────────────────────────
RESOURCE_AMD_GPU: Final = "amd.com/gpu"
RESOURCE_INTEL_I915: Final = "gpu.intel.com/i915"
RESOURCE_INTEL_XE: Final = "gpu.intel.com/xe"
RESOURCE_NVIDIA_GPU: Final = "nvidia.com/gpu"
RESOURCES_OF_GPUS: Final = frozenset(
    {RESOURCE_AMD_GPU, RESOURCE_INTEL_I915, RESOURCE_INTEL_XE, RESOURCE_NVIDIA_GPU}
)
