"""Records of the Serve configs that were submitted, in the status of the RayService.

Ray returns no config that can be compared, and loses its applications with its head unless the GCS is
fault tolerant. So a record holds the hash of the config, its head, and the config itself, which a new
head gets again. The record is in the RayService, so that the RayCluster does not change with the config.

Records are kept in memory too: KubeRay's CRD drops the field. There the config is submitted once more
after a restart of the operator or a change of the leader, as KubeRay does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from manta.api.documents import limits
from manta.api.documents.reader import read_json
from manta.api.meta import Key
from manta.api.ray.cluster import RayCluster
from manta.api.ray.names import ANNOTATION_SERVE_CONFIG, ANNOTATION_SERVE_CONFIG_DOCUMENT
from manta.api.ray.service import RayServiceStatus, RayServiceStatuses, ServeSubmission

MAX_CONFIG: Final = 128 * 1024
"""Characters. A longer config is submitted but not recorded, so a new head does not get it back."""


def config_text(config: Mapping[str, Any]) -> str:
    """The config as it is recorded; empty if it is too long."""
    text = msgspec.json.encode(config).decode()
    return text if len(text) <= MAX_CONFIG else ""


def kept_config(submission: ServeSubmission | None) -> Mapping[str, Any] | None:
    """The submitted config; None if it was not recorded or cannot be read."""
    if submission is None or not submission.config:
        return None
    try:
        found = read_json(submission.config, limits.FIELD)
    except limits.DocumentError:
        return None
    return found if isinstance(found, dict) else None


def recorded(side: RayServiceStatus, cluster: RayCluster) -> ServeSubmission | None:
    """The last submission to this cluster, from the status or from annotations of earlier versions."""
    if side.serve_submission is not None:
        return side.serve_submission
    annotations = cluster.metadata.annotations
    hash_, found, head = annotations.get(ANNOTATION_SERVE_CONFIG, "").partition("@")
    if not found:
        return None
    config = annotations.get(ANNOTATION_SERVE_CONFIG_DOCUMENT, "")
    return ServeSubmission(config_hash=hash_, head=head.partition("+")[0], config=config)


class SubmissionMemory:
    """The submissions of this process."""

    def __init__(self) -> None:
        self._last: dict[Key, dict[str, ServeSubmission]] = {}
        self._written: dict[Key, frozenset[str]] = {}

    def keep(self, service: Key, cluster: str, submission: ServeSubmission) -> None:
        self._last.setdefault(service, {})[cluster] = submission

    def latest(
        self, service: Key, cluster: str, by_status: ServeSubmission | None
    ) -> ServeSubmission | None:
        """The later of ours and of the one in the status, which another replica may have written."""
        own = self._last.get(service, {}).get(cluster)
        if own is None or by_status is None:
            return own or by_status
        return own if (own.submitted_time or "") >= (by_status.submitted_time or "") else by_status

    def clear(self) -> None:
        """Forget all: another replica leads, and its submissions are unknown here."""
        self._last.clear()
        self._written.clear()

    def keep_only(self, service: Key, clusters: Collection[str]) -> None:
        known = self._last.pop(service, {})
        if left := {name: one for name, one in known.items() if name in clusters}:
            self._last[service] = left
        if not clusters:
            self._written.pop(service, None)

    # ── a CRD that drops the field ───────────────────────────────────────────────────────

    def wrote(self, service: Key, status: RayServiceStatuses) -> None:
        """Remember a status that the API server accepted."""
        sides = (status.active_service_status, status.pending_service_status)
        for one in sides:
            if one.serve_submission is not None:
                self.keep(service, one.ray_cluster_name, one.serve_submission)
                known = self._written.get(service, frozenset())
                self._written[service] = known | {one.ray_cluster_name}

    def is_dropped(self, service: Key, status: RayServiceStatuses) -> bool:
        """Whether a written record is missing in the status: then it is not written again."""
        written = self._written.get(service, frozenset())
        sides = (status.active_service_status, status.pending_service_status)
        return any(one.serve_submission is None for one in sides if one.ray_cluster_name in written)
