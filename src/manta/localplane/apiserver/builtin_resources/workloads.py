"""Pods, and the resources whose controllers run Pods."""

from __future__ import annotations

from typing import Any, Final, Unpack

from manta.localplane.apiserver.api_resources import ApiResource, Subresource
from manta.localplane.apiserver.builtin_kinds import preparation
from manta.localplane.apiserver.builtin_kinds.checks import cluster, pods, templates, workloads
from manta.localplane.apiserver.builtin_kinds.defaults import objects
from manta.localplane.apiserver.builtin_kinds.defaults import workloads as defaults
from manta.localplane.apiserver.builtin_kinds.defaults.pods import default_pod, default_template
from manta.localplane.apiserver.builtin_kinds.warnings import pod_warnings, template_warnings
from manta.localplane.apiserver.builtin_resources.registration import (
    ALL,
    ANY,
    CONNECT,
    SCALE,
    VIEW,
    VIEW_AND_EDIT,
    Options,
    builtin,
)
from manta.localplane.apiserver.tables import workloads as cells
from manta.localplane.apiserver.tables.columns import table
from manta.localplane.apiserver.tables.pods import pod_cells

_TEMPLATE: Final = ("spec", "template")
_REPLICAS: Final = table(
    "Name, Desired, Current, Ready:integer, Age, *Containers, *Images, *Selector",
    cells.replica_set_cells,
)
_JOB_WARNING: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background "
    "to remove them or set propagationPolicy=Orphan to suppress this warning"
)

POD: Final = builtin(
    "v1/pods",
    "Pod",
    set_defaults=default_pod,
    on_create=preparation.prepare_new_pod,
    on_update=preparation.prepare_changed_pod,
    check=pods.check_pod,
    subresource_checks={
        "ephemeralcontainers": pods.check_ephemeral_containers,
        "resize": pods.check_resize,
    },
    warn=pod_warnings,
    table=table(
        "Name, Ready, Status, Restarts, Age, *IP, *Node, *Nominated Node, *Readiness Gates",
        pod_cells,
    ),
    short_names=("po",),
    categories=ALL,
    fields=(
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    subresources=(
        Subresource("attach", "PodAttachOptions", CONNECT),
        Subresource("binding", "Binding", ("create",)),
        Subresource("ephemeralcontainers", "Pod"),
        Subresource("eviction", "Eviction", ("create",), "policy", "v1"),
        Subresource("exec", "PodExecOptions", CONNECT),
        Subresource("log", "Pod", ("get",)),
        Subresource("portforward", "PodPortForwardOptions", CONNECT),
        Subresource("proxy", "PodProxyOptions", ANY),
        Subresource("resize", "Pod"),
    ),
    status=True,
    generation=True,
    return_deleted_object=True,
    roles=VIEW_AND_EDIT,
)

POD_TEMPLATE: Final = builtin(
    "v1/podtemplates",
    "PodTemplate",
    set_defaults=default_template,
    check=templates.check_pod_template,
    pod_template=("template",),
    table=table("Name, Containers, Images, Pod Labels", cells.pod_template_cells),
    generation=True,
    return_deleted_object=True,
)

REPLICATION_CONTROLLER: Final = builtin(
    "v1/replicationcontrollers",
    "ReplicationController",
    set_defaults=defaults.default_replication_controller,
    check=templates.check_replication_controller,
    default_propagation="Orphan",
    pod_template=_TEMPLATE,
    selector_is_map=True,
    table=_REPLICAS,
    short_names=("rc",),
    categories=ALL,
    subresources=(SCALE,),
    status=True,
    generation=True,
    fields=("status.replicas",),
    roles=VIEW_AND_EDIT,
)


def _workload(path: str, kind: str, **options: Unpack[Options]) -> ApiResource:
    """A resource with a Pod template at `spec.template`."""
    shared: dict[str, Any] = {
        "warn": template_warnings,
        "pod_template": _TEMPLATE,
        "categories": ALL,
        "generation": True,
        "roles": VIEW_AND_EDIT,
    }
    return builtin(path, kind, status=True, **(shared | {**options}))


WORKLOADS: Final[tuple[ApiResource, ...]] = (
    builtin(
        "apps/v1/controllerrevisions",
        "ControllerRevision",
        check=templates.check_controller_revision,
        roles=VIEW,
    ),
    _workload(
        "apps/v1/daemonsets",
        "DaemonSet",
        set_defaults=defaults.default_daemon_set,
        on_update=preparation.prepare_changed_daemon_set,
        check=workloads.check_daemon_set,
        table=table(
            "Name, Desired, Current, Ready:integer, Up-to-date:integer, Available:integer, "
            "Node Selector, Age, *Containers, *Images, *Selector",
            cells.daemon_set_cells,
        ),
        short_names=("ds",),
    ),
    _workload(
        "apps/v1/deployments",
        "Deployment",
        set_defaults=defaults.default_deployment,
        check=workloads.check_deployment,
        annotations_count=True,
        table=table(
            "Name, Ready, Up-to-date, Available, Age, *Containers, *Images, *Selector",
            cells.deployment_cells,
        ),
        short_names=("deploy",),
        subresources=(SCALE,),
    ),
    _workload(
        "apps/v1/replicasets",
        "ReplicaSet",
        set_defaults=defaults.default_replica_set,
        check=workloads.check_replica_set,
        table=_REPLICAS,
        short_names=("rs",),
        subresources=(SCALE,),
    ),
    _workload(
        "apps/v1/statefulsets",
        "StatefulSet",
        set_defaults=defaults.default_stateful_set,
        check=workloads.check_stateful_set,
        table=table("Name, Ready, Age, *Containers, *Images", cells.stateful_set_cells),
        short_names=("sts",),
        subresources=(SCALE,),
    ),
    builtin(
        "batch/v1/cronjobs",
        "CronJob",
        set_defaults=defaults.default_cron_job,
        check=workloads.check_cron_job,
        pod_template=("spec", "jobTemplate", "spec", "template"),
        table=table(
            "Name, Schedule, Timezone, Suspend, Active, Last Schedule, Age, *Containers, "
            "*Images, *Selector",
            cells.cron_job_cells,
        ),
        short_names=("cj",),
        categories=ALL,
        status=True,
        generation=True,
        roles=VIEW_AND_EDIT,
    ),
    _workload(
        "batch/v1/jobs",
        "Job",
        set_defaults=defaults.default_job,
        on_create=preparation.prepare_new_job,
        check=workloads.check_job,
        default_propagation="Orphan",
        delete_warning=_JOB_WARNING,
        table=table(
            "Name, Status, Completions, Duration, Age, *Containers, *Images, *Selector",
            cells.job_cells,
        ),
        fields=("status.successful",),
    ),
    builtin(
        "autoscaling/v2/horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        set_defaults=objects.default_autoscaler,
        check=cluster.check_autoscaler,
        table=table(
            "Name, Reference, Targets, MinPods, MaxPods, Replicas, Age", cells.autoscaler_cells
        ),
        short_names=("hpa",),
        categories=ALL,
        status=True,
        roles=VIEW_AND_EDIT,
    ),
)
