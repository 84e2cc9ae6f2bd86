"""The Node object of a fake node: readiness, capacity, addresses. Pure."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Any

from manta.api.resources import NODES
from manta.api.well_known import (
    LABEL_ARCH,
    LABEL_ARCH_BETA,
    LABEL_HOSTNAME,
    LABEL_OS,
    LABEL_OS_BETA,
)
from manta.localplane.fakenodes.options import FakeNodeOptions
from manta.localplane.kubelet import node_conditions


def host_ip(index: int) -> str:
    """The address of the node with this number."""
    return str(IPv4Address("192.168.0.1") + index)


def node_manifest(options: FakeNodeOptions, index: int, now: str) -> dict[str, Any]:
    name = options.names()[index]
    labels = {
        LABEL_HOSTNAME: name,
        LABEL_OS: "linux",
        LABEL_ARCH: "amd64",
        LABEL_OS_BETA: "linux",
        LABEL_ARCH_BETA: "amd64",
        "type": "fake",
        **options.labels,
    }
    return {
        "apiVersion": NODES.api_version,
        "kind": NODES.kind,
        "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": f"fake://{name}", **_taints(options)},
        "status": node_status(options, index, now),
    }


def _taints(options: FakeNodeOptions) -> dict[str, Any]:
    return {"taints": [{"key": options.taint, "effect": "NoSchedule"}]} if options.taint else {}


def node_status(options: FakeNodeOptions, index: int, now: str) -> dict[str, Any]:
    resources = {
        "cpu": options.cpu,
        "memory": options.memory,
        "pods": options.pods,
        "ephemeral-storage": "1Ti",
        **options.extended,
    }
    return {
        "capacity": resources,
        "allocatable": resources,
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
