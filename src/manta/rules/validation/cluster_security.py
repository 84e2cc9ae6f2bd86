"""Rules of authentication, network policy and TLS (KubeRay's rules RC49 to RC63, numbered as in the tests)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from manta.api.names import dns1123_label_errors
from manta.api.ray import names
from manta.api.ray.cluster import (
    AuthMode,
    NetworkPolicyConfig,
    NetworkPolicyMode,
    NetworkPolicyRules,
    RayClusterSpec,
)
from manta.rules.settings import Settings
from manta.rules.traits import (
    group_templates,
    parse_ray_version,
    ray_container_of,
    ray_version_at_least,
    tls,
    token_auth,
)
from manta.rules.validation.violation import Violation

TOKEN_SINCE = (2, 52, 0)
KUBERNETES_TOKEN_SINCE = (2, 55, 0)
_TLS_ENV = (
    names.ENV_USE_TLS,
    names.ENV_TLS_SERVER_CERT,
    names.ENV_TLS_SERVER_KEY,
    names.ENV_TLS_CA_CERT,
)


def security_violations(spec: RayClusterSpec, settings: Settings, at: str) -> Iterator[Violation]:
    yield from _auth(spec, at)
    if spec.network_policy is not None:
        yield from _network_policy(spec, spec.network_policy, settings, at)
    if spec.tls_options is not None:
        yield from _tls(spec, settings, at)


# ── authentication ───────────────────────────────────────────────────────────────────────


def _auth(spec: RayClusterSpec, at: str) -> Iterator[Violation]:
    options = spec.auth_options
    if options is None:
        return
    if token_auth(spec):
        yield from _version(spec, at, TOKEN_SINCE, "token authentication")
    if not options.enable_k8s_token_auth:
        return
    field = f"{at}.authOptions.enableK8sTokenAuth"
    if options.mode != AuthMode.TOKEN:
        yield Violation(field, True, "needs authOptions.mode to be token")
    if options.secret_name:
        cure = f"remove secretName ({options.secret_name}): Kubernetes issues the tokens"
        yield Violation(field, True, cure)
    if not ray_version_at_least(spec.ray_version, KUBERNETES_TOKEN_SINCE):
        cure = f"needs Ray 2.55.0 or later; spec.rayVersion is {spec.ray_version!r}"
        yield Violation(field, True, cure)


def _version(
    spec: RayClusterSpec, at: str, since: tuple[int, int, int], what: str
) -> Iterator[Violation]:
    field, text = f"{at}.rayVersion", spec.ray_version
    if not text:
        yield Violation(field, text, f"must be set: {what} depends on it")
    elif parse_ray_version(text) is None:
        yield Violation(field, text, "must be a version such as 2.52.0")
    elif not ray_version_at_least(text, since):
        yield Violation(field, text, f"{what} needs Ray {'.'.join(map(str, since))} or later")


# ── network policy ───────────────────────────────────────────────────────────────────────


def _network_policy(
    spec: RayClusterSpec, policy: NetworkPolicyConfig, settings: Settings, at: str
) -> Iterator[Violation]:
    where = f"{at}.networkPolicy"
    if not settings.gates.ray_cluster_network_policy:
        yield Violation(where, "set", "needs the feature gate RayClusterNetworkPolicy")
    for path, rules in _rule_sets(policy, where):
        if policy.mode == NetworkPolicyMode.DENY_ALL_EGRESS and rules.ingress_rules:
            cure = "mode DenyAllEgress lets everything in; remove these rules or change the mode"
            yield Violation(f"{path}.ingressRules", "set", cure)
        if policy.mode == NetworkPolicyMode.DENY_ALL_INGRESS and rules.egress_rules:
            cure = "mode DenyAllIngress lets everything out; remove these rules or change the mode"
            yield Violation(f"{path}.egressRules", "set", cure)
    known = [group.group_name for group in spec.worker_group_specs]
    for number, name in enumerate(known):
        for error in dns1123_label_errors(name):
            yield Violation(f"{at}.workerGroupSpecs[{number}].groupName", name, error)
    for number, rules in enumerate(policy.worker_groups):
        if rules.group_name not in known:
            cure = f"names no worker group; the groups are {', '.join(known) or 'none'}"
            yield Violation(f"{where}.workerGroups[{number}].groupName", rules.group_name, cure)


def _rule_sets(policy: NetworkPolicyConfig, where: str) -> Iterator[tuple[str, NetworkPolicyRules]]:
    if policy.head is not None:
        yield f"{where}.head", policy.head
    if policy.worker is not None:
        yield f"{where}.worker", policy.worker
    for number, rules in enumerate(policy.worker_groups):
        yield f"{where}.workerGroups[{number}]", rules


# ── TLS ──────────────────────────────────────────────────────────────────────────────────


def _tls(spec: RayClusterSpec, settings: Settings, at: str) -> Iterator[Violation]:
    where = f"{at}.tlsOptions"
    if not settings.gates.ray_cluster_mtls:
        yield Violation(where, "set", "needs the feature gate RayClusterMTLS")
    if not tls(spec):
        return
    if not settings.cert_manager:
        yield Violation(f"{where}.enabled", True, "needs cert-manager; install it first")
    containers = {
        f"{path}.template.spec.containers[0]": ray_container_of(template)
        for path, template in group_templates(spec, at).items()
    }
    if spec.autoscaler_options is not None:
        options = spec.autoscaler_options
        containers[f"{at}.autoscalerOptions"] = {
            "env": options.env,
            "volumeMounts": options.volume_mounts,
        }
    for path, container in containers.items():
        yield from _set_by_operator(path, container)


def _set_by_operator(path: str, container: Mapping[str, Any]) -> Iterator[Violation]:
    cure = "is set by the operator when TLS is on; remove it"
    for entry in container.get("env") or ():
        if entry.get("name") in _TLS_ENV:
            yield Violation(f"{path}.env", entry["name"], cure)
    for mount in container.get("volumeMounts") or ():
        if mount.get("name") == names.VOLUME_TLS:
            yield Violation(f"{path}.volumeMounts", mount["name"], cure)
        elif mount.get("mountPath") == names.MOUNT_TLS:
            yield Violation(f"{path}.volumeMounts", mount["mountPath"], cure)
