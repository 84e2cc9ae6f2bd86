"""Recorded reconciles of this controller can be replayed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from manta.api.meta import Key, ObjectMeta, ResourceVersion, Uid
from manta.api.ray.cluster import RayCluster
from manta.controllers.idlesuspend.events import CONTROLLER
from manta.controllers.idlesuspend.plan import plan
from manta.controllers.idlesuspend.snapshot import Answer, Held, IdleSnapshot
from manta.reconcile.observer import Reconciled
from manta.reconcile.outcome import Outcome, Result
from manta.recording.reader import Recorded, files_of, read_recording
from manta.recording.recorder import FlightRecorder
from manta.recording.replay import replay
from manta.rules.idle import IdleLimit
from manta.runtime.clock import SystemClock

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
META = ObjectMeta(
    name="demo",
    namespace="default",
    uid=Uid("u"),
    resource_version=ResourceVersion("7"),
    annotations={"manta.ray.io/idle-since": "2026-01-01T11:00:00Z"},
)
LIMIT = IdleLimit(timedelta(minutes=30), timedelta(minutes=10))
USED = Answer(NOW, "", in_use=True)
WHOLE = IdleSnapshot(
    RayCluster(metadata=META), LIMIT, NOW, answer=USED, held=Held(cpus=4, gpus=1, since=NOW)
)
INVALID = replace(WHOLE, limit=None, violation="metadata.annotations: soon: must be a duration")


@pytest.mark.parametrize("snapshot", [WHOLE, INVALID, replace(WHOLE, limit=None)])
def test_the_same_version_plans_the_same(snapshot: IdleSnapshot, tmp_path: Path) -> None:
    step = plan(snapshot)
    done = Outcome(tuple(Result(one, one.key) for one in step.plan.actions))
    recorder = FlightRecorder(tmp_path, SystemClock(), 1 << 20)
    recorder(Reconciled(CONTROLLER, Key("default", "demo"), snapshot, step, done))
    recorder.close()
    [one] = [one for path in files_of([tmp_path]) for one in read_recording(path)]
    assert isinstance(one, Recorded)
    replayed = replay(one)
    assert (replayed.unreadable, replayed.differences) == ("", ())
