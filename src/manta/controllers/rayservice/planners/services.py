"""The Services with stable names: created when a cluster can serve, and switched to the next one.

The serve Service decides which cluster serves. It is written first, and a failure of the head Service
does not delay it (C47). The cluster IP of a serve Service never changes.
"""

from __future__ import annotations

from manta.api.core import Service
from manta.api.ray import names
from manta.api.resources import SERVICES
from manta.controllers.rayservice.events import Cause
from manta.controllers.rayservice.snapshot import ClusterView, ServiceSnapshot
from manta.controllers.rayservice.status_changes import ServiceStep, promoted
from manta.manifests.containers import Json
from manta.manifests.propagated_metadata import annotation_changes
from manta.manifests.serve_services import (
    build_cluster_serve_service,
    build_serve_service,
    build_service_head_service,
    build_shared_serve_service,
)
from manta.manifests.service_changes import spec_changes
from manta.reconcile.actions import Action, Create, Delete, Patch
from manta.reconcile.plan import NOTHING, Plan, do
from manta.reconcile.step import Step, change_status_after


def plan_services(snapshot: ServiceSnapshot, target: ClusterView | None) -> ServiceStep:
    """Make both Services select `target`. A pending cluster that they select is promoted."""
    if target is None:
        return Step()
    wanted = build_serve_service(snapshot.service, target.cluster, target.head_pod)
    serve = ensure_service(snapshot.serve_service, wanted)
    plan = _independent(serve).then(plan_head_service(snapshot, target))
    plan = plan.then(_renamed_services(snapshot))
    if target is not snapshot.pending:
        return Step(plan)
    return change_status_after(plan, promoted, requires=(serve,) if serve else ())


def plan_head_service(snapshot: ServiceSnapshot, target: ClusterView) -> Plan:
    wanted = build_service_head_service(
        snapshot.service, target.cluster, snapshot.settings, target.head_pod
    )
    has = snapshot.head_service
    if has is not None and has.headless != (wanted["spec"].get("clusterIP") == "None"):
        return _independent(_replaced(has))
    return _independent(ensure_service(has, wanted))


def _replaced(has: Service) -> Action | None:
    """Kubernetes does not change whether a Service is headless: delete it, and create it again when it
    is gone. Only users and dashboards use this Service, by its name."""
    if has.metadata.deletion_timestamp is not None:
        return None
    why = "it must be created again to become headless, or not headless"
    return Delete(SERVICES, has.metadata.key, has.metadata.uid, Cause.DELETE_SERVICE, why)


def plan_cluster_serve_service(snapshot: ServiceSnapshot, view: ClusterView) -> Plan:
    """The serve Service of one cluster, which an HTTPRoute gives a weight."""
    wanted = build_cluster_serve_service(snapshot.service, view.cluster, view.head_pod)
    return _independent(ensure_service(view.serve_service, wanted))


def plan_stable_serve_service(snapshot: ServiceSnapshot, target: ClusterView) -> Plan:
    """While traffic is split the stable Service is not created; an existing one is kept up to date."""
    if snapshot.serve_service is None:
        return NOTHING
    wanted = build_serve_service(snapshot.service, target.cluster, target.head_pod)
    return _independent(ensure_service(snapshot.serve_service, wanted))


def plan_shared_serve_service(snapshot: ServiceSnapshot, active: ClusterView) -> Plan:
    """During a canary: it selects the Pods of both clusters that have the serving label."""
    wanted = build_shared_serve_service(snapshot.service, active.cluster, active.head_pod)
    return _independent(ensure_service(snapshot.serve_service, wanted))


def ensure_service(has: Service | None, wanted: Json) -> Action | None:
    """Create the Service, or patch what differs; None if nothing does."""
    if has is None:
        return Create(SERVICES, wanted, Cause.CREATE_SERVICE)
    change, meta = spec_changes(has, wanted["spec"]), has.metadata
    labels = wanted["metadata"]["labels"]
    annotations = annotation_changes(meta.annotations, wanted["metadata"].get("annotations") or {})
    if not change and not annotations and labels.items() <= meta.labels.items():
        return None
    body: Json = {"metadata": {"labels": labels}}
    body["metadata"] |= {"annotations": annotations} if annotations else {}
    body |= {"spec": change} if change else {}
    target = wanted["spec"]["selector"].get(names.LABEL_CLUSTER, "")
    why = (
        f"it now selects RayCluster {target}" if target else "it now selects Pods of both clusters"
    )
    if "selector" not in change:
        what = ", ".join(sorted({*change, *annotations})) or "labels"
        why = f"the spec changes its {what}"
    return Patch(SERVICES, meta.key, body, Cause.UPDATE_SERVICE, why, uid=meta.uid)


def _renamed_services(snapshot: ServiceSnapshot) -> Plan:
    """Delete serve Services under a name that the spec no longer uses."""
    if snapshot.serve_service is None:
        return NOTHING
    actions = [
        Delete(SERVICES, one.metadata.key, one.metadata.uid, Cause.DELETE_SERVICE, "it was renamed")
        for one in snapshot.own_services
        if names.LABEL_SERVE in one.metadata.labels
        and one.metadata.uid != snapshot.serve_service.metadata.uid
        and one.metadata.deletion_timestamp is None
    ]
    return do(*actions, independent=True)


def _independent(action: Action | None) -> Plan:
    return do(action, independent=True) if action else NOTHING
