"""Laws of ownership: sets are sets, an apply holds, and nobody owns what is not there."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from manta.localplane.apiserver.builtin_kinds.nodes import node_of_kind
from manta.localplane.apiserver.builtin_kinds.reading import read_object
from manta.localplane.apiserver.patching.apply import server_side_apply
from manta.localplane.apiserver.patching.field_sets import difference, intersection, paths, union
from manta.localplane.apiserver.patching.managed_fields import Manager, track_update
from manta.localplane.apiserver.patching.ownership import all_fields, compare

NODE = node_of_kind("apps/v1", "Deployment")
EMPTY = read_object("apps/v1", "Deployment", {})
NOW = "2026-11-15T06:37:50Z"

LABELS = st.dictionaries(st.sampled_from("pqr"), st.sampled_from("12"), max_size=3)
PORTS = st.lists(
    st.fixed_dictionaries(
        {"containerPort": st.integers(80, 82)}, optional={"protocol": st.just("TCP")}
    ),
    min_size=1,
    max_size=2,
    unique_by=lambda port: port["containerPort"],
)
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("xyz")},
        optional={
            "image": st.sampled_from(["i:1", "i:2"]),
            "args": st.lists(st.sampled_from("ab"), max_size=2),
            "ports": PORTS,
        },
    ),
    min_size=1,  # an empty list claims nothing, and so cannot be applied
    max_size=3,
    unique_by=lambda container: container["name"],
)


def deployment(labels: Any, finalizers: Any, replicas: Any, containers: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "d"}
    if labels:
        metadata["labels"] = labels
    if finalizers:
        metadata["finalizers"] = finalizers
    spec: dict[str, Any] = {"template": {"spec": {"containers": containers}}}
    if replicas is not None:
        spec["replicas"] = replicas
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


FINALIZERS = st.lists(st.sampled_from(["a/x", "b/x"]), max_size=2, unique=True)
CONFIGS = st.builds(deployment, LABELS, FINALIZERS, st.none() | st.integers(0, 2), CONTAINERS)
STEPS = st.lists(
    st.tuples(st.sampled_from(["m1", "m2", "update"]), CONFIGS), min_size=1, max_size=4
)
TREES = CONFIGS.map(lambda config: {"f:spec": all_fields(None, config["spec"])})


def model(tree: dict[str, Any]) -> set[str]:
    return set(paths(tree))


@given(TREES, TREES)
def test_trees_behave_as_the_sets_of_their_paths(left, right) -> None:
    before = copy.deepcopy((left, right))
    assert model(union(left, right)) == model(left) | model(right)
    assert model(difference(left, right)) == model(left) - model(right)
    assert model(intersection(left, right)) == model(left) & model(right)
    assert (left, right) == before


def apply(live: dict[str, Any] | None, config: dict[str, Any], manager: str) -> dict[str, Any]:
    return server_side_apply(
        live,
        config,
        manager=Manager(manager, "Apply", "apps/v1"),
        force=True,
        node=NODE,
        now=NOW,
        empty=EMPTY,
    ).object


def step(live: dict[str, Any] | None, manager: str, config: dict[str, Any]) -> dict[str, Any]:
    if manager != "update":
        return apply(live, config, manager)
    old = EMPTY if live is None else live
    updater = Manager("u", "Update", "apps/v1")
    entries = track_update(old, config, manager=updater, now=NOW, node=NODE)
    return {**config, "metadata": {**config["metadata"], "managedFields": entries}}


def run(history: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    live: dict[str, Any] | None = None
    for manager, config in history:
        before = copy.deepcopy((live, config))
        after = step(live, manager, config)
        assert (live, config) == before
        live = after
    assert live is not None
    return live


@given(STEPS, CONFIGS)
def test_what_is_applied_by_force_is_then_there(history, config) -> None:
    live = apply(run(history), config, "m1")
    difference_now = compare(NODE, config, live)
    assert not difference_now.removed
    # A default key (TCP) may be spelled out on one side only; nothing else may differ.
    assert not [path for path in paths(difference_now.modified) if "protocol" not in path]


@given(STEPS)
def test_the_last_apply_again_changes_nothing(history) -> None:
    live = run(history)
    manager, config = history[-1]
    if manager != "update":
        assert apply(live, config, manager) is live


@given(STEPS)
def test_nobody_owns_what_is_not_there(history) -> None:
    live = run(history)
    entries = live["metadata"]["managedFields"]
    bare = {key: value for key, value in live.items() if key != "metadata"}
    bare["metadata"] = {k: v for k, v in live["metadata"].items() if k != "managedFields"}
    there = model({f"f:{name}": all_fields(_node(name), value) for name, value in bare.items()})
    for entry in entries:
        assert model(entry["fieldsV1"]) <= there


def _node(name: str) -> Any:
    assert NODE is not None
    return NODE.child(name)


@given(STEPS)
def test_every_entry_owns_something_and_comes_once(history) -> None:
    entries = run(history)["metadata"]["managedFields"]
    assert all(entry["fieldsV1"] for entry in entries)
    names = [(entry["manager"], entry["operation"]) for entry in entries]
    assert len(names) == len(set(names))
