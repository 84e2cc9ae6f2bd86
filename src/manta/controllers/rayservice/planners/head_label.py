"""The serve label of the head Pod, which puts the head behind the serve Service."""

from __future__ import annotations

from manta.api.ray import names
from manta.api.resources import PODS
from manta.controllers.rayservice.events import Cause
from manta.controllers.rayservice.facts.serve import desired_serve, running_applications
from manta.controllers.rayservice.snapshot import ClusterView, DashboardReply, ServiceSnapshot
from manta.reconcile.actions import Patch
from manta.reconcile.plan import NOTHING, Plan, do
from manta.rules.pod_health import is_terminating


def plan_head_label(snapshot: ServiceSnapshot, view: ClusterView | None) -> Plan:
    """The head takes requests while its own Serve proxy is healthy (C53), unless the user forbids it."""
    if view is None or view.head_pod is None or is_terminating(view.head_pod):
        return NOTHING
    excluded = snapshot.spec.exclude_head_pod_from_serve_svc
    if not excluded and view.proxy_healthy is None:
        return NOTHING
    serves = not excluded and view.proxy_healthy is True and _has_something_to_serve(snapshot, view)
    wanted = names.SERVE_TRUE if serves else names.SERVE_FALSE
    meta = view.head_pod.metadata
    if meta.labels.get(names.LABEL_SERVE) == wanted:
        return NOTHING
    why = "its Serve proxy answers" if serves else "its Serve proxy does not answer"
    if excluded:
        why = "spec.excludeHeadPodFromServeSvc is set"
    body = {"metadata": {"labels": {names.LABEL_SERVE: wanted}}}
    return do(Patch(PODS, meta.key, body, Cause.HEAD_LABEL, why, uid=meta.uid), independent=True)


def _has_something_to_serve(snapshot: ServiceSnapshot, view: ClusterView) -> bool:
    """A proxy may be healthy before an application runs. A head with the label keeps it while its
    applications change, and loses it when it has lost them all."""
    assert view.head_pod is not None
    is_in_service = view.head_pod.metadata.labels.get(names.LABEL_SERVE) == names.SERVE_TRUE
    if not isinstance(view.answer, DashboardReply):
        return is_in_service
    known = set(view.answer.applications)
    # The config that another operator submitted is not recorded: then any application counts.
    wanted = set(desired_serve(snapshot, view).applications) or known
    return bool(wanted & (known if is_in_service else running_applications(view)))
