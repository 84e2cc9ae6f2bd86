"""Rows as kubectl prints them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from manta.localplane.apiserver.registry import Registry
from manta.localplane.apiserver.tables import cluster, networking, workloads
from manta.localplane.apiserver.tables.custom import Column, custom_table
from manta.localplane.apiserver.tables.pods import pod_cells

NOW = datetime(2026, 11, 15, 8, 0, 0, tzinfo=UTC)
META = {"name": "x", "creationTimestamp": "2026-11-15T07:59:30Z"}


def pod(**status):
    meta = META | status.pop("meta", {})
    spec = {"containers": [{"name": "c"}], "nodeName": "n1"} | status.pop("spec", {})
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running"} | status}


def container(state, *, ready=False, restarts=0, ended=None, name="c"):
    last = {"terminated": {"finishedAt": ended}} if ended else {}
    return {
        "name": name,
        "ready": ready,
        "restartCount": restarts,
        "state": state,
        "lastState": last,
    }


RUNNING: dict[str, Any] = {"running": {}}


def test_a_running_pod() -> None:
    one = pod(
        podIPs=[{"ip": "1.1.1.1"}],
        containerStatuses=[
            container(RUNNING, ready=True, restarts=2, ended="2026-11-15T07:18:00Z")
        ],
    )
    assert pod_cells(one, NOW) == [
        "x",
        "1/1",
        "Running",
        "2 (42m ago)",
        "30s",
        "1.1.1.1",
        "n1",
        "<none>",
        "<none>",
    ]


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ({"phase": "Pending"}, "Pending"),
        ({"meta": {"deletionTimestamp": "x"}}, "Terminating"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        (
            {"containerStatuses": [container({"waiting": {"reason": "CrashLoopBackOff"}})]},
            "CrashLoopBackOff",
        ),
        ({"containerStatuses": [container({"terminated": {"reason": "OOMKilled"}})]}, "OOMKilled"),
        ({"containerStatuses": [container({"terminated": {"exitCode": 3}})]}, "ExitCode:3"),
        ({"containerStatuses": [container({"terminated": {"signal": 9}})]}, "Signal:9"),
        (
            {
                "spec": {"initContainers": [{"name": "i"}, {"name": "j"}]},
                "initContainerStatuses": [container(RUNNING, name="i")],
            },
            "Init:0/2",
        ),
        (
            {
                "spec": {"initContainers": [{"name": "i"}]},
                "initContainerStatuses": [
                    container({"terminated": {"exitCode": 1, "reason": "Error"}}, name="i")
                ],
            },
            "Init:Error",
        ),
        (
            {
                "spec": {"initContainers": [{"name": "i"}]},
                "initContainerStatuses": [container({"terminated": {"exitCode": 0}}, name="i")],
            },
            "Running",
        ),
    ],
)
def test_the_status_of_a_pod_says_what_matters(status, shown) -> None:
    assert pod_cells(pod(**status), NOW)[2] == shown


def test_a_service_and_its_ports() -> None:
    spec = {
        "type": "NodePort",
        "clusterIP": "10.96.0.2",
        "ports": [{"port": 80, "nodePort": 30001, "protocol": "TCP"}],
        "selector": {"b": "2", "a": "1"},
    }
    assert networking.service_cells({"metadata": META, "spec": spec}, NOW) == [
        "x",
        "NodePort",
        "10.96.0.2",
        "<none>",
        "80:30001/TCP",
        "30s",
        "a=1,b=2",
    ]


def test_a_job_and_its_time() -> None:
    job = {
        "metadata": META,
        "spec": {
            "completions": 1,
            "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
        "status": {
            "succeeded": 1,
            "startTime": "2026-11-15T07:59:00Z",
            "completionTime": "2026-11-15T07:59:20Z",
            "conditions": [{"type": "Complete", "status": "True"}],
        },
    }
    assert workloads.job_cells(job, NOW) == [
        "x",
        "Complete",
        "1/1",
        "20s",
        "30s",
        "c",
        "i",
        "<none>",
    ]


def test_a_node_and_its_roles() -> None:
    node = {
        "metadata": META | {"labels": {"node-role.kubernetes.io/worker": ""}},
        "spec": {"unschedulable": True},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": "v1"},
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        },
    }
    assert cluster.node_cells(node, NOW)[:6] == [
        "x",
        "Ready,SchedulingDisabled",
        "worker",
        "30s",
        "v1",
        "10.0.0.1",
    ]


def test_many_endpoints_are_cut() -> None:
    slice_ = {
        "metadata": META,
        "addressType": "IPv4",
        "ports": [{"port": 80}],
        "endpoints": [{"addresses": [f"1.1.1.{number}"]} for number in range(5)],
    }
    cells = networking.endpoint_slice_cells(slice_, NOW)
    assert cells[3] == "1.1.1.0,1.1.1.1,1.1.1.2 + 2 more..."


def test_both_forms_of_events_make_the_same_row() -> None:
    old = {
        "metadata": META,
        "involvedObject": {"kind": "Pod", "name": "p"},
        "message": "m",
        "reason": "R",
        "type": "Normal",
        "lastTimestamp": "2026-11-15T07:59:50Z",
        "source": {"component": "c"},
    }
    row = cluster.event_cells(old, NOW)
    assert row[:7] == ["10s", "Normal", "R", "pod/p", "", "c", "m"]


def test_custom_columns_are_typed() -> None:
    columns = (
        Column("N", "integer", ".spec.n"),
        Column("B", "boolean", ".spec.b"),
        Column("F", "number", ".spec.f"),
        Column("D", "date", ".metadata.creationTimestamp"),
        Column("S", "string", ".spec.n"),
        Column("Wrong", "integer", ".spec.text"),
        Column("Broken", "string", "not a path"),
    )
    table = custom_table(columns)
    spec = {"n": 3, "b": True, "f": 1.5, "text": "x"}
    assert table.cells({"metadata": META, "spec": spec}, NOW) == [
        "x",
        3,
        True,
        1.5,
        "30s",
        "3",
        None,
        None,
    ]
    assert table.columns[0]["name"] == "Name"


def test_every_built_in_resource_has_a_table() -> None:
    for resource in Registry().all():
        table = resource.strategy.table
        row = table.cells({"metadata": META, "kind": resource.kind}, NOW)
        assert len(row) == len(table.columns), resource.plural
