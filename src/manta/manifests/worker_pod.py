"""A worker Pod: the template of its group, completed.

Pods of one group differ only in name and index, so a group is built once per reconcile
(`WorkerPodBuilder`); its Pods share the spec.
"""

from __future__ import annotations

from dataclasses import dataclass

from manta.api.ray import names
from manta.api.ray.cluster import RayCluster, WorkerGroupSpec
from manta.api.ray.naming import pod_name_prefix
from manta.manifests import gcs_fault_tolerance as fault_tolerance
from manta.manifests.containers import (
    Json,
    add_env,
    copy_json,
    limits_equal_requests,
    ray_container,
)
from manta.manifests.draining import add_drain
from manta.manifests.history_collector import add_collector, history_annotations
from manta.manifests.pod_metadata import build_metadata, pod_annotations, pod_labels
from manta.manifests.ray_node import Node, add_credentials, complete_ray_container, head_address_env
from manta.manifests.ray_start import (
    Params,
    bash,
    complete_worker,
    with_group_labels,
    with_group_resources,
)
from manta.manifests.volumes import add_shared_memory
from manta.rules.settings import Settings
from manta.rules.traits import overwrites_command, pods_never_restart

_QUIET_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Slot:
    """The name suffix and indexes of a worker Pod in its group."""

    suffix: str
    replica_index: int | None = None
    replica_name: str = ""
    host_index: int | None = None


@dataclass(frozen=True, slots=True)
class WorkerPodBuilder:
    """What the Pods of one group have in common."""

    prefix: str
    metadata: Json
    spec: Json

    def pod(self, slot: Slot) -> Json:
        labels = dict(self.metadata["labels"])
        if slot.replica_index is not None:
            labels[names.LABEL_REPLICA_INDEX] = str(slot.replica_index)
        if slot.replica_name:
            labels[names.LABEL_REPLICA_NAME] = slot.replica_name
        if slot.host_index is not None:
            labels[names.LABEL_HOST_INDEX] = str(slot.host_index)
        meta = {**self.metadata, "name": f"{self.prefix}{slot.suffix}", "labels": labels}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": self.spec}


def group_pod_builder(
    cluster: RayCluster, group: WorkerGroupSpec, settings: Settings
) -> WorkerPodBuilder:
    labels = pod_labels(
        cluster,
        group.template,
        node_type=names.NODE_WORKER,
        group=group.group_name,
        extra=group.labels,
    )
    annotations = pod_annotations(cluster, group.template, history_annotations(cluster, settings))
    meta = build_metadata(
        cluster, group.template, settings, name="", labels=labels, annotations=annotations
    )
    prefix = pod_name_prefix(f"{cluster.metadata.name}-{group.group_name}", names.NODE_WORKER)
    spec = build_worker_spec(cluster, group, settings, keep_command=overwrites_command(annotations))
    return WorkerPodBuilder(prefix, meta, spec)


def worker_params(node: Node, group: WorkerGroupSpec) -> dict[str, str]:
    params: Params = group.ray_start_params
    if group.resources:
        params = with_group_resources(params, group.resources)
    params = with_group_labels(params, group.labels)
    return complete_worker(params, head_address=f"{node.fqdn}:{node.port}")


def build_worker_spec(
    cluster: RayCluster, group: WorkerGroupSpec, settings: Settings, *, keep_command: bool
) -> Json:
    node = Node(cluster, settings, head=False)
    params = worker_params(node, group)
    spec: Json = copy_json(group.template.get("spec") or {})
    container = ray_container(spec)
    if settings.inject_init_container:
        _append_wait_container(node, spec, container)
    if pods_never_restart(cluster.spec) and not spec.get("restartPolicy"):
        spec["restartPolicy"] = "Never"
    fault_tolerance.add_to_worker(cluster, container)
    add_credentials(node, spec, container)
    complete_ray_container(node, container, params, keep_command=keep_command)
    add_drain(cluster, spec, container)
    add_shared_memory(spec, params)
    add_collector(cluster, settings, spec, container, head=False, fqdn=node.fqdn)
    spec["containers"] += copy_json(settings.worker_sidecar_containers)
    for init in spec.get("initContainers") or ():
        add_env(init, head_address_env(node))
    return spec


def _append_wait_container(node: Node, spec: Json, ray: Json) -> None:
    """Add an init container that waits for the GCS: `ray start` itself gives up too early.

    It gets the user's environment and mounts, without ours, which are added later.
    """
    container: Json = {
        "name": names.CONTAINER_WAIT_GCS,
        "image": ray.get("image", ""),
        "command": bash(login=node.settings.login_shell),
        "args": [wait_script(f"{node.fqdn}:{node.port}")],
        "resources": limits_equal_requests("200m", "256Mi"),
    }
    for field in ("imagePullPolicy", "securityContext", "env", "volumeMounts"):
        if ray.get(field):
            container[field] = copy_json(ray[field])
    spec["initContainers"] = [*(spec.get("initContainers") or ()), container]


def wait_script(address: str) -> str:
    """Shell code that prints nothing while a head normally starts, then why it does not answer.

    The first process of a container gets only signals that it traps, and a shell handles them only between commands
    or in `wait`. Without the trap, deleting the Pod takes its whole grace period.
    """
    check = f"ray health-check --address {address}"
    return f"""\
trap 'exit 143' TERM
SECONDS=0
until {{ {check} > /dev/null 2>&1 & wait $!; }}; do
  if [ "$SECONDS" -gt {_QUIET_SECONDS} ]; then
    {check} & wait $!
    echo "The GCS at {address} has not answered for $SECONDS seconds. If this goes on: is the head\
 Pod running, do the Ray versions of head and worker match, and can this Pod resolve the address?\
 See https://docs.ray.io/en/latest/cluster/kubernetes/troubleshooting.html"
  else
    echo "$SECONDS seconds: waiting for the GCS at {address}"
  fi
  sleep 5 & wait $!
done
echo "The GCS is ready."
"""
