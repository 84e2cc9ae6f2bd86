"""The Secret with the cluster's token: made once, with a token that only the server ever sees.

Secrets are neither listed nor watched, so that the operator needs no right to read all of them. A
head that is there was given its Secret first; before a head is made, creating the Secret finds out
whether there is one (that it exists already is fine).
"""

from __future__ import annotations

from manta.api.ray import names
from manta.api.resources import SECRETS
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.auth import build_auth_secret
from manta.reconcile.actions import Create
from manta.reconcile.plan import NOTHING, Plan, do
from manta.rules.traits import makes_auth_secret


def plan_auth_secret(seen: ClusterSnapshot) -> Plan:
    """What has to be there before a head is created."""
    if not makes_auth_secret(seen.cluster.spec):
        return NOTHING
    manifest = build_auth_secret(seen.cluster)
    key = (names.SECRET_KEY_AUTH_TOKEN,)
    return do(Create(SECRETS, manifest, Cause.AUTH_SECRET, secret_data=key))
