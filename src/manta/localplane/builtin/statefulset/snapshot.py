"""All that one reconcile of a StatefulSet may know."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from manta.api.revisions import ControllerRevision
from manta.localplane.builtin.owned_pods import is_available, selects
from manta.localplane.builtin.revisions import HASH_LABEL, revision_name
from manta.localplane.builtin.statefulset.identity import ordinal_of
from manta.localplane.builtin.views import Claim, Pod
from manta.localplane.builtin.workload_views import StatefulSet


@dataclass(frozen=True, slots=True)
class StatefulSetSnapshot:
    stateful_set: StatefulSet
    pods: tuple[Pod, ...]
    """The Pods that it controls."""
    orphans: tuple[Pod, ...]
    """Pods of the namespace without a controller."""
    revisions: tuple[ControllerRevision, ...]
    claims: tuple[Claim, ...]
    """The claims of the namespace."""
    now: datetime

    @property
    def members(self) -> dict[int, Pod]:
        """Own Pods that the selector matches, by ordinal."""
        found = {
            ordinal_of(self.stateful_set, pod): pod
            for pod in self.pods
            if selects(self.stateful_set, pod)
        }
        return {number: pod for number, pod in sorted(found.items()) if number >= 0}

    @property
    def update_revision(self) -> str:
        """The name of the revision of the present template."""
        return revision_name(self.stateful_set.metadata, self.stateful_set.spec.template)

    @property
    def current_revision(self) -> str:
        """The revision that Pods below the partition keep; the present one where it is lost."""
        current = self.stateful_set.status.current_revision
        known = {one.metadata.name for one in self.revisions}
        return current if current and current in known else self.update_revision

    def is_available(self, pod: Pod) -> bool:
        return is_running(pod) and is_available(
            pod, self.stateful_set.spec.min_ready_seconds, self.now
        )


def is_running(pod: Pod) -> bool:
    return pod.status.phase == "Running" and pod.is_ready


def revision_of_pod(pod: Pod) -> str:
    return pod.metadata.labels.get(HASH_LABEL, "")
