"""The Deployment controller: what it watches, and its phases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from manta.api.meta import Key
from manta.api.resources import DEPLOYMENTS, REPLICA_SETS
from manta.localplane.builtin.deployment.plan import plan
from manta.localplane.builtin.deployment.snapshot import DeploymentSnapshot
from manta.localplane.builtin.deployment.status import next_status
from manta.localplane.builtin.views import Deployment, DeploymentStatus, ReplicaSet
from manta.reconcile.outcome import Outcome
from manta.reconcile.reconciler import Reconciler, Subject
from manta.reconcile.step import Step
from manta.runtime.controller import Watch, own_key, owner_keys
from manta.runtime.index import by_controller


class DeploymentController(Reconciler[DeploymentSnapshot, DeploymentStatus]):
    name = "deployment-controller"

    def watches(self) -> Sequence[Watch[Any]]:
        self._deployments = self.manager.informer(DEPLOYMENTS, Deployment)
        self._sets = self.manager.informer(
            REPLICA_SETS, ReplicaSet, indexes={"controller": by_controller}
        )
        owned = owner_keys(DEPLOYMENTS.kind, DEPLOYMENTS.group)
        return Watch(self._deployments, own_key), Watch(self._sets, owned)

    async def observe(self, key: Key) -> DeploymentSnapshot | None:
        deployment = self._deployments.get(key)
        if deployment is None:
            return None
        owned = self._sets.by("controller", deployment.metadata.uid)
        return DeploymentSnapshot(deployment, owned, self.manager.clock.now())

    def plan(self, snapshot: DeploymentSnapshot) -> Step[DeploymentStatus]:
        return Step(plan(snapshot))

    def subject(self, snapshot: DeploymentSnapshot) -> Subject:
        return Subject(DEPLOYMENTS, snapshot.deployment.metadata, snapshot.deployment.status)

    def next_status(
        self, snapshot: DeploymentSnapshot, _: object, outcome: Outcome
    ) -> DeploymentStatus | None:
        # After writes of our own the snapshot is old: the next reconcile writes the status.
        return None if outcome.done else next_status(snapshot)
