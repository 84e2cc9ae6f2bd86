"""What a cluster's Serve should run, what was submitted to it, and whether it can take traffic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from manta.api.ray.service import ApplicationStatusWord
from manta.controllers.rayservice.facts.clusters import (
    is_rolling_back,
    is_up_to_date,
    is_upgrade_due,
)
from manta.controllers.rayservice.facts.readiness import obstacle, waiting_for_serve
from manta.controllers.rayservice.snapshot import ClusterView, DashboardReply, ServiceSnapshot
from manta.controllers.rayservice.submissions import kept_config
from manta.rules.serve_config import application_names, config_hash, with_capacity


@dataclass(frozen=True, slots=True)
class DesiredServe:
    """The Serve config that one cluster should run."""

    config: Mapping[str, Any]
    percent: int | None = None
    """The target capacity; None: all, without naming it in the config."""

    @property
    def document(self) -> Mapping[str, Any]:
        """The config with its target capacity, as it is submitted."""
        return with_capacity(self.config, self.percent)

    @property
    def applications(self) -> tuple[str, ...]:
        return application_names(self.config)


def desired_serve(
    snapshot: ServiceSnapshot, view: ClusterView, percent: int | None = None
) -> DesiredServe:
    """The spec's config for the cluster that follows the spec; the other one keeps its config."""
    if _follows_spec(snapshot, view):
        return DesiredServe(snapshot.serve_config, percent)
    # If no config is recorded, only a change of capacity justifies the submission of a new one.
    unknown = snapshot.serve_config if snapshot.is_incremental else {}
    return DesiredServe(kept_config(view.submission) or unknown, percent)


def current_desired_serve(snapshot: ServiceSnapshot, view: ClusterView) -> DesiredServe:
    """The config with the target capacity of the status, while traffic is split."""
    status, percent = snapshot.status, None
    if snapshot.is_split:
        is_active = view is snapshot.active
        side = status.active_service_status if is_active else status.pending_service_status
        percent = side.target_capacity
    return desired_serve(snapshot, view, percent)


def _follows_spec(snapshot: ServiceSnapshot, view: ClusterView) -> bool:
    """Whether this cluster gets the current config. A cluster of another spec must not get it."""
    if view is snapshot.pending:
        return not is_rolling_back(snapshot)
    if snapshot.pending_name:
        return is_rolling_back(snapshot) and is_up_to_date(snapshot, view)
    return not is_upgrade_due(snapshot)


def is_submitted(view: ClusterView, desired: DesiredServe) -> bool:
    """Whether this config is recorded as submitted to the current head."""
    last, wanted = view.submission, config_hash(desired.document)
    return last is not None and (last.config_hash, last.head) == (wanted, view.head)


def can_submit(view: ClusterView) -> bool:
    ready = view.head_is_ready and not view.is_deleting
    return ready and isinstance(view.answer, DashboardReply)


def knows_any_application(view: ClusterView, desired: DesiredServe) -> bool:
    assert isinstance(view.answer, DashboardReply)
    return any(name in view.answer.applications for name in desired.applications)


def running_applications(view: ClusterView) -> set[str]:
    found = view.answer.applications if isinstance(view.answer, DashboardReply) else {}
    return {name for name, one in found.items() if one.status == ApplicationStatusWord.RUNNING}


def all_applications_running(view: ClusterView, desired: DesiredServe) -> bool:
    return bool(desired.applications) and set(desired.applications) <= running_applications(view)


def serving_obstacle(view: ClusterView, desired: DesiredServe, *, is_first: bool = False) -> str:
    """Why this cluster cannot take requests with this config; empty if it can."""
    found = obstacle(view, desired.applications, needs_ready_pod=not is_first)
    last = view.submission
    if last is None or not is_submitted(view, desired):
        return found or waiting_for_serve(view.name)
    again = last.resubmissions
    if again and can_submit(view) and not knows_any_application(view, desired):
        times = "once" if again == 1 else f"{again} times"
        return (
            f"Serve on RayCluster {view.name} accepts the config and knows none of its"
            f" applications; it was submitted again {times}, last at {last.submitted_time}"
        )
    return found
