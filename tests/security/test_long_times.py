"""Times of int64 seconds that no calendar holds: a tenant's number stops nobody, and is no 500."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from manta.api.times import format_time
from manta.localplane.builtin.job.verdict import time_left
from manta.localplane.builtin.nodelifecycle.plan import time_tolerated
from manta.localplane.builtin.views import Job, JobSpec, JobStatus, Taint, Toleration
from support.sender import Sender

PODS = "/api/v1/namespaces/default/pods"
NOW = datetime(2026, 11, 16, tzinfo=UTC)
LONG = [2**63 - 1, 2**40, 10**12]


@pytest.fixture
async def account(admin: Sender) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts"
    await admin.send("POST", path, {"metadata": {"name": "default"}})


def pod(**spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i"}]
    return {"metadata": {"name": "p"}, "spec": {"containers": containers, "nodeName": "n"} | spec}


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize("seconds", LONG)
async def test_a_pod_with_an_endless_grace_period_can_be_deleted(
    admin: Sender, seconds: int
) -> None:
    made = await admin.send("POST", PODS, pod(terminationGracePeriodSeconds=seconds))
    assert made.status == 201, made.body
    deleted = await admin.send("DELETE", f"{PODS}/p")
    assert deleted.status == 200, deleted.body
    assert json.loads(deleted.body)["metadata"]["deletionTimestamp"].startswith("30")
    assert (await admin.send("DELETE", f"{PODS}/p?gracePeriodSeconds=5")).status == 200
    assert (await admin.send("DELETE", f"{PODS}/p?gracePeriodSeconds=0")).status == 200


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize("seconds", LONG)
async def test_a_deletion_or_eviction_may_ask_for_an_endless_grace_period(
    admin: Sender, seconds: int
) -> None:
    options = {"gracePeriodSeconds": seconds}
    eviction = {"metadata": {"name": "p"}, "deleteOptions": options}
    assert (await admin.send("POST", PODS, pod())).status == 201
    assert (await admin.send("POST", f"{PODS}/p/eviction?dryRun=All", eviction)).status == 201
    assert (await admin.send("DELETE", f"{PODS}/p", options)).status == 200


@pytest.mark.parametrize("seconds", LONG)
def test_a_pod_that_tolerates_for_ever_does_not_keep_others_on_a_lost_node(seconds: int) -> None:
    """One plan evicts all Pods of a node: an overflow of one Pod's toleration evicted none."""
    taint = Taint(key="node.kubernetes.io/unreachable", effect="NoExecute")
    toleration = Toleration(operator="Exists", toleration_seconds=seconds)
    left = time_tolerated([toleration], [taint], NOW)
    assert left is not None
    assert left > timedelta(days=36_500)


@pytest.mark.parametrize("seconds", LONG)
def test_a_job_with_an_endless_deadline_has_time_left(seconds: int) -> None:
    spec, status = JobSpec(active_deadline_seconds=seconds), JobStatus(start_time=format_time(NOW))
    left = time_left(Job(spec=spec, status=status), NOW)
    assert left is not None
    assert left > timedelta(days=36_500)
