"""Twenty rolling updates of a real Ray cluster under load, with the autoscaler; a bad image is rolled back.

`make rollouts` runs it; MANTA_ROLLOUTS=n makes it n updates.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from e2e.conftest import Machine
from e2e.rolling import follow, loaded, rolling_cluster, values, watched, workers_of

COUNT = int(os.environ.get("MANTA_ROLLOUTS", "20"))
STRATEGY: dict[str, Any] = {
    "type": "RollingUpdate",
    "rollingUpdate": {"maxUnavailable": 1, "drainSeconds": 60, "progressDeadlineSeconds": 300},
}
AUTOSCALER: dict[str, Any] = {
    "enableInTreeAutoscaling": True,
    "autoscalerOptions": {
        "version": "v2",
        "idleTimeoutSeconds": 600,
        "resources": {
            "limits": {"cpu": "1", "memory": "1Gi"},
            "requests": {"cpu": "100m", "memory": "256Mi"},
        },
    },
}


@pytest.mark.timeout(7200)
def test_updates_under_load_with_the_autoscaler_lose_no_task(
    machine: Machine, record_property: Any
) -> None:
    name, spec = "long", {"upgradeStrategy": STRATEGY, **AUTOSCALER}
    machine.apply(rolling_cluster(name, 2, "0", **spec))
    machine.cluster_ready(name)
    with loaded(machine, name), watched(machine, name) as seen:
        for number in range(1, COUNT + 1):
            changed = rolling_cluster(name, 2, str(number), **spec)
            del changed["spec"]["workerGroupSpecs"][0]["replicas"]  # they are the autoscaler's
            machine.apply(changed)
            done = follow(machine, name)
            assert done.returncode == 0, done.stdout + done.stderr
            assert values(machine, name) == {str(number)}
    assert seen.fewest >= 1
    assert seen.heads == 1
    record_property("updates", COUNT)
    record_property("fewest_ready_workers", seen.fewest)
    record_property("most_workers", seen.most)


@pytest.mark.timeout(1800)
def test_a_bad_image_is_rolled_back_under_load(machine: Machine) -> None:
    name, strategy = (
        "bad",
        {
            "type": "RollingUpdate",
            "rollingUpdate": {"progressDeadlineSeconds": 30, "onFailure": "rollback"},
        },
    )
    machine.apply(rolling_cluster(name, 2, "good", upgradeStrategy=strategy))
    machine.cluster_ready(name)
    assert follow(machine, name).returncode == 0
    with loaded(machine, name), watched(machine, name) as seen:
        broken = rolling_cluster(name, 2, "bad", upgradeStrategy=strategy)
        template = broken["spec"]["workerGroupSpecs"][0]["template"]
        template["spec"]["containers"][0]["image"] = "registry.invalid/none:0"
        machine.apply(broken)
        done = follow(machine, name)
        assert done.returncode == 1
        assert "was given up" in done.stdout
        machine.until("the old workers alone", lambda: values(machine, name) == {"good"})
        assert len(workers_of(machine, name)) == 2
    assert seen.fewest >= 2
    machine.manta("delete", "raycluster", name)
