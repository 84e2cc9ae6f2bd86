"""What a row of probe results means. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from manta.localplane.node.podspec import Container, Probe
from manta.localplane.node.snapshot import ContainerFacts, Life


class ProbeKind(StrEnum):
    STARTUP = "Startup"
    READINESS = "Readiness"
    LIVENESS = "Liveness"


@dataclass(frozen=True, slots=True)
class Tally:
    """Results of one kind in a row."""

    successes: int = 0
    failures: int = 0

    def after(self, *, success: bool) -> Tally:
        if success:
            return Tally(successes=self.successes + 1)
        return Tally(failures=self.failures + 1)


def verdict(probe: Probe, tally: Tally) -> bool | None:
    """True and False are judgements; None: keep the one that stands."""
    if tally.successes >= max(probe.success_threshold, 1):
        return True
    if tally.failures >= max(probe.failure_threshold, 1):
        return False
    return None


def wanted_probes(container: Container, facts: ContainerFacts) -> dict[ProbeKind, Probe]:
    """Which probes should be running now: the startup probe alone, then the other two."""
    if facts.life is not Life.RUNNING or facts.stopping is not None:
        return {}
    if container.startup_probe is not None and not facts.startup_passed:
        return {ProbeKind.STARTUP: container.startup_probe}
    wanted = {
        ProbeKind.READINESS: container.readiness_probe,
        ProbeKind.LIVENESS: container.liveness_probe,
    }
    return {kind: probe for kind, probe in wanted.items() if probe is not None}
