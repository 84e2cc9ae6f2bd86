"""About what the operator may touch, and for how long."""

from __future__ import annotations

import json
from collections.abc import Iterator

from manta.api.ray import names
from simulation.oracles.oracle import (
    RAY,
    RAY_KINDS,
    Object,
    Oracle,
    controller_of,
    is_operator,
    time_of,
)
from simulation.plane import Written
from simulation.transport import Sent

FINALIZER_SECONDS = 420.0
"""A finalizer may wait 300 s for the Redis cleanup, and for Pods to end before that."""


class DeletesByUid(Oracle):
    """Every delete of the operator carries the UID of the object that it means."""

    name = "deletes-by-uid"

    def sent(self, actor: str, sent: Sent) -> Iterator[str]:
        if sent.method != "DELETE":
            return
        body = json.loads(sent.body or b"{}")
        if not (body.get("preconditions") or {}).get("uid"):
            yield f"{actor} sent DELETE {sent.path} without a UID"


class OwnObjectsOnly(Oracle):
    """The operator changes and deletes only what a Ray object controls, and of Ray objects themselves only the
    status, finalizers and annotations; what it creates has an owner that exists. It leaves alone what `managedBy` gives
    to another controller."""

    name = "own-objects"
    _FREE = ("events", "leases.coordination.k8s.io", "resourcequotas")
    """The server itself counts a new Pod in a quota."""

    def written(self, written: Written) -> Iterator[str]:
        if not is_operator(written.by) or written.resource in self._FREE:
            return
        key = f"{written.metadata.get('namespace', '')}/{written.name}"
        before = self.world.live.get(written.resource, {}).get(key)
        owner = controller_of(before or written.object)
        what = f"{written.by} {written.type} {written.resource} {written.name}"
        if self._belongs_to_another(owner, before, written):
            yield f"{what}: another controller manages it"
        if owner is not None and owner["kind"] in (*RAY_KINDS, "Certificate"):
            if written.type == "ADDED" and not self._exists(owner, written.metadata):
                yield f"{what}: its owner {owner['kind']} {owner['name']} does not exist"
            return
        if written.resource in RAY and before is not None:
            changed = before["metadata"].get("generation") != written.metadata.get("generation")
            going = written.type != "MODIFIED" or written.metadata.get("deletionTimestamp")
            if changed and not going:
                yield f"{what}: it changed the spec of the user's object"
            return
        if self._adopts(before, written):
            return
        yield f"{what}: it does not belong to a Ray object"

    def _belongs_to_another(
        self, owner: Object | None, before: Object | None, written: Written
    ) -> bool:
        """By `managedBy`, which cannot change, of the Ray object or of the one that controls it."""
        subject = before if written.resource in RAY else None
        if owner is not None and subject is None:
            table = self.world.live.get(f"{owner['kind'].lower()}s.ray.io", {})
            subject = table.get(f"{written.metadata.get('namespace', '')}/{owner['name']}")
        managed = ((subject or {}).get("spec") or {}).get("managedBy")
        return bool(managed) and managed != names.MANAGED_BY_OPERATOR

    def _exists(self, owner: Object, meta: Object) -> bool:
        key = f"{meta.get('namespace', '')}/{owner['name']}"
        table = self.world.live.get(f"{owner['kind'].lower()}s.ray.io", {})
        known = table.get(key)
        if known is not None and known["metadata"]["uid"] == owner["uid"]:
            return True
        return self.history.existed(owner["uid"], self.history.window)

    @staticmethod
    def _adopts(before: Object | None, written: Written) -> bool:
        """A claim or Secret that outlives its cluster has an owner of another kind, or none, by design."""
        return written.resource in ("persistentvolumeclaims", "secrets")


class FinalizersEnd(Oracle):
    """No finalizer of ours holds an object for longer than seven minutes."""

    name = "finalizers-end"

    def written(self, written: Written) -> Iterator[str]:
        if written.resource in RAY and written.type == "DELETED":
            marked = written.metadata.get("deletionTimestamp")
            held = (self.world.clock.now() - time_of(marked)).total_seconds() if marked else 0.0
            if held > FINALIZER_SECONDS:
                yield f"{written.resource} {written.name} was held for {held:.0f} s"

    def ended(self) -> Iterator[str]:
        now = self.world.clock.now()
        for resource in RAY:
            for one in self.world.all(resource):
                marked = one["metadata"].get("deletionTimestamp")
                if marked and (now - time_of(marked)).total_seconds() > FINALIZER_SECONDS:
                    yield f"{resource} {one['metadata']['name']} is deleted since {marked}: {one['metadata'].get('finalizers')}"
