"""What a fake node says about itself. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import Any

from manta.api.resources import LEASES, NODES
from manta.localplane.fakenodes.script import Script

LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40


@dataclass(frozen=True, slots=True)
class FakeNodeOptions:
    count: int = 1
    prefix: str = "fake-node-"
    cpu: str = "64"
    memory: str = "256Gi"
    pods: str = "5000"
    extended: dict[str, str] = field(default_factory=dict)
    """Other resources of every node, such as `nvidia.com/gpu: "8"`."""
    labels: dict[str, str] = field(default_factory=dict)
    heartbeat: float = 10.0
    """Seconds between renewals of a Lease."""
    script: Script = field(default_factory=lambda: Script(start=0.2))
    """What Pods do that have no script."""
    job_seconds: float = 1.0
    """After how long the Pods of Jobs succeed, unless their script says otherwise."""
    pod_ip: str = ""
    """The address of every Pod, where something answers for all of them; empty: each its own."""
    taint: str = ""
    """Keeps everyone else's Pods away from these nodes, on a cluster that others use too."""

    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.prefix}{number}" for number in range(self.count))


def host_ip(index: int) -> str:
    return str(IPv4Address("192.168.0.1") + index)


def node_manifest(options: FakeNodeOptions, index: int, now: str) -> dict[str, Any]:
    name = options.names()[index]
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
        "type": "fake",
        **options.labels,
    }
    return {
        "apiVersion": NODES.api_version,
        "kind": NODES.kind,
        "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": f"fake://{name}", **_tainted(options)},
        "status": node_status(options, index, now),
    }


def _tainted(options: FakeNodeOptions) -> dict[str, Any]:
    return {"taints": [{"key": options.taint, "effect": "NoSchedule"}]} if options.taint else {}


def node_status(options: FakeNodeOptions, index: int, now: str) -> dict[str, Any]:
    room = {
        "cpu": options.cpu,
        "memory": options.memory,
        "pods": options.pods,
        "ephemeral-storage": "1Ti",
        **options.extended,
    }
    return {
        "capacity": room,
        "allocatable": room,
        "conditions": node_conditions(now),
        "addresses": [
            {"type": "InternalIP", "address": host_ip(index)},
            {"type": "Hostname", "address": options.names()[index]},
        ],
        "nodeInfo": {
            "machineID": "",
            "systemUUID": "",
            "bootID": "",
            "kernelVersion": "fake",
            "osImage": "fake",
            "containerRuntimeVersion": "fake://1",
            "kubeletVersion": "v1.35.0+fake",
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
    }


def node_conditions(now: str) -> list[dict[str, Any]]:
    healthy = (
        ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID"),
        ("Ready", "True", "KubeletReady"),
    )
    return [
        {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": "the fake kubelet says so",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        for type_, status, reason in healthy
    ]


def lease_manifest(name: str, node_uid: str, now: str) -> dict[str, Any]:
    """`now` with microseconds."""
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {
            "name": name,
            "namespace": LEASE_NAMESPACE,
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node_uid}
            ],
        },
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": now,
        },
    }
