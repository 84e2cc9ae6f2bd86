"""The table of steps, and what the steps of all areas need."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_CRON_JOBS, RAY_JOBS, RAY_SERVICES
from manta.api.resources import (
    GATEWAYS,
    HTTP_ROUTES,
    INGRESSES,
    JOBS,
    NETWORK_POLICIES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    ROUTES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from manta.kube.errors import MantaError, NotFound
from simulation.transport import SimulatedTransport

if TYPE_CHECKING:
    from simulation.operators import Life, Replica
    from simulation.world import World

NAMESPACE = "default"
KINDS: dict[str, Resource] = {
    "RayCluster": RAY_CLUSTERS,
    "RayJob": RAY_JOBS,
    "RayService": RAY_SERVICES,
    "RayCronJob": RAY_CRON_JOBS,
    "Pod": PODS,
    "Service": SERVICES,
    "Job": JOBS,
    "Secret": SECRETS,
    "ServiceAccount": SERVICE_ACCOUNTS,
    "Role": ROLES,
    "RoleBinding": ROLE_BINDINGS,
    "Ingress": INGRESSES,
    "Route": ROUTES,
    "NetworkPolicy": NETWORK_POLICIES,
    "PodDisruptionBudget": POD_DISRUPTION_BUDGETS,
    "Gateway": GATEWAYS,
    "HTTPRoute": HTTP_ROUTES,
}
DRIFT: dict[str, dict[str, Any]] = {
    "Service": {"spec": {"selector": {"app": "else"}}},
    "Role": {"rules": []},
    "RoleBinding": {"subjects": []},
    "Ingress": {"spec": {"rules": [{"host": "else.example.com"}]}},
    "Route": {"spec": {"to": {"kind": "Service", "name": "else"}}},
    "NetworkPolicy": {"spec": {"podSelector": {"matchLabels": {"app": "else"}}}},
    "PodDisruptionBudget": {"spec": {"minAvailable": 0}},
    "Gateway": {"spec": {"gatewayClassName": "else"}},
    "HTTPRoute": {"spec": {"rules": []}},
}
"""What `drift` changes in an object of the operator: it must be put right, whoever did it."""
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Action:
    area: str
    """user, operator, server, watch, node, ray or policy."""
    text: str
    apply: Callable[..., Any]
    touches_jobs: bool = False
    """Whether a running Ray job may fail because of it."""


ACTIONS: dict[str, Action] = {}


def action(area: str, *, touches_jobs: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Enter a function into the table; its docstring documents it."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__.rstrip("_")
        ACTIONS[name] = Action(area, (function.__doc__ or "").strip(), function, touches_jobs)
        return function

    return enter


def later(world: World, seconds: float, undo: Callable[[], object]) -> None:
    asyncio.get_running_loop().call_later(seconds, undo)


def replica_of(world: World, number: int) -> Replica:
    return world.replicas[number % len(world.replicas)]


def lives(world: World) -> list[Life]:
    return [one.life for one in world.replicas if one.life is not None]


def transports(world: World) -> list[SimulatedTransport]:
    return [life.transport for life in lives(world)]


def with_pod(world: World, role: str, number: int, do: Callable[[Key], None]) -> None:
    pods = [one for one in world.pods(role) if not one["metadata"].get("deletionTimestamp")]
    if pods:
        meta = pods[number % len(pods)]["metadata"]
        try:
            do(Key(meta["namespace"], meta["name"]))
        except LookupError:
            return  # it is on no node yet


async def quietly(request: Any) -> bool:
    try:
        await request
    except (MantaError, NotFound):
        return False
    return True


def storage_name(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def is_ours(found: Object) -> bool:
    owners = found["metadata"].get("ownerReferences") or ()
    return any(one["kind"].startswith("Ray") for one in owners)
