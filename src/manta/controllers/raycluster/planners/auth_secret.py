"""The Secret with the cluster's token: made once, with a token that only the server ever sees."""

from __future__ import annotations

from manta.api.ray import names
from manta.api.resources import SECRETS
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.planners.ensure import ensure
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.auth import build_auth_secret
from manta.reconcile.plan import NOTHING, Plan
from manta.rules.traits import makes_auth_secret


def plan_auth_secret(seen: ClusterSnapshot) -> Plan:
    if not makes_auth_secret(seen.cluster.spec):
        return NOTHING
    manifest = build_auth_secret(seen.cluster)
    key = (names.SECRET_KEY_AUTH_TOKEN,)
    return ensure(seen, SECRETS, manifest, seen.auth_secret, Cause.AUTH_SECRET, secret_data=key)
