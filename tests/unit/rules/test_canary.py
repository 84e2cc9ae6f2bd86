"""The arithmetic of a canary."""

from __future__ import annotations

import pytest

from manta.api.ray.service import CanaryUpgradeOptions
from manta.rules.canary import Group, capacity, grown, part, restored, share, shrunk, split, surge

ONE = CanaryUpgradeOptions(max_surge=1)


@pytest.mark.parametrize(
    ("chosen", "size", "expected"),
    [(None, 4, 1), (2, 4, 2), ("3", 4, 3), ("25%", 4, 1), ("26%", 4, 2), ("10%", 0, 1)],
)
def test_the_surge_is_a_number_or_a_percentage_rounded_up(
    chosen: int | str | None, size: int, expected: int
) -> None:
    assert surge(CanaryUpgradeOptions(max_surge=chosen), size) == expected


def test_the_new_cluster_grows_into_the_room_that_the_surge_leaves() -> None:
    full = Group("gpu", full_old=4, full_new=4, old=4, old_held=4)
    assert grown(full, 50, ONE) == 1
    assert grown(Group("gpu", full_old=4, full_new=4, old=3, old_held=3, new=1), 50, ONE) == 2


def test_a_terminating_worker_of_either_cluster_still_holds_its_room() -> None:
    of_old = Group("gpu", full_old=4, full_new=4, old=3, old_held=4, new=1, new_held=1)
    of_new = Group("gpu", full_old=4, full_new=4, old=3, old_held=3, new=1, new_held=2)
    elsewhere = Group("gpu", full_old=4, full_new=4, old=3, new=1, others_held=1)
    assert [grown(one, 50, ONE) for one in (of_old, of_new, elsewhere)] == [1, 1, 1]


def test_the_new_cluster_never_shrinks_on_the_way() -> None:
    assert grown(Group("gpu", full_old=4, full_new=4, old=4, old_held=4, new=3), 25, ONE) == 3


def test_the_old_cluster_shrinks_by_what_the_new_one_serves() -> None:
    assert shrunk(Group("gpu", 4, 4, old=4, new=1, new_ready=1), 50) == 3
    assert shrunk(Group("gpu", 4, 4, old=3, new=2, new_ready=2), 50) == 2
    assert shrunk(Group("gpu", 4, 4, old=2, new=2, new_ready=2), 50) == 2
    assert shrunk(Group("gpu", 8, 2, old=8, new=1, new_ready=1), 50) == 4


def test_the_old_cluster_keeps_one_worker_to_the_end() -> None:
    assert shrunk(Group("gpu", 1, 1, old=1, new=1, new_ready=1), 100) == 1


def test_a_group_that_the_new_spec_drops_shrinks_with_the_weight() -> None:
    assert shrunk(Group("gone", full_old=4, old=4), 50) == 2


def test_a_rollback_gives_workers_back_as_those_of_the_new_cluster_go() -> None:
    assert restored(Group("gpu", 4, 4, old=2, old_held=2, new=2, new_held=2), ONE) == 3
    assert restored(Group("gpu", 4, 4, old=2, old_held=3, new=2, new_held=2), ONE) == 2
    assert restored(Group("gpu", 4, 4, old=3, old_held=3, others_held=1), ONE) == 4


@pytest.mark.parametrize(
    ("counts", "percent"), [([(1, 4)], 25), ([(2, 3)], 66), ([(4, 4), (1, 2)], 50), ([], 100)]
)
def test_serves_capacity_is_that_of_the_smallest_group(
    counts: list[tuple[int, int]], percent: int
) -> None:
    assert capacity(counts) == percent


@pytest.mark.parametrize(
    ("weight", "pods", "expected"),
    [
        (50, (3, 3), (3, 3)),
        (50, (5, 2), (2, 2)),
        (25, (5, 2), (3, 1)),
        (10, (3, 1), (3, 1)),
        (5, (100, 5), (95, 5)),
        (90, (2, 4), (1, 4)),
        (50, (0, 2), (0, 2)),
        (50, (2, 0), (2, 0)),
    ],
)
def test_pods_are_chosen_so_that_the_share_is_close_to_the_weight(
    weight: int, pods: tuple[int, int], expected: tuple[int, int]
) -> None:
    assert split(weight, *pods) == expected


def test_a_share_is_a_percentage_of_the_chosen_pods() -> None:
    assert (share(3, 1), share(0, 0), part(10, 4)) == (25, 0, 1)
