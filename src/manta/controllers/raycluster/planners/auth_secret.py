"""The Secret with the cluster's token: made with a token that only the server ever sees, and kept.

Secrets are neither listed nor watched, so that the operator needs no right to read all of them.
It is looked for when there is need of it: before a head is made, and when a Pod says that it waits
for it, because authentication was turned on or the Secret was deleted under a living head. To
create it finds out whether it is there (then it stays as it is); a cluster at rest costs nothing.
"""

from __future__ import annotations

from manta.api.core import Pod
from manta.api.ray import names
from manta.api.resources import SECRETS
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.auth import build_auth_secret
from manta.reconcile.actions import Create
from manta.reconcile.plan import NOTHING, Plan, do
from manta.rules.pod_health import is_terminating
from manta.rules.traits import auth_secret_name, makes_auth_secret


def plan_auth_secret(seen: ClusterSnapshot) -> Plan:
    """What has to be there before a head is created."""
    if not makes_auth_secret(seen.cluster.spec):
        return NOTHING
    return do(_creation(seen, Cause.AUTH_SECRET))


def plan_awaited_auth_secret(seen: ClusterSnapshot) -> Plan:
    """Beside a living head: one that is yet to come brings the Secret along.

    The token is a new one, for nobody can read the old one out of the head. That is told, because
    Pods keep the token that they started with; to replace the head is not for us to decide.
    """
    if not makes_auth_secret(seen.cluster.spec):
        return NOTHING
    name = auth_secret_name(seen.cluster)
    awaiting = [pod for pod in seen.pods if not is_terminating(pod) and _awaits(pod, name)]
    heads = [pod for pod in seen.head_pods if not is_terminating(pod)]
    if not awaiting or not heads:
        return NOTHING
    if any(head in awaiting for head in heads):
        return do(_creation(seen, Cause.AUTH_SECRET), independent=True)
    why = (
        f"Pod {awaiting[0].metadata.name} waits for it. Its token is new: no Pod can join a head"
        " that runs with an earlier one, or without. Delete the head Pod, or put that token back"
    )
    return do(_creation(seen, Cause.AUTH_SECRET_ANEW, why), independent=True)


def _creation(seen: ClusterSnapshot, cause: Cause, why: str = "") -> Create:
    manifest = build_auth_secret(seen.cluster)
    return Create(SECRETS, manifest, cause, why, secret_data=(names.SECRET_KEY_AUTH_TOKEN,))


def _awaits(pod: Pod, secret: str) -> bool:
    """As kubelets say it. A Secret that is there and lacks the key is told in other words: to
    create it would not help."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    waits = (one.state.waiting for one in statuses if one.state.waiting)
    return any("secret" in one.message and f'"{secret}" not found' in one.message for one in waits)
