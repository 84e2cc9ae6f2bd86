from __future__ import annotations

import pytest

from manta.localplane.kubelet import crashes_after, restart_delay
from manta.localplane.node.pod.restarts import should_restart
from support.node import a_pod


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [
        ("Always", 0, True),
        ("Always", 1, True),
        ("OnFailure", 0, False),
        ("OnFailure", 1, True),
        ("Never", 0, False),
        ("Never", 1, False),
    ],
)
def test_the_policy_decides_about_app_containers(policy: str, code: int, again: bool) -> None:
    pod = a_pod(restartPolicy=policy)
    assert should_restart(pod, pod.spec.containers[0], code) == again


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [("Always", 0, False), ("Always", 1, True), ("OnFailure", 1, True), ("Never", 1, False)],
)
def test_an_init_container_runs_again_only_after_a_failure(
    policy: str, code: int, again: bool
) -> None:
    pod = a_pod(initContainers=[{"name": "init"}], restartPolicy=policy)
    assert should_restart(pod, pod.spec.init_containers[0], code) == again


def test_a_sidecar_always_runs_again() -> None:
    side = {"name": "side", "restartPolicy": "Always"}
    pod = a_pod(initContainers=[side], restartPolicy="Never")
    assert should_restart(pod, pod.spec.init_containers[0], 0)


def test_the_delay_doubles_up_to_five_minutes() -> None:
    delays = [restart_delay(crashes) for crashes in range(1, 9)]
    assert delays == [0, 10, 20, 40, 80, 160, 300, 300]
    assert restart_delay(10_000) == 300


def test_a_long_run_is_no_crash() -> None:
    assert crashes_after(5, started=0.0, finished=1.0) == 6
    assert crashes_after(5, started=0.0, finished=600.0) == 1
