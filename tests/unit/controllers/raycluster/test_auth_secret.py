"""The Secret with the token: there before a head, and again when a Pod waits for it in vain."""

from __future__ import annotations

from typing import Any

import pytest

from manta.api.resources import PODS, SECRETS
from manta.controllers.raycluster.events import Cause, told
from manta.kube.errors import ApiError
from manta.reconcile.actions import Action, Create
from manta.reconcile.outcome import Outcome, Result
from support.raycluster import group, ray_cluster
from support.raycluster_world import World, decode

TOKEN = {"authOptions": {"mode": "token"}}
MISSING = 'secret "demo" not found'


def settled(**spec: Any) -> World:
    world = World(decode(ray_cluster(**spec)))
    world.settle()
    return world


def awaits(pod: dict[str, Any], message: str = MISSING, kind: str = "containerStatuses") -> None:
    waiting = {"reason": "CreateContainerConfigError", "message": message}
    pod["status"] = {"phase": "Pending", kind: [{"name": "ray", "state": {"waiting": waiting}}]}


def secrets(world: World) -> list[Action]:
    actions = world.plan().actions
    return [one for one in actions if isinstance(one, Create) and one.resource == SECRETS]


@pytest.mark.parametrize("kind", ["containerStatuses", "initContainerStatuses"])
def test_authentication_that_is_turned_on_under_a_living_head_brings_the_secret(kind: str) -> None:
    world = settled()
    world.set_spec(ray_cluster(groups=[group(replicas=2)], **TOKEN))
    world.round()
    [new] = [pod for pod in world.workers() if "status" not in pod]
    awaits(new, kind=kind)
    [secret] = secrets(world)
    assert secret.cause == Cause.AUTH_SECRET_ANEW
    assert isinstance(secret, Create)
    assert secret.secret_data == ("auth_token",)
    world.round()
    assert (SECRETS, "demo") in world.objects
    del new["status"]
    world.settle()
    assert world.plan().actions == ()


def test_a_secret_that_was_deleted_comes_back_and_its_new_token_is_told() -> None:
    world = settled(**TOKEN)
    del world.objects[SECRETS, "demo"]
    assert world.plan().actions == ()  # nobody misses it yet
    [worker] = world.workers()
    awaits(worker)
    [secret] = secrets(world)
    [event] = told(Outcome((Result(secret, secret.key),)))
    assert (event.type, event.reason) == ("Warning", "CreatedSecret")
    for part in ("default/demo", worker["metadata"]["name"], "token is new", "Delete the head Pod"):
        assert part in event.note
    assert told(Outcome((Result(secret, secret.key, existed=True),))) == []


def test_a_head_that_waits_for_it_itself_has_no_earlier_token() -> None:
    world = settled(**TOKEN)
    for pod in (*world.heads(), *world.workers()):
        awaits(pod)
    [secret] = secrets(world)
    assert secret.cause == Cause.AUTH_SECRET


def test_a_new_head_brings_it_along_and_nobody_asks_twice() -> None:
    world = settled(**TOKEN)
    awaits(world.workers()[0])
    [head] = world.heads()
    del world.objects[PODS, head["metadata"]["name"]]
    [secret] = secrets(world)
    assert secret.cause == Cause.AUTH_SECRET


@pytest.mark.parametrize(
    "message",
    [
        "couldn't find key auth_token in Secret default/demo",
        'secret "other" not found',
        'secret "demo-2" not found',
        'configmap "demo" not found',
        "",
    ],
)
def test_what_the_secret_would_not_cure_asks_for_none(message: str) -> None:
    world = settled(**TOKEN)
    awaits(world.workers()[0], message)
    assert secrets(world) == []


def test_a_pod_on_its_way_out_needs_none() -> None:
    world = settled(**TOKEN)
    [worker] = world.workers()
    awaits(worker)
    worker["metadata"]["deletionTimestamp"] = "2026-11-15T08:00:00Z"
    assert secrets(world) == []


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "token", "secretName": "demo"},
        {"mode": "token", "enableK8sTokenAuth": True},
        {"mode": "disabled"},
        {},
    ],
)
def test_what_is_not_ours_to_make_is_not_made(options: dict[str, Any]) -> None:
    world = settled(authOptions=options)
    awaits(world.workers()[0])
    assert secrets(world) == []


def test_a_secret_that_is_refused_stops_nothing_else() -> None:
    world = settled(**TOKEN)
    awaits(world.workers()[0])
    world.set_spec(ray_cluster(groups=[group(replicas=3)], **TOKEN))

    def no_secret(action: Action) -> Exception | None:
        refused = isinstance(action, Create) and action.resource == SECRETS
        return ApiError(403, "Forbidden", "no") if refused else None

    world.round(no_secret)
    assert len(world.workers()) == 3
    assert "default/demo" in str(world.cluster.status.conditions)
