"""May a cluster take the traffic? If not: what is in the way, in words that name it.

The order of the questions is the order of things: the head, the dashboard, the config, the
applications, a Pod that takes requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from manta.api.conditions import find
from manta.api.ray.cluster import ClusterConditionType
from manta.api.ray.service import ApplicationStatusWord, AppStatus
from manta.controllers.rayservice.snapshot import ClusterSight, NotAsked, Silent, Told
from manta.rules.pod_health import blockage

BLOCKED = "Blocked"
"""The RayCluster's own condition that says what holds it up."""


def obstacle(sight: ClusterSight, applications: Sequence[str], *, needs_taker: bool = True) -> str:
    """What keeps this cluster from taking requests; empty when nothing does.

    `needs_taker`: False for a first cluster. There is no traffic that a switch could lose, and its
    workers may come only with the first requests.
    """
    name = sight.name
    if not sight.head_is_ready:
        return f"RayCluster {name}: {_what_it_waits_for(sight)}"
    match sight.answer:
        case NotAsked():
            return waiting_for_serve(name)
        case Silent(why=why):
            return f"the dashboard of RayCluster {name} does not answer: {why}"
        case Told(applications=told):
            return _applications(told, applications, name) or (
                _takers(sight) if needs_taker else ""
            )


def waiting_for_serve(name: str) -> str:
    """One wording for the moments between a ready head and Serve's first word on the config."""
    return f"waiting for Serve on RayCluster {name} to start the applications"


def _applications(told: Mapping[str, AppStatus], wanted: Sequence[str], name: str) -> str:
    if not wanted:
        return "spec.serveConfigV2 declares no application"
    if not any(one in told for one in wanted):
        return waiting_for_serve(name)
    troubles = [text for one in wanted if (text := _application(told.get(one), one))]
    if not troubles:
        return ""
    rest = f" (and {len(troubles) - 1} more applications)" if len(troubles) > 1 else ""
    return f"on RayCluster {name} {troubles[0]}{rest}"


def _application(status: AppStatus | None, name: str) -> str:
    if status is None:
        return f'application "{name}" is not known to Serve yet'
    if status.status == ApplicationStatusWord.RUNNING:
        return ""
    said = f": {_one_line(status.message)}" if status.message else ""
    deployments = "; ".join(_deployments(status))
    return f'application "{name}" is {status.status or "unknown"}{said}' + (
        f"; {deployments}" if deployments else ""
    )


def _deployments(status: AppStatus) -> Iterator[str]:
    for name, deployment in status.serve_deployment_statuses.items():
        if deployment.status != "HEALTHY":
            said = f": {_one_line(deployment.message)}" if deployment.message else ""
            yield f'deployment "{name}" is {deployment.status}{said}'


def _one_line(text: str, longest: int = 500) -> str:
    """Of a traceback the last words say most."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[:80]} ... {line[-(longest - 80) :]}"


def _takers(sight: ClusterSight) -> str:
    """Serve is well, but would a request reach a Pod? Else a switch would leave a gap."""
    if sight.serving_pods:
        return ""
    held_up = (blockage(pod) for pod in sight.pods if pod is not sight.head_pod)
    why = next((one.message for one in held_up if one is not None), "")
    if not why and sight.proxy_answers is False:
        why = "the Serve proxy on the head does not answer"
    return f"no Pod of RayCluster {sight.name} takes requests yet" + (f": {why}" if why else "")


def _what_it_waits_for(sight: ClusterSight) -> str:
    """The cluster's own words (C29), or the Pod's."""
    for type_ in (BLOCKED, ClusterConditionType.REPLICA_FAILURE):
        condition = find(sight.cluster.status.conditions, type_)
        if condition is not None and condition.status == "True" and condition.message:
            return condition.message
    held_up = blockage(sight.head_pod) if sight.head_pod is not None else None
    return held_up.message if held_up is not None else "waiting for its head Pod to be ready"
