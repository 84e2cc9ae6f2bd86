"""NetworkPolicies of a RayCluster: one for the head, one for each worker group.

Pods of a cluster always reach each other, and the operator reaches the head. The user allows everything else,
DNS included.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manta.api.core import Pod
from manta.api.ray import names
from manta.api.ray.cluster import (
    NetworkPolicyConfig,
    NetworkPolicyMode,
    NetworkPolicyRules,
    RayCluster,
    WorkerGroupSpec,
)
from manta.api.well_known import LABEL_APP_CREATED_BY, LABEL_APP_NAME, LABEL_NAMESPACE_NAME
from manta.manifests.containers import Json, copy_json
from manta.manifests.head_target import head_ports
from manta.manifests.ownership import owned_by
from manta.rules.settings import Settings
from manta.rules.traits import Creator, creator

_TYPES = {
    NetworkPolicyMode.DENY_ALL: ["Ingress", "Egress"],
    NetworkPolicyMode.DENY_ALL_INGRESS: ["Ingress"],
    NetworkPolicyMode.DENY_ALL_EGRESS: ["Egress"],
}
_NO_RULES = NetworkPolicyRules()


def build_network_policies(
    cluster: RayCluster, settings: Settings, head: Pod | None = None
) -> list[Json]:
    policy = cluster.spec.network_policy
    if policy is None:
        return []
    groups = cluster.spec.worker_group_specs
    return [
        _head(cluster, policy, settings, head),
        *(_workers(cluster, policy, group) for group in groups),
    ]


def _head(
    cluster: RayCluster, policy: NetworkPolicyConfig, settings: Settings, head: Pod | None
) -> Json:
    rules = policy.head or _NO_RULES
    selector = {names.LABEL_NODE_TYPE: names.NODE_HEAD}
    name = f"{cluster.metadata.name}-head"
    further = [*_operator(cluster, settings, head), *_submitter(cluster, head)]
    return _policy(cluster, name, selector, rules, further)


def _workers(cluster: RayCluster, policy: NetworkPolicyConfig, group: WorkerGroupSpec) -> Json:
    own = next((one for one in policy.worker_groups if one.group_name == group.group_name), None)
    rules = own or policy.worker or _NO_RULES
    selector = {names.LABEL_NODE_TYPE: names.NODE_WORKER, names.LABEL_GROUP: group.group_name}
    name = f"{cluster.metadata.name}-workers-{group.group_name}"
    return _policy(cluster, name, selector, rules, [])


def _policy(
    cluster: RayCluster,
    name: str,
    selector: Mapping[str, str],
    rules: NetworkPolicyRules,
    further: list[Json],
) -> Json:
    mode = cluster.spec.network_policy.mode if cluster.spec.network_policy else ""
    types = _TYPES.get(NetworkPolicyMode(mode), ["Ingress", "Egress"])
    own = {"podSelector": {"matchLabels": {names.LABEL_CLUSTER: cluster.metadata.name}}}
    spec: Json = {
        "podSelector": {"matchLabels": {names.LABEL_CLUSTER: cluster.metadata.name, **selector}},
        "policyTypes": types,
    }
    if "Ingress" in types:
        spec["ingress"] = [{"from": [own]}, *further, *copy_json(rules.ingress_rules)]
    if "Egress" in types:
        spec["egress"] = [{"to": [own]}, *copy_json(rules.egress_rules)]
    meta = {
        "name": name,
        "namespace": cluster.metadata.namespace,
        "labels": {
            names.LABEL_CLUSTER: cluster.metadata.name,
            names.LABEL_GROUP: selector.get(names.LABEL_GROUP, names.HEAD_GROUP),
            LABEL_APP_NAME: names.APPLICATION_NAME,
            LABEL_APP_CREATED_BY: names.OPERATOR_NAME,
        },
    }
    kind = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}
    return owned_by(cluster, {**kind, "metadata": meta, "spec": spec})


def _operator(cluster: RayCluster, settings: Settings, head: Pod | None) -> list[Json]:
    """Allow the operator to reach the dashboard and the Serve proxy. Requests through the API server's proxy
    come from another address, which no rule can allow."""
    pods = settings.operator_pods
    if pods is None or settings.use_kubernetes_proxy:
        return []
    ports = head_ports(cluster, head)
    numbers = [ports.get(names.PORT_NAME_DASHBOARD, names.PORT_DASHBOARD)]
    if creator(cluster.metadata) is Creator.SERVICE:
        numbers.append(ports.get(names.PORT_NAME_SERVE, names.PORT_SERVE))
    peer = {
        "namespaceSelector": {"matchLabels": {LABEL_NAMESPACE_NAME: pods.namespace}},
        "podSelector": {"matchLabels": dict(pods.labels)},
    }
    return [{"from": [peer], "ports": [{"protocol": "TCP", "port": one} for one in numbers]}]


def _submitter(cluster: RayCluster, head: Pod | None) -> list[Json]:
    """Allow the submitter of a RayJob to reach the dashboard."""
    labels = cluster.metadata.labels
    if creator(cluster.metadata) is not Creator.JOB:
        return []
    if labels.get(names.LABEL_JOB_SUBMISSION_MODE) != "K8sJobMode":
        return []
    origin = {
        key: labels[key]
        for key in (names.LABEL_ORIGIN_NAME, names.LABEL_ORIGIN_KIND)
        if key in labels
    }
    port: Any = head_ports(cluster, head).get(names.PORT_NAME_DASHBOARD, names.PORT_DASHBOARD)
    return [
        {
            "from": [{"podSelector": {"matchLabels": origin}}],
            "ports": [{"protocol": "TCP", "port": port}],
        }
    ]
