"""How a reconcile that raised shows on its object, against the embedded server in memory."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from manta.api.meta import Key
from manta.api.resources import EVENTS, PODS
from manta.kube.client import Client
from manta.kube.errors import Conflict, Forbidden, Unreachable
from manta.runtime import failures
from manta.runtime.failures import (
    CONDITION,
    REFRESH_SECONDS,
    FailureCondition,
    FailureReporter,
    describe,
)
from manta.runtime.freshness import Freshness, Owner
from manta.runtime.phases import Phase
from manta.runtime.recorder import Recorder
from support.faults import FaultTransport, touches
from support.plane import MemoryPlane
from support.virtual import faulty, running, virtual_plane, virtually
from support.virtual_time import virtual_clock

KEY = Key("default", "demo")
OTHER = {"type": "Ready", "status": "False", "reason": "Waiting"}


class NotedWrites(Freshness):
    """Remembers for whom a write was noted."""

    def __init__(self) -> None:
        super().__init__(Random(1))
        self.noted: list[Owner] = []

    def note_write(self, owner: Owner, *_: Any) -> None:
        self.noted.append(owner)


@dataclass
class Here:
    plane: MemoryPlane
    faults: FaultTransport
    freshness: NotedWrites
    recorder: Recorder
    reporter: FailureReporter

    async def conditions(self) -> list[dict[str, Any]]:
        pod = await self.plane.client.get(PODS, KEY)
        found: list[dict[str, Any]] = pod["status"].get("conditions") or []
        return found

    async def condition(self) -> dict[str, Any]:
        [found] = [one for one in await self.conditions() if one["type"] == CONDITION]
        return found

    def writes(self) -> int:
        return len(self.faults.accepted_writes("/pods/"))


@asynccontextmanager
async def a_reporter(**status: Any) -> AsyncIterator[Here]:
    async with virtual_plane() as plane:
        spec = {"containers": [{"name": "a", "image": "a"}]}
        meta = {"name": KEY.name, "namespace": KEY.namespace}
        await plane.client.create(PODS, "default", {"metadata": meta, "spec": spec})
        status = {"conditions": [OTHER], **status}
        await plane.client.patch(PODS, KEY, {"status": status}, subresource="status")
        faults, clock, freshness = faulty(plane), virtual_clock(), NotedWrites()
        client = Client(faults)
        recorder = Recorder(client, clock, Random(1))
        yield Here(
            plane,
            faults,
            freshness,
            recorder,
            FailureReporter("toy", PODS, client, freshness, recorder, clock),
        )


@virtually
async def test_a_failure_that_says_nothing_about_the_object_sends_no_request() -> None:
    async with a_reporter() as here:
        await here.reporter.failed(KEY, Phase.APPLY, Conflict(409, "Conflict", "old"))
        await here.reporter.failed(KEY, Phase.APPLY, Unreachable("gone", sent=False))
        assert here.faults.log == []


@virtually
async def test_the_condition_is_added_to_those_of_others() -> None:
    async with a_reporter() as here:
        await here.reporter.failed(KEY, Phase.PLAN, ValueError("odd"))
        first, second = await here.conditions()
        assert first["type"] == "Ready"
        assert (second["type"], second["status"]) == ("ReconcileError", "True")
        assert second["reason"] == "ReconcileFailed"
        assert "plan failed: ValueError: odd" in second["message"]


@virtually
async def test_the_condition_is_written_only_to_the_object_and_version_that_was_read() -> None:
    async with a_reporter() as here:
        meta = (await here.plane.client.get(PODS, KEY))["metadata"]
        await here.reporter.failed(KEY, Phase.PLAN, ValueError("odd"))
        [write] = here.faults.accepted_writes("/pods/")
        guard = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        assert json.loads(write.body or b"{}")["metadata"] == guard


@virtually
async def test_a_message_that_changes_is_written_once_a_minute_and_keeps_its_first_time() -> None:
    async with a_reporter() as here:
        await asyncio.sleep(3600)
        await here.reporter.failed(KEY, Phase.PLAN, ValueError("one"))
        began = (await here.condition())["lastTransitionTime"]
        await asyncio.sleep(REFRESH_SECONDS - 1)
        await here.reporter.failed(KEY, Phase.PLAN, ValueError("two"))
        assert "one" in (await here.condition())["message"]
        await asyncio.sleep(1)
        await here.reporter.failed(KEY, Phase.PLAN, ValueError("three"))
        after = await here.condition()
        assert "three" in after["message"]
        assert after["lastTransitionTime"] == began


@virtually
async def test_the_same_message_is_not_written_again() -> None:
    async with a_reporter() as here:
        await here.reporter.failed(KEY, Phase.PLAN, "the same")
        writes = here.writes()
        await asyncio.sleep(10 * REFRESH_SECONDS)
        await here.reporter.failed(KEY, Phase.PLAN, "the same")
        assert here.writes() == writes == 1


@virtually
async def test_a_condition_that_was_false_begins_anew() -> None:
    old = {"type": CONDITION, "status": "False", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    async with a_reporter(conditions=[old]) as here:
        await here.reporter.failed(KEY, Phase.PLAN, "again")
        now = await here.condition()
        assert now["status"] == "True"
        assert now["lastTransitionTime"] > "2020-01-01T00:00:00Z"


@virtually
async def test_a_success_removes_only_our_condition() -> None:
    async with a_reporter() as here:
        await here.reporter.failed(KEY, Phase.PLAN, "odd")
        await here.reporter.succeeded(KEY, None)
        assert [one["type"] for one in await here.conditions()] == ["Ready"]


@virtually
async def test_a_condition_of_an_earlier_operator_is_removed_too() -> None:
    old = {"type": CONDITION, "status": "True"}
    async with a_reporter(conditions=[old, OTHER]) as here:
        cached = SimpleNamespace(status=SimpleNamespace(conditions=[SimpleNamespace(**OTHER)]))
        await here.reporter.succeeded(KEY, cached)
        assert here.faults.log == []
        cached.status.conditions.append(SimpleNamespace(**old))
        await here.reporter.succeeded(KEY, cached)
        assert [one["type"] for one in await here.conditions()] == ["Ready"]


@pytest.mark.parametrize(("phase", "noted"), [(Phase.PLAN, 1), (Phase.DECODE, 0)])
@virtually
async def test_the_cache_is_awaited_unless_it_never_shows_the_object(
    phase: Phase, noted: int
) -> None:
    async with a_reporter() as here:
        await here.reporter.failed(KEY, phase, "odd")
        assert here.freshness.noted == [Owner("toy", KEY)] * noted
        await here.reporter.succeeded(KEY, None)
        assert here.freshness.noted == [Owner("toy", KEY)] * (noted + 1)


@pytest.mark.parametrize(("reason", "left"), [("ReconcileFailed", []), ("Busy", ["Idle"])])
@virtually
async def test_of_a_condition_with_other_uses_only_the_failure_is_removed(
    reason: str, left: list[str]
) -> None:
    shown = {"type": "Idle", "status": "Unknown", "reason": reason}
    async with a_reporter(conditions=[shown]) as here:
        reporter = FailureReporter(
            "toy",
            PODS,
            Client(here.faults),
            here.freshness,
            here.recorder,
            virtual_clock(),
            FailureCondition("Idle", "Unknown"),
        )
        cached = SimpleNamespace(status=SimpleNamespace(conditions=[SimpleNamespace(**shown)]))
        await reporter.succeeded(KEY, cached)
        assert [one["type"] for one in await here.conditions()] == left


@virtually
async def test_a_failure_is_a_warning_about_its_object() -> None:
    async with a_reporter() as here, running(here.recorder.run()):
        await here.reporter.failed(KEY, Phase.PLAN, "odd")
        await here.recorder.flush()
        [event] = (await here.plane.client.list(EVENTS, "default")).items
        assert (event["type"], event["reason"], event["action"]) == (
            "Warning",
            "ReconcileFailed",
            "Reconcile",
        )
        assert event["regarding"]["name"] == "demo"
        assert "odd" in event["note"]


@virtually
async def test_a_success_of_an_object_that_never_failed_sends_no_request() -> None:
    async with a_reporter() as here:
        await here.reporter.succeeded(KEY, None)
        assert here.faults.log == []


@virtually
async def test_after_a_success_the_next_failure_is_written_at_once() -> None:
    async with a_reporter() as here:
        await here.reporter.failed(KEY, Phase.PLAN, "one")
        await here.reporter.succeeded(KEY, None)
        await here.reporter.failed(KEY, Phase.PLAN, "two")
        assert "two" in (await here.condition())["message"]


@virtually
async def test_an_object_that_is_gone_is_forgotten() -> None:
    async with a_reporter() as here:
        await here.reporter.failed(KEY, Phase.PLAN, "odd")
        await here.plane.client.delete(PODS, KEY, grace_seconds=0)
        await here.reporter.failed(KEY, Phase.PLAN, "odd")
        await here.reporter.succeeded(KEY, None)  # would read the object, if it were remembered
        assert [one.method for one in here.faults.log if one.method == "GET"] == ["GET", "GET"]


@virtually
async def test_a_refusal_to_write_the_condition_is_logged_and_not_raised(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with a_reporter() as here:
        here.faults.deny(touches(PODS, "PATCH"))
        await here.reporter.failed(KEY, Phase.PLAN, "odd")
        assert "could not be written" in caplog.text
        await here.reporter.failed(KEY, Phase.PLAN, "odd")
        assert (await here.condition())["status"] == "True"


@pytest.mark.parametrize(
    "status", [["what"], {"conditions": "what"}, {"conditions": ["what"]}, None]
)
def test_conditions_that_are_none_do_not_stop_the_report(status: Any) -> None:
    odd = {"metadata": {"name": "demo", "namespace": "default"}, "status": status}
    read = msgspec.json.decode(json.dumps(odd), type=failures._AnyObject)
    assert failures._conditions(read) == []


@pytest.mark.parametrize(
    ("phase", "error", "shown"),
    [
        (Phase.PLAN, ValueError("token=abc"), True),
        (Phase.STATUS, ValueError("what"), True),
        (Phase.OBSERVE, ValueError("what"), False),
        (Phase.APPLY, ValueError("what"), False),
        (Phase.OBSERVE, msgspec.ValidationError("what"), True),
        (Phase.OBSERVE, Forbidden(403, "Forbidden", "what"), True),
    ],
)
def test_texts_of_phases_that_read_secrets_are_not_shown(
    phase: Phase, error: Exception, shown: bool
) -> None:
    said = describe(phase, error)
    assert said.startswith(f"{phase} failed: ")
    assert ("what" in said or "token" in said) is shown


def test_a_failure_names_the_place_in_the_code() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        raise ZeroDivisionError
    assert "ZeroDivisionError (test_failures.py:" in describe(Phase.PLAN, raised.value)


def test_no_more_objects_are_remembered_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "MAX_REMEMBERED", 2)
    reporter: Any = object.__new__(FailureReporter)
    reporter._written_at = OrderedDict()
    for name in "abac":
        reporter._remember(Key("", name), 1.0)
    assert [key.name for key in reporter._written_at] == ["a", "c"]
