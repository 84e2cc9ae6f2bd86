from __future__ import annotations

from manta.localplane.node.pod.probe_results import ProbeKind, ProbeTally, active_probes, verdict
from manta.localplane.node.pod.snapshot import Stopping
from manta.localplane.node.spec.pod_spec import Probe
from support.node import a_pod, ended, running

PROBED = a_pod(
    containers=[
        {
            "name": "main",
            "startupProbe": {"tcpSocket": {"port": 1}},
            "readinessProbe": {"tcpSocket": {"port": 2}},
            "livenessProbe": {"tcpSocket": {"port": 3}},
        }
    ]
).spec.containers[0]


def test_only_the_startup_probe_runs_until_it_passes() -> None:
    assert set(active_probes(PROBED, running())) == {ProbeKind.STARTUP}
    after = active_probes(PROBED, running(startup_passed=True))
    assert set(after) == {ProbeKind.READINESS, ProbeKind.LIVENESS}


def test_what_does_not_run_or_is_being_stopped_is_not_probed() -> None:
    assert active_probes(PROBED, ended(0)) == {}
    assert active_probes(PROBED, running(stopping=Stopping(1.0, 2.0))) == {}


def test_a_verdict_needs_a_row_of_equal_results() -> None:
    probe = Probe(failure_threshold=2, success_threshold=2)
    tally = ProbeTally().after(success=False)
    assert verdict(probe, tally) is None
    assert verdict(probe, tally.after(success=False)) is False
    assert verdict(probe, tally.after(success=True)) is None
    assert verdict(probe, tally.after(success=True).after(success=True)) is True
