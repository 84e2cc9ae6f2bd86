"""What was submitted to a cluster's Serve, as recorded in the RayService's status.

Ray keeps no config in a form that can be compared, and forgets its applications with its head unless
the GCS is fault tolerant. The record therefore holds the hash of the config, the head that has it, and
the config itself, so that a new head gets back what the lost one had. It is part of the RayService's
status: the RayCluster stays untouched when only Serve's config changes.

Records are kept in memory too. A status write may be refused, and a CRD of KubeRay's drops the field:
after a restart of the operator, or when another replica leads, the config is then submitted once more,
as KubeRay does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from manta.api.documents import limits
from manta.api.documents.reader import read_json
from manta.api.meta import Key
from manta.api.ray.cluster import RayCluster
from manta.api.ray.service import RayServiceStatus, RayServiceStatuses, ServeSubmission

SUBMITTED: Final = "manta.ray.io/serve-config"
"""Annotation of a RayCluster, read and removed: `<hash>@<head>[+1]`, as earlier versions wrote it."""

SUBMITTED_DOCUMENT: Final = "manta.ray.io/serve-config-document"
"""Annotation of a RayCluster, read and removed: that config itself."""

LONGEST_CONFIG: Final = 128 * 1024
"""A longer one is submitted, and not kept for a head that loses it."""


def config_text(config: Mapping[str, Any]) -> str:
    """The config as it is kept; empty where it is too long."""
    text = msgspec.json.encode(config).decode()
    return text if len(text) <= LONGEST_CONFIG else ""


def kept_config(submission: ServeSubmission | None) -> Mapping[str, Any] | None:
    """The config that was submitted; None where it was not kept, or cannot be read."""
    if submission is None or not submission.config:
        return None
    try:
        found = read_json(submission.config, limits.FIELD)
    except limits.DocumentError:
        return None
    return found if isinstance(found, dict) else None


def recorded(side: RayServiceStatus, cluster: RayCluster) -> ServeSubmission | None:
    """What this cluster was given last, by the status or by annotations of earlier versions."""
    if side.serve_submission is not None:
        return side.serve_submission
    annotations = cluster.metadata.annotations
    hash_, found, head = annotations.get(SUBMITTED, "").partition("@")
    if not found:
        return None
    config = annotations.get(SUBMITTED_DOCUMENT, "")
    return ServeSubmission(config_hash=hash_, head=head.partition("+")[0], config=config)


class SubmissionMemory:
    """What this process has submitted itself."""

    def __init__(self) -> None:
        self._last: dict[Key, dict[str, ServeSubmission]] = {}
        self._written: dict[Key, frozenset[str]] = {}

    def keep(self, service: Key, cluster: str, submission: ServeSubmission) -> None:
        self._last.setdefault(service, {})[cluster] = submission

    def latest(
        self, service: Key, cluster: str, by_status: ServeSubmission | None
    ) -> ServeSubmission | None:
        """The later of ours and of what the status says, which another replica may have written."""
        own = self._last.get(service, {}).get(cluster)
        if own is None or by_status is None:
            return own or by_status
        return own if (own.submitted_time or "") >= (by_status.submitted_time or "") else by_status

    def clear(self) -> None:
        """Another replica leads: what it submits is unknown here."""
        self._last.clear()
        self._written.clear()

    def keep_only(self, service: Key, clusters: Collection[str]) -> None:
        known = self._last.pop(service, {})
        if left := {name: one for name, one in known.items() if name in clusters}:
            self._last[service] = left
        if not clusters:
            self._written.pop(service, None)

    # ── a CRD that does not know the field ───────────────────────────────────────────────

    def wrote(self, service: Key, status: RayServiceStatuses) -> None:
        """The server took this status."""
        sides = (status.active_service_status, status.pending_service_status)
        for one in sides:
            if one.serve_submission is not None:
                self.keep(service, one.ray_cluster_name, one.serve_submission)
                known = self._written.get(service, frozenset())
                self._written[service] = known | {one.ray_cluster_name}

    def is_dropped(self, service: Key, status: RayServiceStatuses) -> bool:
        """Was a record written that the status does not show? Then it is not written again."""
        written = self._written.get(service, frozenset())
        sides = (status.active_service_status, status.pending_service_status)
        return any(one.serve_submission is None for one in sides if one.ray_cluster_name in written)
