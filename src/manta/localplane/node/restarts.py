"""When an ended container runs again: restart policies and the growing delay. Pure."""

from __future__ import annotations

from manta.localplane.node.podspec import Container, NodePod
from manta.localplane.node.snapshot import ContainerFacts

FIRST_DELAY = 10.0
LONGEST_DELAY = 300.0
LONG_RUN = 600.0
"""Who ran this long has not crashed: the delay starts anew."""


def runs_again(pod: NodePod, container: Container, code: int) -> bool:
    """Does the Pod's policy want this container after it ended with `code`?"""
    if container in pod.spec.ephemeral_containers:
        return False
    if container.restart_policy == "Always":
        return True
    policy = pod.spec.restart_policy
    if container in pod.spec.init_containers:
        return code != 0 and policy != "Never"
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def delay_before_restart(crashes: int) -> float:
    """None before the first restart; then 10 s, doubling up to five minutes."""
    if crashes <= 1:
        return 0.0
    return float(min(FIRST_DELAY * 2 ** min(crashes - 2, 10), LONGEST_DELAY))


def restart_at(facts: ContainerFacts) -> float:
    """When the container that ended may start again."""
    finished = facts.ended.finished if facts.ended else 0.0
    return finished + delay_before_restart(facts.crashes)


def crashes_after(crashes: int, started: float, finished: float) -> int:
    return 1 if finished - started >= LONG_RUN else crashes + 1
