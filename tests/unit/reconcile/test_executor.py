"""Carrying out plans, against the embedded server in memory."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest

from manta.api.meta import Key, Uid
from manta.api.resources import (
    CONFIG_MAPS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    Resource,
)
from manta.kube.client import Client
from manta.kube.errors import AlreadyExists, Conflict, Forbidden, Unreachable
from manta.reconcile.actions import Action, Call, Create, Delete, OnExists, Patch
from manta.reconcile.causes import ONLY_FAILURES, ActionCause
from manta.reconcile.concurrency import LINGER_SECONDS, MAX_CONCURRENT, MAX_YIELD_SECONDS
from manta.reconcile.executor import (
    RECREATED_SECONDS,
    REMEMBER_SECONDS,
    BeingDeletedError,
    OwnedByAnotherError,
    PlanExecutor,
)
from manta.reconcile.plan import NOTHING, Plan, Stage, do
from manta.runtime.freshness import Freshness, Owner
from support.faults import FaultTransport, is_write, status, touches
from support.plane import MemoryPlane
from support.virtual import faulty, virtual_plane, virtually

OWNER = Owner("toy", Key("default", "parent"))


class Why(ActionCause):
    TEST = ONLY_FAILURES


@dataclass
class ExecutorFixture:
    plane: MemoryPlane
    faults: FaultTransport
    executor: PlanExecutor

    async def names(self) -> set[str]:
        listing = await self.plane.client.list(CONFIG_MAPS, "default")
        return {one["metadata"]["name"] for one in listing.items} - {"kube-root-ca.crt"}


@asynccontextmanager
async def executor_fixture() -> AsyncIterator[ExecutorFixture]:
    async with virtual_plane() as plane:
        faults = faulty(plane)
        executor = PlanExecutor(Client(faults), Freshness(Random(1)))
        yield ExecutorFixture(plane, faults, executor)


def config_map(name: str, owner: str = "", **more: Any) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "namespace": "default", **more}
    if owner:
        meta["ownerReferences"] = [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": f"owner-{owner}",
                "uid": owner,
                "controller": True,
            }
        ]
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


def create(name: str, owner: str = "") -> Create:
    return Create(CONFIG_MAPS, config_map(name, owner), Why.TEST)


def stages(*groups: tuple[Action, ...], independent: bool = False) -> Plan:
    return Plan(tuple(Stage(group, independent=independent) for group in groups))


@virtually
async def test_an_empty_plan_asks_the_server_nothing() -> None:
    async with executor_fixture() as here:
        outcome = await here.executor.execute(OWNER, NOTHING)
        assert outcome.failure is None
        assert here.faults.log == []


@virtually
async def test_results_bear_what_the_server_answered() -> None:
    async with executor_fixture() as here:
        outcome = await here.executor.execute(OWNER, do(create("a")))
        (result,) = outcome.done
        assert result.key == Key("default", "a")
        assert result.uid
        assert result.resource_version
        assert not result.existed


class Crowd:
    """Counts how many requests are under way at once."""

    def __init__(self, faults: Any) -> None:
        self.open = self.widest = 0
        self._send = faults.send
        faults.send = self.send

    async def send(self, request: Any) -> Any:
        self.open += 1
        self.widest = max(self.widest, self.open)
        try:
            await asyncio.sleep(0.05)
            return await self._send(request)
        finally:
            self.open -= 1


@virtually
async def test_a_stage_starts_slowly_and_never_exceeds_its_width() -> None:
    async with executor_fixture() as here:
        crowd = Crowd(here.faults)
        await here.executor.execute(OWNER, do(*(create(f"m{n}") for n in range(3))))
        assert crowd.widest == 2
        await here.executor.execute(OWNER, do(*(create(f"n{n}") for n in range(500))))
        assert crowd.widest == MAX_CONCURRENT
        assert len(await here.names()) == 503


def elsewhere(name: str = "o") -> Owner:
    return Owner("test", Key("", name))


@virtually
async def test_a_large_plan_stands_back_for_a_small_one() -> None:
    async with executor_fixture() as here:
        crowd = Crowd(here.faults)
        large = do(*(create(f"n{n}") for n in range(500)))
        growing = asyncio.create_task(here.executor.execute(OWNER, large))
        await asyncio.sleep(1)
        assert crowd.open == MAX_CONCURRENT
        small = Plan(tuple(Stage((create(f"m{n}"),)) for n in range(9)))
        beside = asyncio.create_task(here.executor.execute(elsewhere(), small))
        await asyncio.sleep(0.2)
        assert crowd.open == 1
        await beside
        await asyncio.sleep(LINGER_SECONDS / 2)
        assert crowd.open == 0
        await asyncio.sleep(LINGER_SECONDS / 2 + 0.05)
        assert crowd.open == MAX_CONCURRENT
        assert (await growing).failure is None


@virtually
async def test_a_small_plan_that_makes_nothing_is_not_waited_for_afterwards() -> None:
    async with executor_fixture() as here:
        await here.executor.execute(elsewhere(), do(create("old")))
        await asyncio.sleep(LINGER_SECONDS)
        change = Patch(CONFIG_MAPS, Key("default", "old"), {"data": {"a": "b"}}, Why.TEST)
        await here.executor.execute(elsewhere(), do(change))
        crowd = Crowd(here.faults)
        large = do(*(create(f"n{n}") for n in range(150)))
        growing = asyncio.create_task(here.executor.execute(OWNER, large))
        await asyncio.sleep(0.01)
        assert crowd.open == 1
        await growing


@virtually
async def test_a_small_plan_that_hangs_delays_a_large_one_by_so_much_and_no_more() -> None:
    async with executor_fixture() as here:
        Crowd(here.faults)
        large = [do(*(create(f"{who}{n}") for n in range(500))) for who in "ab"]
        loop = asyncio.get_running_loop()
        began = loop.time()
        await here.executor.execute(OWNER, large[0])
        alone = loop.time() - began
        hanging = asyncio.Event()

        async def call(_: Call) -> dict[str, Any]:
            await hanging.wait()
            return {}

        small = do(Call("wait", Key("default", "o"), Why.TEST))
        stuck = asyncio.create_task(here.executor.execute(elsewhere(), small, call))
        await asyncio.sleep(0)
        began = loop.time()
        await here.executor.execute(OWNER, large[1])
        assert loop.time() - began == pytest.approx(alone + MAX_YIELD_SECONDS, abs=0.01)
        hanging.set()
        await stuck


@virtually
async def test_not_all_workers_of_a_controller_stand_back() -> None:
    """Each that does keeps one of them from the small plans that wait for a worker."""
    async with executor_fixture() as here:
        large = [do(*(create(f"{who}{n}") for n in range(120))) for who in "abcdefgh"]
        workers = asyncio.Semaphore(8)

        async def work(plan: Plan, name: str) -> None:
            async with workers:
                await here.executor.execute(elsewhere(name), plan)

        await here.executor.execute(elsewhere(), do(create("before")))
        async with asyncio.TaskGroup() as tasks:
            for number, plan in enumerate(large):
                tasks.create_task(work(plan, f"large{number}"))
            small = tasks.create_task(work(do(create("small")), "small"))
            await asyncio.sleep(LINGER_SECONDS / 2)
            assert small.done()


@virtually
async def test_small_plans_without_end_do_not_starve_a_large_one() -> None:
    async with executor_fixture() as here:
        growing = asyncio.create_task(
            here.executor.execute(OWNER, do(*(create(f"n{n}") for n in range(200))))
        )
        for number in range(30):
            await here.executor.execute(elsewhere(), do(create(f"small{number}")))
            await asyncio.sleep(LINGER_SECONDS / 2)
        assert growing.done()


@virtually
async def test_what_no_server_answered_ends_the_plan_in_its_own_words() -> None:
    async with executor_fixture() as here:

        async def send(_: Any) -> Any:
            raise ZeroDivisionError("a bug of ours")

        here.faults.send = send  # type: ignore[method-assign,assignment]
        with pytest.raises(ZeroDivisionError, match="a bug of ours"):
            await here.executor.execute(OWNER, do(create("a"), create("b")))


@virtually
async def test_who_may_not_make_one_kind_may_still_make_another() -> None:
    async with executor_fixture() as here:
        forbidden = status(403, "Forbidden")
        here.faults.answer(lambda request: b"first" in (request.body or b""), forbidden)
        independent = Stage((create("first"), create("second")), independent=True)
        outcome = await here.executor.execute(OWNER, Plan((independent,)))
        assert [one.action.key.name for one in outcome.failures] == ["first"]
        assert await here.names() == {"second"}


@virtually
async def test_large_plans_do_not_wait_for_each_other() -> None:
    async with executor_fixture() as here:
        crowd = Crowd(here.faults)
        plans = [do(*(create(f"{who}{n}") for n in range(200))) for who in "ab"]
        owners = [Owner("test", Key("", who)) for who in "ab"]
        async with asyncio.TaskGroup() as group:
            for owner, plan in zip(owners, plans, strict=True):
                group.create_task(here.executor.execute(owner, plan))
        assert crowd.widest == 2 * MAX_CONCURRENT


@virtually
async def test_a_stage_goes_on_at_the_pace_that_the_one_before_has_reached() -> None:
    async with executor_fixture() as here:
        crowd = Crowd(here.faults)
        first, second = create("a"), create("b")
        rest = [create(f"m{n}") for n in range(3)]
        plan = Plan((Stage((first,)), Stage((second,)), Stage(tuple(rest))))
        await here.executor.execute(OWNER, plan)
        assert crowd.widest == 3


@virtually
async def test_after_a_failure_the_next_stage_starts_slowly_again() -> None:
    async with executor_fixture() as here:
        await here.executor.execute(OWNER, do(create("taken", "somebody")))
        crowd = Crowd(here.faults)
        start = [create(f"s{n}") for n in range(3)]
        rest = [create(f"m{n}") for n in range(4)]
        stages = (Stage(tuple(start)), Stage((create("taken"),), independent=True))
        await here.executor.execute(OWNER, Plan((*stages, Stage(tuple(rest)))))
        assert crowd.widest == 2
        assert {"m0", "m1"} <= set(await here.names())


@virtually
async def test_a_systemic_failure_stops_the_stage_after_the_first_try() -> None:
    async with executor_fixture() as here:
        here.faults.deny(is_write, times=None)
        outcome = await here.executor.execute(OWNER, do(*(create(f"m{n}") for n in range(100))))
        assert len(outcome.failures) == 1
        assert isinstance(outcome.failures[0].error, Forbidden)
        assert len(outcome.skipped) == 99


@virtually
async def test_one_bad_object_does_not_stop_the_others_of_its_stage() -> None:
    async with executor_fixture() as here:
        bad = create("Not_A_Name")
        outcome = await here.executor.execute(OWNER, do(bad, create("a"), create("b")))
        assert await here.names() == {"a", "b"}
        assert [one.action for one in outcome.failures] == [bad]


@virtually
async def test_a_failed_stage_stops_the_later_ones_unless_it_is_independent() -> None:
    async with executor_fixture() as here:
        groups = ((create("Bad_Name"),), (create("later"),))
        outcome = await here.executor.execute(OWNER, stages(*groups))
        assert [one.key.name for one in outcome.skipped] == ["later"]
        assert await here.names() == set()
        outcome = await here.executor.execute(OWNER, stages(*groups, independent=True))
        assert outcome.failure is not None
        assert await here.names() == {"later"}


@virtually
async def test_what_our_earlier_self_created_counts_as_done() -> None:
    async with executor_fixture() as here:
        await here.executor.execute(OWNER, do(create("a", owner="u1")))
        outcome = await here.executor.execute(OWNER, do(create("a", owner="u1")))
        (result,) = outcome.done
        assert result.existed
        assert result.resource_version


@virtually
async def test_a_name_taken_by_another_owner_is_a_failure_that_names_it() -> None:
    async with executor_fixture() as here:
        await here.executor.execute(OWNER, do(create("a", owner="u1")))
        outcome = await here.executor.execute(OWNER, do(create("a", owner="u2")))
        assert outcome.failure is not None
        assert isinstance(outcome.failure.error, OwnedByAnotherError)
        assert "owner-u1" in str(outcome.failure.error)


_SHAPES: Mapping[Resource, Mapping[str, Any]] = {
    SECRETS: {"data": {"auth_token": "bWluZQ=="}},
    PERSISTENT_VOLUME_CLAIMS: {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
}


def wanted(resource: Resource, owner: str = "u1") -> Create:
    meta = config_map("a", owner)["metadata"]
    return Create(
        resource,
        {"metadata": meta, **_SHAPES.get(resource, {})},
        Why.TEST,
        on_exists=OnExists.USE,
        cached_by_label=resource is ROLES,
    )


@pytest.mark.parametrize(
    "resource",
    [SECRETS, SERVICE_ACCOUNTS, ROLES, PERSISTENT_VOLUME_CLAIMS],
    ids=lambda one: one.kind,
)
@virtually
async def test_what_nobody_owns_and_only_has_to_be_there_is_used_as_it_is(
    resource: Resource,
) -> None:
    async with executor_fixture() as here:
        own = {"metadata": {"name": "a", "labels": {"my": "own"}}, **_SHAPES.get(resource, {})}
        await here.plane.client.create(resource, "default", own)
        before = await here.plane.client.get(resource, Key("default", "a"))
        outcome = await here.executor.execute(OWNER, do(wanted(resource)))
        assert outcome.failure is None
        (result,) = outcome.done
        assert result.existed
        assert await here.plane.client.get(resource, Key("default", "a")) == before


@virtually
async def test_of_other_kinds_what_nobody_owns_is_a_failure() -> None:
    async with executor_fixture() as here:
        await here.plane.client.create(CONFIG_MAPS, "default", config_map("a"))
        outcome = await here.executor.execute(OWNER, do(create("a", owner="u1")))
        assert outcome.failure is not None
        assert isinstance(outcome.failure.error, OwnedByAnotherError)
        assert "has no owner" in str(outcome.failure.error)


@pytest.mark.parametrize("resource", [SECRETS, ROLES], ids=lambda one: one.kind)
@virtually
async def test_what_another_owns_is_never_used(resource: Resource) -> None:
    async with executor_fixture() as here:
        await here.executor.execute(OWNER, do(wanted(resource, "u1")))
        outcome = await here.executor.execute(OWNER, do(wanted(resource, "u2")))
        assert outcome.failure is not None
        assert isinstance(outcome.failure.error, OwnedByAnotherError)


@virtually
async def test_what_is_used_and_in_no_cache_is_taken_for_granted_for_a_while() -> None:
    async with executor_fixture() as here:
        await here.plane.client.create(ROLES, "default", {"metadata": {"name": "a"}})
        for _ in range(3):
            outcome = await here.executor.execute(OWNER, do(wanted(ROLES)))
            (result,) = outcome.done
            assert result.existed
        assert [one.method for one in here.faults.log] == ["POST", "GET"]
        await here.plane.client.delete(ROLES, Key("default", "a"))
        await asyncio.sleep(REMEMBER_SECONDS)
        (result,) = (await here.executor.execute(OWNER, do(wanted(ROLES)))).done
        assert not result.existed


@virtually
async def test_a_secret_is_looked_for_whenever_it_is_wanted() -> None:
    """It is wanted only when someone misses it."""
    async with executor_fixture() as here:
        await here.plane.client.create(SECRETS, "default", {"metadata": {"name": "a"}})
        await here.executor.execute(OWNER, do(wanted(SECRETS)))
        await here.plane.client.delete(SECRETS, Key("default", "a"))
        (result,) = (await here.executor.execute(OWNER, do(wanted(SECRETS)))).done
        assert not result.existed


@virtually
async def test_a_creation_that_must_be_the_first_fails_on_an_existing_object() -> None:
    async with executor_fixture() as here:
        await here.executor.execute(OWNER, do(create("a", owner="u1")))
        first = replace(create("a", owner="u1"), on_exists=OnExists.FAIL)
        outcome = await here.executor.execute(OWNER, do(first))
        assert outcome.failure is not None
        assert isinstance(outcome.failure.error, AlreadyExists)


@virtually
async def test_labels_that_our_own_object_lost_are_restored() -> None:
    async with executor_fixture() as here:
        key, labels = Key("default", "a"), {"ours": "yes"}
        labelled = Create(
            CONFIG_MAPS, config_map("a", "u1", labels=labels), Why.TEST, cached_by_label=True
        )
        await here.executor.execute(OWNER, do(labelled))
        await here.executor.execute(OWNER, do(labelled))
        assert [one.method for one in here.faults.log] == ["POST", "POST", "GET"]  # none is lost
        lost = {"metadata": {"labels": {"ours": None, "theirs": "yes"}}}
        await here.plane.client.patch(CONFIG_MAPS, key, lost)
        (result,) = (await here.executor.execute(OWNER, do(labelled))).done
        assert result.existed
        found = await here.plane.client.get(CONFIG_MAPS, key)
        assert found["metadata"]["labels"] == {"ours": "yes", "theirs": "yes"}


class StaleOwners(Freshness):
    """Notes the owners that are to be read live."""

    def __init__(self) -> None:
        super().__init__(Random(1))
        self.stale: list[tuple[str, Key]] = []

    def note_stale(self, owner: Owner, api_version: str, kind: str, key: Key) -> None:
        self.stale.append((kind, key))


@virtually
async def test_the_owner_of_an_object_that_had_to_be_created_again_is_read_live() -> None:
    """Else the objects of an owner that is gone would be created for as long as the event is late."""
    async with virtual_plane() as plane:
        freshness = StaleOwners()
        executor = PlanExecutor(plane.client, freshness)

        async def made(name: str, owner: str = "u1") -> None:
            await executor.execute(OWNER, do(create(name, owner)))
            await plane.client.delete(CONFIG_MAPS, Key("default", name))

        await made("a")
        await made("without-owner", "")
        assert freshness.stale == []
        await made("without-owner", "")
        assert freshness.stale == []
        await made("a")
        assert freshness.stale == [("ConfigMap", Key("default", "owner-u1"))]
        await asyncio.sleep(RECREATED_SECONDS + 1)
        await made("a")
        assert len(freshness.stale) == 1  # long after the last one it is no sign of a late event


@virtually
async def test_a_name_still_held_by_an_object_on_its_way_out_is_waited_for() -> None:
    async with executor_fixture() as here:
        body = config_map("a", "u1", finalizers=["example.com/hold"])
        await here.plane.client.create(CONFIG_MAPS, "default", body)
        await here.plane.client.delete(CONFIG_MAPS, Key("default", "a"))
        outcome = await here.executor.execute(OWNER, do(create("a", owner="u1")))
        assert outcome.failure is not None
        assert isinstance(outcome.failure.error, BeingDeletedError)


@virtually
async def test_a_delete_spares_an_object_recreated_under_the_same_name() -> None:
    async with executor_fixture() as here:
        (made,) = (await here.executor.execute(OWNER, do(create("a")))).done
        delete = Delete(CONFIG_MAPS, made.key, made.uid, Why.TEST)
        await here.plane.client.delete(CONFIG_MAPS, made.key)
        assert (await here.executor.execute(OWNER, do(delete))).failure is None
        await here.plane.client.create(CONFIG_MAPS, "default", config_map("a"))
        assert (await here.executor.execute(OWNER, do(delete))).failure is None
        assert await here.names() == {"a"}


@virtually
async def test_a_patch_of_an_object_that_was_recreated_is_refused() -> None:
    async with executor_fixture() as here:
        await here.executor.execute(OWNER, do(create("a")))
        patch = Patch(
            CONFIG_MAPS, Key("default", "a"), {"data": {"x": "y"}}, Why.TEST, uid=Uid("another")
        )
        outcome = await here.executor.execute(OWNER, do(patch))
        assert outcome.failure is not None
        assert isinstance(outcome.failure.error, Conflict)
        found = await here.plane.client.get(CONFIG_MAPS, Key("default", "a"))
        assert "data" not in found


@pytest.mark.parametrize("kind", ["merge", "json", "strategic", "apply"])
def test_every_kind_of_patch_carries_its_preconditions(kind: Any) -> None:
    @virtually
    async def story() -> None:
        async with executor_fixture() as here:
            (made,) = (await here.executor.execute(OWNER, do(create("a")))).done
            body: Any = {"data": {"x": "y"}}
            if kind == "json":
                body = [{"op": "add", "path": "/data", "value": {"x": "y"}}]
            if kind == "apply":
                body = {**config_map("a"), **body}
            patch = Patch(
                CONFIG_MAPS,
                made.key,
                body,
                Why.TEST,
                kind=kind,
                uid=made.uid,
                resource_version=made.resource_version,
            )
            assert (await here.executor.execute(OWNER, do(patch))).failure is None
            outcome = await here.executor.execute(OWNER, do(patch))
            assert outcome.failure is not None  # the version has moved on

    story()


@virtually
async def test_a_lost_reply_is_unknown_and_not_failed() -> None:
    async with executor_fixture() as here:
        here.faults.fail_after(touches(CONFIG_MAPS, "POST"), times=1)
        outcome = await here.executor.execute(OWNER, do(create("a")))
        assert outcome.failure is not None
        assert outcome.failure.unknown
        assert isinstance(outcome.failure.error, Unreachable)
        assert await here.names() == {"a"}


@virtually
async def test_secrets_are_drawn_when_performed_and_never_ride_in_the_plan() -> None:
    async with executor_fixture() as here:
        manifest = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "token", "namespace": "default"},
        }
        action = Create(SECRETS, manifest, Why.TEST, secret_data=("auth_token",))
        await here.executor.execute(OWNER, do(action))
        found = await here.plane.client.get(SECRETS, Key("default", "token"))
        drawn = base64.b64decode(found["data"]["auth_token"])
        assert len(drawn) >= 32
        assert drawn.decode() not in repr(action)
        assert "data" not in manifest


@virtually
async def test_calls_go_to_the_controllers_own_hands() -> None:
    async def perform(call: Call) -> Mapping[str, Any]:
        if call.verb == "stop":
            raise TimeoutError("dashboard")
        return {"id": call.arguments["job"]}

    async with executor_fixture() as here:
        key = Key("default", "job")
        submit = Call("submit", key, Why.TEST, arguments={"job": "j1"})
        stop = Call("stop", key, Why.TEST, must_succeed=False)
        plan = stages((stop,), (submit,), (create("after"),))
        outcome = await here.executor.execute(OWNER, plan, perform)
        assert outcome.failure is None  # the best-effort call stops nothing
        assert len(outcome.failures) == 1
        assert [dict(one.answer) for one in outcome.done] == [{"id": "j1"}, {}]
        assert await here.names() == {"after"}


@virtually
async def test_a_call_that_must_succeed_stops_what_follows() -> None:
    async def perform(call: Call) -> Mapping[str, Any]:
        raise TimeoutError("dashboard")

    async with executor_fixture() as here:
        plan = stages((Call("put", Key("default", "x"), Why.TEST),), (create("after"),))
        outcome = await here.executor.execute(OWNER, plan, perform)
        assert outcome.failure is not None
        assert await here.names() == set()


@virtually
async def test_a_call_whose_reply_was_lost_may_have_been_executed() -> None:
    class LostError(Exception):
        unknown = True

    async def perform(call: Call) -> Mapping[str, Any]:
        raise LostError if call.verb == "lost" else TimeoutError

    async with executor_fixture() as here:
        calls = (Call(verb, Key("default", "x"), Why.TEST) for verb in ("lost", "late"))
        outcome = await here.executor.execute(OWNER, stages(tuple(calls)), perform)
    assert {one.action.verb: one.unknown for one in outcome.failures} == {
        "lost": True,
        "late": False,
    }


@virtually
async def test_pods_are_deleted_with_the_grace_that_was_asked_for() -> None:
    async with executor_fixture() as here:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        made = await here.plane.client.create(PODS, "default", pod)
        key = Key("default", "p")
        now = Delete(PODS, key, made.metadata.uid, Why.TEST, grace_seconds=0)
        assert (await here.executor.execute(OWNER, do(now))).failure is None
        assert (await here.plane.client.list(PODS, "default")).items == []


@virtually
async def test_a_failed_action_is_logged_as_a_warning_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with executor_fixture() as here:
        here.faults.answer(is_write, status(403, "Forbidden", "denied"), times=None)
        for _ in range(3):
            await here.executor.execute(OWNER, do(create("a")))
        other = Owner("toy", Key("default", "other"))
        await here.executor.execute(other, do(create("b")))
        await asyncio.sleep(61)
        await here.executor.execute(OWNER, do(create("a")))
    warnings = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    why = "denied (403 Forbidden)"
    assert warnings == [
        f"cannot create ConfigMap default/{name}: {why}" for name in ("a", "b", "a")
    ]
