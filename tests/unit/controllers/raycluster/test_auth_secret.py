"""The Secret with the token: there before a head, and again when a Pod waits for it in vain."""

from __future__ import annotations

from typing import Any

import pytest

from manta.api.resources import PODS, SECRETS
from manta.controllers.raycluster.events import Cause, action_events
from manta.kube.errors import ApiError
from manta.reconcile.actions import Action, Create
from manta.reconcile.outcome import Outcome, Result
from support.raycluster import group, ray_cluster
from support.raycluster_scenario import Scenario, decode

TOKEN: dict[str, Any] = {"authOptions": {"mode": "token"}}
MISSING = 'secret "demo" not found'


def settled(**spec: Any) -> Scenario:
    scenario = Scenario(decode(ray_cluster(**spec)))
    scenario.settle()
    return scenario


def awaits(pod: dict[str, Any], message: str = MISSING, kind: str = "containerStatuses") -> None:
    waiting = {"reason": "CreateContainerConfigError", "message": message}
    pod["status"] = {"phase": "Pending", kind: [{"name": "ray", "state": {"waiting": waiting}}]}


def secrets(scenario: Scenario) -> list[Action]:
    actions = scenario.plan().actions
    return [one for one in actions if isinstance(one, Create) and one.resource == SECRETS]


@pytest.mark.parametrize("kind", ["containerStatuses", "initContainerStatuses"])
def test_authentication_that_is_turned_on_under_a_living_head_brings_the_secret(kind: str) -> None:
    scenario = settled()
    scenario.set_spec(ray_cluster(groups=[group(replicas=2)], **TOKEN))
    scenario.reconcile()
    [new] = [pod for pod in scenario.workers() if "status" not in pod]
    awaits(new, kind=kind)
    [secret] = secrets(scenario)
    assert secret.cause == Cause.AUTH_SECRET_AGAIN
    assert isinstance(secret, Create)
    assert secret.secret_data == ("auth_token",)
    scenario.reconcile()
    assert (SECRETS, "demo") in scenario.objects
    del new["status"]
    scenario.settle()
    assert scenario.plan().actions == ()


def test_a_secret_that_was_deleted_comes_back_and_its_new_token_is_reported() -> None:
    scenario = settled(**TOKEN)
    del scenario.objects[SECRETS, "demo"]
    assert scenario.plan().actions == ()  # nobody misses it yet
    [worker] = scenario.workers()
    awaits(worker)
    [secret] = secrets(scenario)
    [event] = action_events(Outcome((Result(secret, secret.key),)))
    assert (event.type, event.reason) == ("Warning", "CreatedSecret")
    for part in ("default/demo", worker["metadata"]["name"], "token is new", "Delete the head Pod"):
        assert part in event.note
    assert action_events(Outcome((Result(secret, secret.key, existed=True),))) == []


def test_a_head_that_waits_for_it_itself_has_no_earlier_token() -> None:
    scenario = settled(**TOKEN)
    for pod in (*scenario.heads(), *scenario.workers()):
        awaits(pod)
    [secret] = secrets(scenario)
    assert secret.cause == Cause.AUTH_SECRET


def test_a_new_head_brings_it_along_and_nobody_asks_twice() -> None:
    scenario = settled(**TOKEN)
    awaits(scenario.workers()[0])
    [head] = scenario.heads()
    del scenario.objects[PODS, head["metadata"]["name"]]
    [secret] = secrets(scenario)
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
    scenario = settled(**TOKEN)
    awaits(scenario.workers()[0], message)
    assert secrets(scenario) == []


def test_a_pod_on_its_way_out_needs_none() -> None:
    scenario = settled(**TOKEN)
    [worker] = scenario.workers()
    awaits(worker)
    worker["metadata"]["deletionTimestamp"] = "2026-11-15T08:00:00Z"
    assert secrets(scenario) == []


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
    scenario = settled(authOptions=options)
    awaits(scenario.workers()[0])
    assert secrets(scenario) == []


@pytest.mark.parametrize("kinds", [["worker"], ["head", "worker"]], ids=["worker", "head too"])
def test_a_secret_that_is_refused_stops_nothing_else(kinds: list[str]) -> None:
    scenario = settled(**TOKEN)
    for pod in scenario.of("Pod"):
        if pod["metadata"]["labels"]["ray.io/node-type"] in kinds:
            awaits(pod)
    scenario.set_spec(ray_cluster(groups=[group(replicas=3)], **TOKEN))

    def no_secret(action: Action) -> Exception | None:
        refused = isinstance(action, Create) and action.resource == SECRETS
        return ApiError(403, "Forbidden", "no") if refused else None

    scenario.reconcile(no_secret)
    assert len(scenario.workers()) == 3
    assert "default/demo" in str(scenario.cluster.status.conditions)
