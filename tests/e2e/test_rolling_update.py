"""A rolling update of a real Ray cluster under load: nothing of the load fails, and workers are never missing."""

from __future__ import annotations

from e2e.conftest import Machine
from e2e.rolling import follow, head_of, loaded, rolling_cluster, values, watched

STRATEGY = {
    "type": "RollingUpdate",
    "rollingUpdate": {"maxSurge": 1, "drainSeconds": 60, "progressDeadlineSeconds": 300},
}


def test_workers_are_replaced_under_load_and_no_task_fails(machine: Machine) -> None:
    name = "rolled"
    machine.apply(rolling_cluster(name, 2, "one", upgradeStrategy=STRATEGY))
    machine.cluster_ready(name)
    assert follow(machine, name).returncode == 0
    head = head_of(machine, name)["metadata"]["name"]
    with loaded(machine, head) as load, watched(machine, name) as seen:
        machine.apply(rolling_cluster(name, 2, "two", upgradeStrategy=STRATEGY))
        done = follow(machine, name)
        assert done.returncode == 0, done.stdout + done.stderr
        assert values(machine, name) == {"two"}
    assert load["failures"] == []
    assert "replaced; waiting for worker" in done.stdout
    assert seen.fewest >= 2
    assert seen.most <= 3
    assert seen.heads == 1
    machine.manta("delete", "raycluster", name)
