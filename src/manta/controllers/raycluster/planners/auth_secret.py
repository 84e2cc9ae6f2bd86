"""The Secret with the cluster's token.

The operator neither lists nor watches Secrets, so it needs no permission to read them. It tries to
create the Secret before it creates a head, and when a Pod waits for it because authentication was
turned on or the Secret was deleted. If the Secret exists, the creation leaves it as it is.
"""

from __future__ import annotations

from manta.api.core import Pod
from manta.api.ray import names
from manta.api.resources import SECRETS
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.auth import build_auth_secret
from manta.reconcile.actions import Create, OnExists
from manta.reconcile.plan import NOTHING, Plan, do
from manta.rules.pod_health import is_terminating
from manta.rules.traits import auth_secret_name, makes_auth_secret


def plan_auth_secret(snapshot: ClusterSnapshot) -> Plan:
    """Create the Secret before the head."""
    if not makes_auth_secret(snapshot.cluster.spec):
        return NOTHING
    return do(_creation(snapshot, Cause.AUTH_SECRET))


def plan_awaited_auth_secret(snapshot: ClusterSnapshot) -> Plan:
    """Create the Secret again while a head runs.

    The token is new, because nothing can read the old one from the head. Pods keep the token that they
    started with, so an Event tells the user; only the user can decide to replace the head.
    """
    if not makes_auth_secret(snapshot.cluster.spec):
        return NOTHING
    name = auth_secret_name(snapshot.cluster)
    awaiting = [pod for pod in snapshot.pods if not is_terminating(pod) and _awaits(pod, name)]
    heads = [pod for pod in snapshot.head_pods if not is_terminating(pod)]
    if not awaiting or not heads:
        return NOTHING
    if any(head in awaiting for head in heads):
        return do(_creation(snapshot, Cause.AUTH_SECRET), independent=True)
    why = (
        f"Pod {awaiting[0].metadata.name} waits for it. Its token is new: no Pod can join a head"
        " that runs with an earlier one, or without. Delete the head Pod, or put that token back"
    )
    return do(_creation(snapshot, Cause.AUTH_SECRET_AGAIN, why), independent=True)


def _creation(snapshot: ClusterSnapshot, cause: Cause, why: str = "") -> Create:
    manifest = build_auth_secret(snapshot.cluster)
    return Create(
        SECRETS,
        manifest,
        cause,
        why,
        secret_data=(names.SECRET_KEY_AUTH_TOKEN,),
        on_exists=OnExists.USE,
    )


def _awaits(pod: Pod, secret: str) -> bool:
    """Whether the kubelet says that the Secret does not exist. For a Secret without the key it says
    something else, and creating it would not help."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    waits = (one.state.waiting for one in statuses if one.state.waiting)
    return any("secret" in one.message and f'"{secret}" not found' in one.message for one in waits)
