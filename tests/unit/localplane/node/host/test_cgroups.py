from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from manta.api.core import Resources
from manta.localplane.node.host import cgroups
from manta.localplane.node.host.cgroups import (
    Cgroups,
    Hierarchies,
    Limits,
    find_hierarchies,
    plane_settings,
    pod_limits,
    settings,
)

V1_MEMBERSHIP = "4:memory:/user/x\n1:cpu,cpuacct:/\n0::/\n"
V1_MOUNTS = (
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
)


def limits(**resources: dict[str, str]) -> Limits:
    return Limits.of(msgspec.convert(resources, Resources))


def test_version_one_is_found_controller_by_controller() -> None:
    found = find_hierarchies(V1_MEMBERSHIP, V1_MOUNTS)
    assert found is not None
    assert found.version == 1
    assert found.own["memory"][1] == Path("/sys/fs/cgroup/memory/user/x")
    assert found.own["cpu"][1] == Path("/sys/fs/cgroup/cpu")


def test_version_two_is_found_where_no_controller_is_mounted_alone() -> None:
    mounts = "41 31 0:38 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"
    found = find_hierarchies("0::/user.slice/a\n", mounts)
    assert found is not None
    assert found.version == 2
    assert found.own[""][1] == Path("/sys/fs/cgroup/user.slice/a")


def test_a_machine_without_cgroups_has_none() -> None:
    assert find_hierarchies("", "") is None


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (1, {"memory.limit_in_bytes": "1073741824", "cpu.cfs_quota_us": "150000"}),
        (2, {"memory.max": "1073741824", "cpu.max": "150000 100000", "memory.oom.group": "1"}),
    ],
)
def test_limits_become_settings(version: int, expected: dict[str, str]) -> None:
    made = settings(limits(limits={"memory": "1Gi", "cpu": "1500m"}), version)
    assert expected.items() <= made.items()


def test_requests_weigh_and_do_not_limit() -> None:
    made = settings(limits(requests={"cpu": "500m", "memory": "1Gi"}), 1)
    assert made == {"cpu.shares": "512"}


def test_no_resources_no_settings() -> None:
    assert settings(limits(), 2) == {}


def test_a_pod_weighs_what_its_containers_request_together() -> None:
    requests = ({"cpu": "500m"}, {"cpu": "2"}, {"memory": "1Gi"})
    found = pod_limits(msgspec.convert({"requests": one}, Resources) for one in requests)
    assert settings(found, 1) == {"cpu.shares": "2560"}
    assert pod_limits([Resources()]) == Limits()


@pytest.mark.parametrize(
    ("version", "cpus", "expected"),
    [
        (1, 4, {"cpu.shares": "4096"}),
        (1, 1000, {"cpu.shares": "262144"}),
        (2, 4, {"cpu.weight": "400"}),
        (2, 1000, {"cpu.weight": "10000"}),
    ],
)
def test_all_pods_together_weigh_as_much_as_the_machine_has_cpus(
    version: int, cpus: int, expected: dict[str, str]
) -> None:
    assert plane_settings(cpus, version) == expected


def test_the_groups_of_plane_pod_and_container_get_their_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mount = tmp_path / "cpu"
    found = Hierarchies(1, {"cpu": (mount, mount / "own")})
    monkeypatch.setattr(cgroups, "_hierarchies_of_this_process", lambda: found)
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    (tmp_path / "plane").mkdir()
    pod = pod_limits([msgspec.convert({"requests": {"cpu": "3"}}, Resources)])
    made = Cgroups(tmp_path / "plane").create("uid", "c", limits(requests={"cpu": "1"}), pod)
    container = Path(made.paths[0])
    weights = [(one / "cpu.shares").read_text() for one in (container, *container.parents[:2])]
    assert weights == ["1024", "3072", "8192"]
