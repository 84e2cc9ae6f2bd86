"""What the operator would do about a RayCronJob now, without doing it: for `manta plan`.

The same snapshot and planners as in a real reconcile, on objects that are read once from the
server. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from manta.api.meta import Key
from manta.api.ray.cronjob import RayCronJob
from manta.api.ray.names import LABEL_CRON_JOB_NAME
from manta.api.ray.resources import RAY_CRON_JOBS, RAY_JOBS
from manta.api.times import format_time
from manta.controllers.raycronjob.events import Cause
from manta.controllers.raycronjob.observe import BY_CONTROLLER, Observer
from manta.controllers.raycronjob.plan import plan
from manta.controllers.raycronjob.snapshot import ChildJob, CronSnapshot
from manta.controllers.raycronjob.ticks import next_tick
from manta.kube.client import Client
from manta.reconcile.actions import Action
from manta.reconcile.preview import Preview, Reader, live_and_wanted
from manta.rules.differences import differences
from manta.rules.settings import Settings
from manta.runtime.clock import Clock
from manta.runtime.index import by_controller


class Effect(StrEnum):
    INVALID = "it is invalid: no RayJob is created until the spec is corrected"
    SUSPENDED = "it is suspended: no RayJob is created until spec.suspend is false"
    DELETED = "it is being deleted: no further RayJob is created"
    TICK = "a RayJob is created now: a scheduled time has come"
    TIDY = "finished RayJobs beyond the history limits are deleted"
    WAITS = "nothing changes before the next scheduled time"
    NEVER = "nothing happens: its schedule has no further time"


async def preview(
    client: Client,
    settings: Settings,
    clock: Clock,
    key: Key,
    manifest: Mapping[str, Any] | None = None,
) -> Preview | None:
    """Preview the live object, or the object with this manifest applied. None if there is neither."""
    live, wanted = await live_and_wanted(client, RAY_CRON_JOBS, key, manifest)
    if wanted is None:
        return None
    cron = msgspec.json.decode(msgspec.json.encode(wanted), type=RayCronJob)
    reader = Reader(client, key.namespace, {BY_CONTROLLER: by_controller})
    children = await reader.listed(RAY_JOBS, ChildJob, LABEL_CRON_JOB_NAME)
    snapshot = Observer(reader.only(cron), children, clock, settings).observe(key)
    if snapshot is None:
        return None
    old, new = (live or wanted).get("spec") or {}, wanted.get("spec") or {}
    return preview_of(snapshot, tuple(str(one) for one in differences(old, new)))


def preview_of(snapshot: CronSnapshot, changes: tuple[str, ...] = ()) -> Preview:
    chosen = plan(snapshot).plan
    return Preview(
        _effect(snapshot, chosen.actions),
        chosen,
        violations=tuple(str(one) for one in snapshot.violations),
        changes=changes,
        remarks=tuple(_remarks(snapshot)),
    )


def _effect(snapshot: CronSnapshot, actions: tuple[Action, ...]) -> Effect:
    if snapshot.cron.metadata.deletion_timestamp is not None:
        return Effect.DELETED
    if snapshot.violations:
        return Effect.INVALID
    if snapshot.cron.spec.suspend:
        return Effect.SUSPENDED
    if any(one.cause is Cause.TICK for one in actions):
        return Effect.TICK
    if next_tick(snapshot) is None:
        return Effect.NEVER
    return Effect.TIDY if actions else Effect.WAITS


def _remarks(snapshot: CronSnapshot) -> Iterator[str]:
    if snapshot.violations or snapshot.cron.spec.suspend:
        return
    if tick := next_tick(snapshot):
        yield f"the next RayJob is created at {format_time(tick)}"
