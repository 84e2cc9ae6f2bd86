"""A canary of any sizes, weights and surge, with Pods that come and go late: bounded, monotone, and never stuck."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from manta.api.ray.service import CanaryUpgradeOptions
from manta.rules.canary import FULL, Group, grown, part, restored, share, shrunk, split

sizes = st.integers(1, 12)
surges = st.integers(1, 4) | st.sampled_from(["1%", "25%", "50%", "100%"])
weights = st.lists(st.integers(1, 99), max_size=4, unique=True).map(sorted)


def settle(group: Group, late: int) -> Group:
    """The kubelet follows: new Pods run, and of the surplus all but `late` are gone."""
    old_held = min(group.old_held, group.old + late) if group.old_held > group.old else group.old
    return replace(group, old_held=old_held, new_held=group.new, new_ready=group.new)


def check(group: Group, limit: int) -> None:
    assert max(group.old, group.old_held) + max(group.new, group.new_held) <= limit


@given(sizes, sizes, surges, weights, st.integers(0, 3))
def test_a_healthy_canary_ends_within_the_surge_and_never_goes_back(
    old: int, new: int, surge: int | str, steps: list[int], late: int
) -> None:
    options = CanaryUpgradeOptions(max_surge=surge)
    group = Group("gpu", full_old=old, full_new=new, old=old, old_held=old)
    limit = group.size + surge_of(options, group.size)
    for weight in [*steps, FULL]:
        for turn in range(60):
            before = group
            group = replace(group, new=grown(group, weight, options))
            check(group, limit)
            group = settle(group, late if turn % 2 else 0)
            group = replace(group, old=shrunk(group, weight))
            check(group, limit)
            assert group.new >= before.new
            assert group.old <= before.old
            serves = group.new_ready * old + group.old * new
            assert serves >= old * new or group.old >= part(FULL - weight, old)
        assert group.new >= part(weight, new), "the step is stuck"
    assert group.new == new


@given(sizes, sizes, surges, st.integers(1, 99))
def test_a_rollback_gives_the_old_cluster_its_size_within_the_surge(
    old: int, new: int, surge: int | str, weight: int
) -> None:
    options = CanaryUpgradeOptions(max_surge=surge)
    group = Group("gpu", full_old=old, full_new=new, old=old, old_held=old)
    limit = group.size + surge_of(options, group.size)
    for _ in range(50):
        group = settle(replace(group, new=grown(group, weight, options)), 0)
        group = replace(group, old=shrunk(group, weight))
    group = replace(group, old=restored(group, options))
    check(group, limit)
    for gone in range(group.new + 1):
        held = group.new - gone
        group = replace(group, new_held=held, others_held=0, old_held=group.old)
        after = replace(group, new=0, new_held=held)
        group = replace(group, old=restored(after, options))
        assert group.old + held <= limit
    assert group.old == old


@given(st.integers(1, 99), st.integers(1, 60), st.integers(1, 60))
def test_the_chosen_pods_are_as_close_to_the_weight_as_any_within_a_point(
    weight: int, old: int, new: int
) -> None:
    chosen = split(weight, old, new)
    assert 1 <= chosen[0] <= old
    assert 1 <= chosen[1] <= new
    best = min(
        abs(weight - 100 * n / (n + o)) for n in range(1, new + 1) for o in range(1, old + 1)
    )
    assert abs(weight - 100 * chosen[1] / sum(chosen)) <= best + 1.0001
    assert 0 < share(*chosen) < 100 or min(old, new) == 0


def surge_of(options: CanaryUpgradeOptions, size: int) -> int:
    chosen = options.max_surge
    assert chosen is not None
    if isinstance(chosen, int):
        return chosen
    return max(1, -(-size * int(chosen[:-1]) // 100))
