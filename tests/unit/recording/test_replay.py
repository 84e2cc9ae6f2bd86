from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from manta.api.meta import Key
from manta.api.ray.cluster import RayCluster
from manta.controllers.raycluster.plan import plan
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.kube.errors import Conflict
from manta.reconcile.observer import Reconciled
from manta.reconcile.outcome import Failure, Outcome, Result
from manta.recording.reader import Recorded, files_of, read_recording
from manta.recording.recorder import FlightRecorder
from manta.recording.replay import differences, replay
from manta.recording.report import ReplayReport
from manta.rules.settings import Settings
from manta.runtime.clock import SystemClock
from support.raycluster import container, ray_cluster, template

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def snapshot(**spec: Any) -> ClusterSnapshot:
    document = ray_cluster(**spec)
    document["metadata"] |= {"uid": "u-1", "generation": 1, "finalizers": []}
    cluster = msgspec.convert(document, RayCluster)
    return ClusterSnapshot(cluster, Settings(), NOW, seed=7)


def reconciled(seen: ClusterSnapshot) -> Reconciled:
    step = plan(seen)
    done = tuple(Result(one, one.key) for one in step.plan.actions)
    return Reconciled("raycluster", Key("default", "demo"), seen, step, Outcome(done))


def recorded(folder: Path, *found: Reconciled) -> list[Recorded]:
    recorder = FlightRecorder(folder, SystemClock(), 1 << 24)
    for one in found:
        recorder(one)
    recorder.close()
    read = [one for path in files_of([folder]) for one in read_recording(path)]
    assert all(isinstance(one, Recorded) for one in read)
    return [one for one in read if isinstance(one, Recorded)]


def test_the_same_version_plans_the_same(tmp_path: Path) -> None:
    [one] = recorded(tmp_path, reconciled(snapshot()))
    assert one.plan is not None
    assert one.plan["stages"]
    assert replay(one).same


def test_a_secret_in_the_spec_changes_no_plan(tmp_path: Path) -> None:
    env = [{"name": "PASSWORD", "value": "hunter2hunter2"}]
    [one] = recorded(
        tmp_path, reconciled(snapshot(head={"template": template(container(env=env))}))
    )
    assert "hunter2" not in files_of([tmp_path])[0].read_text()
    assert replay(one).same


def test_another_plan_is_shown_with_its_path_and_both_values(tmp_path: Path) -> None:
    [one] = recorded(tmp_path, reconciled(snapshot()))
    assert one.plan is not None
    one.plan["stages"][-1]["actions"][0]["cause"] = "Whim"
    found = replay(one)
    assert not found.same
    assert any('cause: was "Whim"' in text for text in found.differences)


def test_an_action_that_is_not_planned_any_more_is_a_difference(tmp_path: Path) -> None:
    [one] = recorded(tmp_path, reconciled(snapshot()))
    assert one.plan is not None
    last = one.plan["stages"][-1]["actions"]
    last.append(last[0])
    assert any("is not there now" in text for text in replay(one).differences)


def test_fields_of_another_version_are_noted_and_left_out(tmp_path: Path) -> None:
    [one] = recorded(tmp_path, reconciled(snapshot()))
    one.line["snapshot"]["from_tomorrow"] = {"plain": 1}
    for value in one.segment.values.values():
        if isinstance(value, dict) and "headGroupSpec" in value:
            value["newField"] = "x"
    found = replay(one)
    assert found.same
    assert any("from_tomorrow" in note for note in found.notes)
    assert any("newField" in note for note in found.notes)


def test_a_snapshot_without_a_needed_field_cannot_be_replayed(tmp_path: Path) -> None:
    [one] = recorded(tmp_path, reconciled(snapshot()))
    del one.line["snapshot"]["now"]
    found = replay(one)
    assert not found.same
    assert "now" in found.unreadable


def test_a_reconcile_that_raised_is_recorded_and_told(tmp_path: Path) -> None:
    broken = Reconciled("raycluster", Key("default", "demo"), snapshot(), error=ValueError("odd"))
    [one] = recorded(tmp_path, broken)
    text = "\n".join(ReplayReport().lines(replay(one)))
    assert "ValueError: odd" in text


def test_the_story_tells_what_was_seen_done_and_failed(tmp_path: Path) -> None:
    first = reconciled(snapshot())
    assert first.step is not None
    failed = first.step.plan.actions[-1]
    first.outcome = Outcome(
        failures=(Failure(failed, Conflict(409, "Conflict", "changed meanwhile")),),
        skipped=first.step.plan.actions[:-1],
    )
    second = reconciled(replace(snapshot(), seed=8))
    report = ReplayReport()
    text = ["\n".join(report.lines(replay(one))) for one in recorded(tmp_path, first, second)]
    assert "cluster demo: generation 1" in text[0]
    assert "failed: Conflict: " in text[0]
    assert "skipped, because an earlier action failed" in text[0]
    assert "nothing new" in text[1]
    assert "the same plan" in text[1]


@pytest.mark.parametrize(
    ("was", "now", "same"),
    [
        ("a redacted.0123456789abcdef b", "a anything b", True),
        ("a redacted.0123456789abcdef b", "a redacted.0123456789abcdef b", True),
        ("a redacted.0123456789abcdef b", "a redacted.fedcba9876543210 b", False),
        ("a redacted.0123456789abcdef b", "other text", False),
        ("a", "b", False),
    ],
)
def test_a_digest_matches_text_but_no_other_digest(was: str, now: str, *, same: bool) -> None:
    assert (not list(differences({"x": was}, {"x": now}))) is same


def test_unchanged_objects_are_written_once(tmp_path: Path) -> None:
    seen = snapshot()
    one, two = (reconciled(seen) for _ in range(2))
    recorded(tmp_path, one, two)
    text = files_of([tmp_path])[0].read_text()
    assert text.count('"headGroupSpec"') == 1


def test_a_busy_operator_leaves_reconciles_out_but_none_that_failed(tmp_path: Path) -> None:
    recorder = FlightRecorder(tmp_path, SystemClock(), 1 << 24, cpu_share=-1e9)
    failed = Reconciled("raycluster", Key("default", "demo"), snapshot(), error=ValueError("odd"))
    for one in (reconciled(snapshot()), failed):
        recorder(one)
    recorder.close()
    [only] = [one for path in files_of([tmp_path]) for one in read_recording(path)]
    assert isinstance(only, Recorded)
    assert (only.line["left_out"], only.line["error"]["error"]) == (1, "ValueError")


def test_a_reconcile_that_is_too_large_is_counted_as_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = ray_cluster()
    document["metadata"] |= {"uid": "u-1", "annotations": {"note": "x" * 20_000}}
    large = ClusterSnapshot(msgspec.convert(document, RayCluster), Settings(), NOW, seed=7)
    monkeypatch.setattr("manta.recording.recorder.MAX_RECORD_BYTES", 16_000)
    [only] = recorded(tmp_path, reconciled(large), reconciled(snapshot()))
    assert only.line["left_out"] == 1
