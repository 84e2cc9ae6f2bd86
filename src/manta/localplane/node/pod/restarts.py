"""Whether and when a container that ended starts again. Pure."""

from __future__ import annotations

from manta.localplane.kubelet import restart_delay, restarts_container
from manta.localplane.node.pod.snapshot import ContainerFacts
from manta.localplane.node.spec.pod_spec import Container, NodePod


def should_restart(pod: NodePod, container: Container, code: int) -> bool:
    """Whether the Pod wants this container to run again after it ended with `code`."""
    if container in pod.spec.ephemeral_containers:
        return False
    if container.restart_policy == "Always":
        return True
    policy = pod.spec.restart_policy
    if container in pod.spec.init_containers:
        return code != 0 and policy != "Never"
    return restarts_container(policy, code)


def restart_at(facts: ContainerFacts) -> float:
    """The time from which the ended container may start again."""
    finished = facts.termination.finished if facts.termination else 0.0
    return finished + restart_delay(facts.crashes)
