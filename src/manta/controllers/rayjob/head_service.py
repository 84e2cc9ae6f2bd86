"""`<rayjob>-head-svc`: a stable name for the head of the attempt that runs. Nothing depends on it."""

from __future__ import annotations

from manta.api.core import Service
from manta.api.ray.cluster import RayCluster
from manta.api.resources import SERVICES
from manta.controllers.rayjob.events import Cause
from manta.controllers.rayjob.facts import ACTIVE
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.manifests.containers import Json
from manta.manifests.job_cluster import build_job_head_service
from manta.manifests.propagated_metadata import annotation_changes
from manta.manifests.service_changes import spec_changes
from manta.reconcile.actions import Create, Delete, Patch
from manta.reconcile.plan import NOTHING, Plan, do


def plan_head_service(snapshot: JobSnapshot) -> Plan:
    """Point it at the cluster of this attempt. A borrowed cluster has a head Service of its own, so it gets none."""
    cluster, live = snapshot.cluster, snapshot.job_head_service
    deleted = snapshot.job.metadata.deletion_timestamp is not None
    if snapshot.stage not in ACTIVE or snapshot.violations or deleted:
        return NOTHING
    if cluster is None or snapshot.borrows_cluster:
        return NOTHING
    wanted = build_job_head_service(snapshot.job, cluster, snapshot.settings, snapshot.head_pod)
    if live is None:
        return do(Create(SERVICES, wanted, Cause.HEAD_SERVICE), independent=True)
    if not snapshot.owns(live.metadata):  # a RayCluster has the name of the RayJob
        why = f"Service {live.metadata.name} belongs to another owner and is left alone"
        return Plan(notes=(why,))
    if live.headless != (wanted["spec"].get("clusterIP") == "None"):
        return _replace(live)
    return _correct(live, wanted, cluster)


def _replace(live: Service) -> Plan:
    """Kubernetes does not change whether a Service is headless: delete it, and create it again when it is gone."""
    meta = live.metadata
    if meta.deletion_timestamp is not None:
        return NOTHING
    why = "it must be created again to become headless, or not headless"
    return do(
        Delete(SERVICES, meta.key, meta.uid, Cause.DELETE_HEAD_SERVICE, why), independent=True
    )


def _correct(live: Service, wanted: Json, cluster: RayCluster) -> Plan:
    meta = live.metadata
    body: Json = {}
    if change := spec_changes(live, wanted["spec"]):
        body["spec"] = change
    annotations = wanted["metadata"].get("annotations") or {}
    if changes := annotation_changes(meta.annotations, annotations):
        body["metadata"] = {"annotations": changes}
    if not body:
        return NOTHING
    what = ", ".join(sorted(change)) or "annotations"
    moves = "selector" in change
    name = cluster.metadata.name
    why = f"it now selects RayCluster {name}" if moves else f"RayCluster {name} changes its {what}"
    patch = Patch(SERVICES, meta.key, body, Cause.HEAD_SERVICE_DRIFT, why, uid=meta.uid)
    return do(patch, independent=True)
