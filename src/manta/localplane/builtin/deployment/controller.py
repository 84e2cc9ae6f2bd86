"""The Deployment controller tied to the API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from manta.api.meta import Key, ObjectMeta, View
from manta.api.resources import DEPLOYMENTS, REPLICA_SETS, Resource
from manta.localplane.builtin.deployment.events import EVENTS
from manta.localplane.builtin.deployment.plan import plan
from manta.localplane.builtin.deployment.snapshot import DeploymentSnapshot
from manta.localplane.builtin.deployment.status import next_status
from manta.localplane.builtin.shell import Builtin
from manta.localplane.builtin.views import Deployment, ReplicaSet
from manta.reconcile.outcome import Outcome
from manta.reconcile.plan import Plan
from manta.runtime.controller import Watch, own_key, owner_keys


class DeploymentController(Builtin[DeploymentSnapshot]):
    name = "deployment-controller"
    events = EVENTS

    def watches(self) -> Sequence[Watch[Any]]:
        self._deployments = self.manager.informer(DEPLOYMENTS, Deployment)
        self._sets = self.manager.informer(
            REPLICA_SETS, ReplicaSet, indexes={"controller": _controller_uid}
        )
        owned = owner_keys(DEPLOYMENTS.kind, DEPLOYMENTS.group)
        return Watch(self._deployments, own_key), Watch(self._sets, owned)

    async def observe(self, key: Key) -> DeploymentSnapshot | None:
        deployment = self._deployments.get(key)
        if deployment is None:
            return None
        owned = self._sets.by("controller", deployment.metadata.uid)
        return DeploymentSnapshot(deployment, owned, self.manager.clock.now())

    def plan(self, seen: DeploymentSnapshot) -> Plan:
        return plan(seen)

    def subject(self, seen: DeploymentSnapshot) -> tuple[Resource, ObjectMeta]:
        return DEPLOYMENTS, seen.deployment.metadata

    def statuses(self, seen: DeploymentSnapshot, outcome: Outcome) -> tuple[View, View] | None:
        if outcome.done:
            # Our own writes moved the world on: the round that sees them tells of it.
            return None
        return seen.deployment.status, next_status(seen)


def _controller_uid(replica_set: ReplicaSet) -> tuple[str, ...]:
    owner = replica_set.metadata.controller
    return (owner.uid,) if owner else ()
