"""Draining: a worker finishes its work before it is deleted, and the head is protected from eviction. Both
only if an annotation, or for draining a rolling update, asks for it (C96)."""

from __future__ import annotations

from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.resources import POD_DISRUPTION_BUDGETS
from manta.manifests.containers import Json
from manta.manifests.ownership import owned_by
from manta.rules.rolling_update import drain_budget

DEFAULT_GRACE_SECONDS = 30
"""Kubernetes' default; also the time for Ray to exit after draining."""

# A drained raylet takes no more work and exits when it has none left; then the container ends, and this
# hook with it. Without a head nothing can be drained, and Ray's client would wait a minute: when a whole
# cluster is deleted, the head goes first.
_DRAIN = """\
import os, socket, sys, time

host, port = os.environ["{host}"], os.environ["{port}"]
try:
    socket.create_connection((host, int(port)), 5).close()
except OSError as error:
    print("no head at", host + ":" + port + ", nothing to drain:", error)
    sys.exit(0)

from ray._raylet import GcsClient
from ray.core.generated.autoscaler_pb2 import DrainNodeReason
from ray.core.generated.gcs_pb2 import GcsNodeInfo

end = time.time() + {seconds}
gcs = GcsClient(address=host + ":" + port)

def mine():
    return [
        key.hex()
        for key, node in gcs.get_all_node_info(timeout=10).items()
        if node.instance_id == os.environ["{instance}"] and node.state == GcsNodeInfo.ALIVE
    ]

reason = DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
for node in mine():
    gcs.drain_node(node, reason, "its Pod is being deleted", int(end * 1000))
while time.time() < end and mine():
    time.sleep(1)
"""


def add_drain(cluster: RayCluster, pod_spec: Json, container: Json) -> None:
    """Add a preStop hook and the grace period for it. A hook of the user's own is kept instead."""
    seconds = drain_budget(cluster)
    lifecycle = container.get("lifecycle") or {}
    if not seconds or lifecycle.get("preStop"):
        return
    script = _DRAIN.format(
        seconds=seconds,
        host=names.ENV_FQ_RAY_IP,
        port=names.ENV_RAY_PORT,
        instance=names.ENV_CLOUD_INSTANCE_ID,
    )
    hook = {"exec": {"command": ["python", "-c", script]}}
    container["lifecycle"] = {**lifecycle, "preStop": hook}
    wanted = seconds + DEFAULT_GRACE_SECONDS
    chosen = pod_spec.get("terminationGracePeriodSeconds") or 0
    pod_spec["terminationGracePeriodSeconds"] = max(wanted, chosen)


def head_pdb_name(cluster: RayCluster) -> str:
    return f"{cluster.metadata.name}-head"


def build_head_pdb(cluster: RayCluster) -> Json:
    labels = {names.LABEL_CLUSTER: cluster.metadata.name, names.LABEL_NODE_TYPE: names.NODE_HEAD}
    meta = {
        "name": head_pdb_name(cluster),
        "namespace": cluster.metadata.namespace,
        "labels": dict(labels),
    }
    budget = {
        "apiVersion": POD_DISRUPTION_BUDGETS.api_version,
        "kind": POD_DISRUPTION_BUDGETS.kind,
        "metadata": meta,
        "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
    }
    return owned_by(cluster, budget)
