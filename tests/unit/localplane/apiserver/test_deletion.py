"""Deleting, decided."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from manta.localplane.apiserver.deletion import (
    Keep,
    Mark,
    Remove,
    check_preconditions,
    decide,
    is_removable,
)
from manta.localplane.apiserver.options import DeleteOptions
from manta.localplane.apiserver.status_errors import StatusError
from support.served import built_in

PODS = built_in("", "v1", "pods")
CONFIG_MAPS = built_in("", "v1", "configmaps")
NAMESPACES = built_in("", "v1", "namespaces")
JOBS = built_in("batch", "v1", "jobs")
NOW = datetime(2026, 11, 15, 8, tzinfo=UTC)


def obj(**meta):
    return {"metadata": {"name": "a", "uid": "u", "resourceVersion": "7", **meta}}


def pod(phase="Running", node="n1", **meta):
    return obj(generation=1, **meta) | {
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 30},
        "status": {"phase": phase},
    }


def test_without_finalizers_an_object_goes() -> None:
    assert decide(obj(), DeleteOptions(), CONFIG_MAPS, NOW) == Remove(obj())


def test_with_finalizers_it_is_marked() -> None:
    decision = decide(obj(finalizers=["a/b"]), DeleteOptions(), CONFIG_MAPS, NOW)
    assert isinstance(decision, Mark)
    meta = decision.marked["metadata"]
    assert meta["deletionTimestamp"] == "2026-11-15T08:00:00Z"
    assert meta["deletionGracePeriodSeconds"] == 0
    assert "generation" not in meta


@pytest.mark.parametrize(
    ("policy", "before", "after"),
    [
        ("Foreground", [], ["foregroundDeletion"]),
        ("Orphan", ["foregroundDeletion"], ["orphan"]),
        ("Foreground", ["a/b", "orphan"], ["a/b", "foregroundDeletion"]),
        ("", ["orphan"], ["orphan"]),
    ],
)
def test_policies_change_the_finalizers(policy, before, after) -> None:
    decision = decide(obj(finalizers=before), DeleteOptions(policy), CONFIG_MAPS, NOW)
    assert isinstance(decision, Mark)
    assert decision.marked["metadata"]["finalizers"] == after


def test_background_takes_the_other_policies_back() -> None:
    one = obj(finalizers=["orphan"])
    assert isinstance(decide(one, DeleteOptions("Background"), CONFIG_MAPS, NOW), Remove)


def test_jobs_are_orphaned_by_default() -> None:
    decision = decide(obj(generation=1), DeleteOptions(), JOBS, NOW)
    assert isinstance(decision, Mark)
    assert decision.marked["metadata"]["finalizers"] == ["orphan"]
    assert decision.marked["metadata"]["generation"] == 2


def test_a_running_pod_gets_its_time() -> None:
    decision = decide(pod(), DeleteOptions(), PODS, NOW)
    assert isinstance(decision, Mark)
    meta = decision.marked["metadata"]
    assert meta["deletionTimestamp"] == "2026-11-15T08:00:30Z"
    assert (meta["deletionGracePeriodSeconds"], meta["generation"]) == (30, 2)


@pytest.mark.parametrize("one", [pod(node=""), pod("Succeeded"), pod("Failed")])
def test_a_pod_that_does_not_run_needs_no_time(one) -> None:
    assert isinstance(decide(one, DeleteOptions(), PODS, NOW), Remove)


def test_no_time_means_now_and_negative_means_a_second() -> None:
    assert isinstance(decide(pod(), DeleteOptions(grace_seconds=0), PODS, NOW), Remove)
    decision = decide(pod(), DeleteOptions(grace_seconds=-5), PODS, NOW)
    assert isinstance(decision, Mark)
    assert decision.marked["metadata"]["deletionGracePeriodSeconds"] == 1


def test_a_second_request_may_only_shorten() -> None:
    dying = pod(deletionTimestamp="2026-11-15T08:00:30Z", deletionGracePeriodSeconds=30)
    assert decide(dying, DeleteOptions(grace_seconds=60), PODS, NOW) == Keep()
    shorter = decide(dying, DeleteOptions(grace_seconds=5), PODS, NOW)
    assert isinstance(shorter, Mark)
    meta = shorter.marked["metadata"]
    assert meta["deletionTimestamp"] == "2026-11-15T08:00:05Z"
    assert meta["generation"] == 1
    assert isinstance(decide(dying, DeleteOptions(grace_seconds=0), PODS, NOW), Remove)


def test_a_kubelets_last_word_waits_for_finalizers() -> None:
    dying = pod(
        deletionTimestamp="2026-11-15T08:00:30Z",
        deletionGracePeriodSeconds=30,
        finalizers=["batch.kubernetes.io/job-tracking"],
    )
    decision = decide(dying, DeleteOptions(grace_seconds=0), PODS, NOW)
    assert isinstance(decision, Mark)
    assert decision.marked["metadata"]["deletionGracePeriodSeconds"] == 0


def test_a_namespace_waits_for_its_content() -> None:
    full = obj() | {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
    decision = decide(full, DeleteOptions(), NAMESPACES, NOW)
    assert isinstance(decision, Mark)
    assert decision.marked["status"] == {"phase": "Terminating"}
    assert isinstance(decide(decision.marked, DeleteOptions(), NAMESPACES, NOW), Keep)
    assert isinstance(decide(obj() | {"spec": {}}, DeleteOptions(), NAMESPACES, NOW), Remove)


@pytest.mark.parametrize(
    ("one", "goes"),
    [
        (obj(), False),
        (obj(deletionTimestamp="x"), True),
        (obj(deletionTimestamp="x", finalizers=["a/b"]), False),
        (obj(deletionTimestamp="x", deletionGracePeriodSeconds=30), False),
        (obj(deletionTimestamp="x", deletionGracePeriodSeconds=0), True),
        (
            obj(deletionTimestamp="x") | {"kind": "Namespace", "spec": {"finalizers": ["k"]}},
            False,
        ),
    ],
)
def test_an_update_may_let_it_go(one, goes) -> None:
    assert is_removable(one) is goes


@pytest.mark.parametrize(
    ("options", "fits"),
    [
        (DeleteOptions(uid="u"), True),
        (DeleteOptions(uid="other"), False),
        (DeleteOptions(resource_version="7"), True),
        (DeleteOptions(resource_version="8"), False),
    ],
)
def test_preconditions_are_checked(options, fits) -> None:
    if fits:
        check_preconditions(obj(), options, CONFIG_MAPS)
    else:
        with pytest.raises(StatusError) as refused:
            check_preconditions(obj(), options, CONFIG_MAPS)
        assert refused.value.code == 409
