"""The verdict of consecutive probe results. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from manta.localplane.node.pod.snapshot import ContainerFacts, ContainerState
from manta.localplane.node.spec.pod_spec import Container, Probe


class ProbeKind(StrEnum):
    STARTUP = "Startup"
    READINESS = "Readiness"
    LIVENESS = "Liveness"


@dataclass(frozen=True, slots=True)
class ProbeTally:
    """Consecutive results of the same kind."""

    successes: int = 0
    failures: int = 0

    def after(self, *, success: bool) -> ProbeTally:
        if success:
            return ProbeTally(successes=self.successes + 1)
        return ProbeTally(failures=self.failures + 1)


def verdict(probe: Probe, tally: ProbeTally) -> bool | None:
    """True or False when a threshold is reached, else None (the verdict does not change)."""
    if tally.successes >= max(probe.success_threshold, 1):
        return True
    if tally.failures >= max(probe.failure_threshold, 1):
        return False
    return None


def active_probes(container: Container, facts: ContainerFacts) -> dict[ProbeKind, Probe]:
    """The probes that should run now: the startup probe alone, then the other two."""
    if facts.state is not ContainerState.RUNNING or facts.stopping is not None:
        return {}
    if container.startup_probe is not None and not facts.startup_passed:
        return {ProbeKind.STARTUP: container.startup_probe}
    wanted = {
        ProbeKind.READINESS: container.readiness_probe,
        ProbeKind.LIVENESS: container.liveness_probe,
    }
    return {kind: probe for kind, probe in wanted.items() if probe is not None}
