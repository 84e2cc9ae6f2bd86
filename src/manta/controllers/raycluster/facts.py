"""What is true of a RayCluster: predicates that planners, status and Events share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Final, Protocol

import msgspec

from manta.api.certificates import Certificate
from manta.api.core import Pod
from manta.api.meta import ObjectMeta
from manta.api.networking import NetworkPolicy
from manta.api.quantity import Quantity
from manta.api.ray import names
from manta.api.ray.cluster import ClusterConditionType, ClusterUpgradeType, RayCluster
from manta.api.times import parse_time
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.certificates import certificate_name
from manta.manifests.gcs_fault_tolerance import build_claim, claim_is_the_users
from manta.manifests.network_policy import build_network_policies
from manta.reconcile.actions import Manifest
from manta.rules.pod_health import (
    Phase,
    is_ready,
    is_ready_but_for,
    is_terminating,
    was_never_begun,
)
from manta.rules.rolling_update import rolling_update
from manta.rules.running_head import as_it_runs
from manta.rules.scaling import desired_pods
from manta.rules.spec_hash import spec_hash
from manta.rules.traits import (
    StorageBackend,
    autoscaling,
    names_own_service_account,
    service_account_name,
    storage_backend,
    tls,
)

DELETION_GRACE: Final = timedelta(seconds=30)
"""How long after its grace period a Pod is still expected to disappear by itself."""
EXPIRES_SOON: Final = timedelta(hours=24)


class HasMetadata(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


def is_ours(snapshot: ClusterSnapshot, live: HasMetadata) -> bool:
    owner = live.metadata.controller
    return owner is not None and owner.uid == snapshot.cluster.metadata.uid


# ── Pods ─────────────────────────────────────────────────────────────────────────────────


def all_pods_ready(snapshot: ClusterSnapshot) -> bool:
    """The head and all wanted workers exist and are ready, and there is no other Pod, but for workers that only the
    autoscaler may take away. A head whose submitter has ended well counts as ready: it is all that it will be, and
    the last worker may come after that."""
    pods = [pod for pod in snapshot.pods if not lost_because(snapshot, pod)]
    wanted = 1
    for group in snapshot.cluster.spec.worker_group_specs:
        workers = snapshot.workers_by_group.get(group.group_name, ())
        there = sum(not lost_because(snapshot, pod) for pod in workers)
        least = desired_pods(group)
        if there < least:
            return False
        keeps_all = not group.suspend and not may_choose_pods(snapshot)
        wanted += there if keeps_all else least
    return len(pods) == wanted and all(_is_ready(snapshot, pod) for pod in pods)


def _is_ready(snapshot: ClusterSnapshot, pod: Pod) -> bool:
    beside = names.CONTAINER_SUBMITTER if snapshot.submits_beside_head else ""
    return is_ready(pod) or is_ready_but_for(pod, beside)


def still_counts(snapshot: ClusterSnapshot, pod: Pod) -> bool:
    """True for a Pod that is not being deleted, or not for longer than expected.

    A terminating Pod counts until it is gone, so that a cluster never has more Pods than it asked
    for; but a Pod that does not disappear does not count for ever.
    """
    gone_by = pod.metadata.deletion_timestamp
    return gone_by is None or snapshot.now < parse_time(gone_by) + DELETION_GRACE


def is_stuck(snapshot: ClusterSnapshot, pod: Pod) -> bool:
    return is_terminating(pod) and not still_counts(snapshot, pod)


def lost_because(snapshot: ClusterSnapshot, pod: Pod) -> str:
    """Why a stuck Pod is known not to run; empty when it may run.

    A Node that does not answer is no proof: its containers may continue, and a second head beside
    them would split the cluster.
    """
    if not is_stuck(snapshot, pod):
        return ""
    if pod.status.phase in (Phase.FAILED, Phase.SUCCEEDED):
        return "its containers have ended"
    if not pod.spec.node_name:
        return "it never had a Node"
    return snapshot.lost_nodes.get(pod.spec.node_name, "")


# ── the head ─────────────────────────────────────────────────────────────────────────────


def allows_no_next_head(snapshot: ClusterSnapshot) -> bool:
    """Whether no head may be created after the one that the cluster has, or had: the user said so."""
    text = snapshot.cluster.metadata.annotations.get(names.ANNOTATION_DISABLE_HEAD_RESTART)
    had_one = snapshot.submits_beside_head and bool(snapshot.cluster.status.head.pod_name)
    return text == "true" and (snapshot.condition(ClusterConditionType.PROVISIONED) or had_one)


def submitted_nothing(snapshot: ClusterSnapshot, head: Pod) -> bool:
    """Whether this head with a submitter beside it failed before it ran, so that another may follow."""
    known = known_address(snapshot, head)
    return snapshot.submits_beside_head and was_never_begun(head, known)


def known_address(snapshot: ClusterSnapshot, head: Pod) -> str:
    """The address of this head in the status of its RayCluster: it outlives the Pod's own."""
    known = snapshot.cluster.status.head
    return known.pod_ip if known.pod_name == head.metadata.name else ""


# ── worker groups ────────────────────────────────────────────────────────────────────────


def may_choose_pods(snapshot: ClusterSnapshot) -> bool:
    """With the autoscaler on, only the autoscaler knows which workers are idle (C05)."""
    return not autoscaling(snapshot.cluster.spec) or snapshot.settings.random_pod_delete


def has_further_hosts(pods: Iterable[Pod]) -> bool:
    """Whether a Pod is the second or a later host of a replica: the group had `numOfHosts`."""
    return any(pod.metadata.labels.get(names.LABEL_HOST_INDEX, "0") != "0" for pod in pods)


def by_replica(pods: Iterable[Pod], size: int) -> dict[str, tuple[Pod, ...]]:
    """Pods by replica. Pods of an older operator have no label: group them by age, so that they are
    not created again (C93)."""
    replicas: dict[str, list[Pod]] = {}
    for pod in pods:
        name = pod.metadata.labels.get(names.LABEL_REPLICA_NAME, "")
        replicas.setdefault(name, []).append(pod)
    older = sorted(replicas.pop("", []), key=lambda pod: pod.metadata.creation_timestamp)
    for start in range(0, len(older), size):
        replicas[f"{older[start].metadata.name} and its peers"] = older[start : start + size]
    return {name: tuple(members) for name, members in replicas.items()}


def awaits_fewer_hosts(snapshot: ClusterSnapshot) -> bool:
    """An edit removed `numOfHosts`, and Pods of those hosts still exist. As with a recreation, the
    generation does not count as observed before they are gone."""
    if not snapshot.is_edited or not may_choose_pods(snapshot):
        return False
    for group in snapshot.cluster.spec.worker_group_specs:
        pods = snapshot.workers_by_group.get(group.group_name, ())
        living = [pod for pod in pods if not is_terminating(pod)]
        is_single = group.num_of_hosts <= 1 and not group.suspend
        if is_single and len(living) > desired_pods(group) and has_further_hosts(living):
            return True
    return False


# ── recreation ───────────────────────────────────────────────────────────────────────────


def recreates(snapshot: ClusterSnapshot) -> bool:
    strategy = snapshot.cluster.spec.upgrade_strategy
    return strategy is not None and strategy.type == ClusterUpgradeType.RECREATE


def head_to_compare(snapshot: ClusterSnapshot) -> Pod | None:
    """The head whose spec decides about a recreation, if the upgrade strategy recreates."""
    if not recreates(snapshot):
        return None
    return next((pod for pod in snapshot.head_pods if not is_terminating(pod)), None)


def is_of_another_version(snapshot: ClusterSnapshot, head: Pod) -> bool:
    version = head.metadata.annotations.get(names.ANNOTATION_OPERATOR_VERSION, "")
    return bool(version) and version != snapshot.settings.version


def has_another_spec(snapshot: ClusterSnapshot, head: Pod) -> bool:
    known = head.metadata.annotations.get(names.ANNOTATION_RECREATE_HASH, "")
    return bool(known) and known != spec_hash(snapshot.cluster.spec)


def awaits_recreation(snapshot: ClusterSnapshot) -> bool:
    """The head was created from an earlier spec and has to be replaced. Until it is gone, this
    generation does not count as observed; otherwise a failed deletion would not be retried."""
    head = head_to_compare(snapshot)
    if head is None or is_of_another_version(snapshot, head):
        return False
    return has_another_spec(snapshot, head) and snapshot.is_edited


# ── rolling update ───────────────────────────────────────────────────────────────────────


def cluster_of_new_pods(snapshot: ClusterSnapshot) -> RayCluster:
    """What new Pods are built from. After a rolling update failed, it is an earlier spec than the live one."""
    rollout = snapshot.rollout
    if rollout is None or rollout.revisions.spec is snapshot.cluster.spec:
        return snapshot.cluster
    return msgspec.structs.replace(snapshot.cluster, spec=rollout.revisions.spec)


def cluster_of_new_workers(snapshot: ClusterSnapshot) -> RayCluster:
    """What new workers are built from: they join the head that runs, as it was started, or the next one."""
    head = snapshot.head
    cluster = cluster_of_new_pods(snapshot)
    return cluster if head is None or is_terminating(head) else as_it_runs(cluster, head)


def revision_of_new_pods(snapshot: ClusterSnapshot) -> dict[str, str]:
    """The annotation that names their revision; none without a rolling update."""
    rollout = snapshot.rollout
    return {names.ANNOTATION_POD_REVISION: rollout.revisions.name} if rollout is not None else {}


def awaits_revision(snapshot: ClusterSnapshot) -> bool:
    """An edit does not count as observed before its revision is recorded: only the generation tells an edit
    from fields that an older CRD prunes."""
    if not snapshot.is_edited or rolling_update(snapshot.cluster) is None:
        return False
    rollout = snapshot.rollout
    return rollout is None or rollout.revisions.target is None


# ── related objects ──────────────────────────────────────────────────────────────────────


def missing_account(snapshot: ClusterSnapshot) -> str:
    """The ServiceAccount that the spec names and that does not exist; empty if it does."""
    named = autoscaling(snapshot.cluster.spec) and names_own_service_account(snapshot.cluster)
    if named and snapshot.service_account is None:
        return service_account_name(snapshot.cluster)
    return ""


def wanted_policies(snapshot: ClusterSnapshot) -> list[Manifest]:
    return [*build_network_policies(snapshot.cluster, snapshot.settings, snapshot.head)]


def stale_policies(snapshot: ClusterSnapshot) -> list[NetworkPolicy]:
    wanted = {one["metadata"]["name"] for one in wanted_policies(snapshot)}
    policies = snapshot.network_policies
    return [one for one in policies if one.metadata.name not in wanted and is_ours(snapshot, one)]


def awaits_fewer_policies(snapshot: ClusterSnapshot) -> bool:
    """As with a recreation, an edit does not count as observed before they are gone."""
    gate = snapshot.settings.gates.ray_cluster_network_policy
    return gate and snapshot.is_edited and bool(stale_policies(snapshot))


def missing_certificates(snapshot: ClusterSnapshot) -> str:
    """The certificate that is not issued yet, and what cert-manager says about it."""
    for name, live in _leaves(snapshot):
        if live is None or not live.has_been_issued:
            message = live.trouble if live else ""
            return f"certificate {name} is not issued yet{': ' if message else ''}{message}"
    return ""


def outdated_certificates(snapshot: ClusterSnapshot) -> str:
    """The certificate whose latest change is not issued yet: a Pod waits for it."""
    for name, live in _leaves(snapshot):
        if live is not None and live.has_been_issued and not live.is_current:
            message = live.trouble or "cert-manager has not processed it"
            return f"certificate {name} is not re-issued yet: {message}"
    return ""


def expiring_certificates(snapshot: ClusterSnapshot) -> str:
    for name, live in _leaves(snapshot):
        end = live.status.not_after if live else None
        if end and parse_time(end) - snapshot.now < EXPIRES_SOON:
            return f"certificate {name} expires at {end} and has not been renewed"
    return ""


def _leaves(snapshot: ClusterSnapshot) -> Iterator[tuple[str, Certificate | None]]:
    if not tls(snapshot.cluster.spec):
        return
    for head in (True, False):
        name = certificate_name(snapshot.cluster, head=head)
        yield name, snapshot.certificates.get(name)


def claim_drift(snapshot: ClusterSnapshot) -> str:
    """How an existing claim differs from the spec in immutable fields; empty if it does not."""
    if storage_backend(snapshot.cluster) is not StorageBackend.ROCKSDB:
        return ""
    claim, users = snapshot.gcs_claim, claim_is_the_users(snapshot.cluster)
    wanted = build_claim(snapshot.cluster)
    name = wanted["metadata"]["name"]
    if claim is None:
        return f"claim {name} does not exist: create it" if users else ""
    if users:
        return ""
    spec = wanted["spec"]
    differs = []
    size = Quantity.parse(spec["resources"]["requests"]["storage"])
    if size != Quantity.parse(claim.spec.resources.requests.get("storage", "0")):
        differs.append("size")
    if spec.get("storageClassName", claim.spec.storage_class_name) != claim.spec.storage_class_name:
        differs.append("storageClassName")
    if tuple(spec["accessModes"]) != claim.spec.access_modes:
        differs.append("accessModes")
    if not differs:
        return ""
    return f"claim {name} already exists with another {', '.join(differs)}, and stays as it is"
