"""What the server adds to new Pods: account and token, priority, tolerations.

Each step is an admission plugin of the real server; the order is theirs too.
"""

from __future__ import annotations

from typing import Any

from manta.api.names import dns1123_subdomain_errors
from manta.localplane.apiserver.builtin_kinds.context import Context, RefusedError

Json = dict[str, Any]

_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path
_MIRROR = "kubernetes.io/config.mirror"
_SYSTEM_PRIORITIES = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}


def admit_pod(pod: Json, context: Context) -> None:
    """Changes the Pod, which must be a copy. Raises RefusedError."""
    _give_account(pod, context)
    _give_priority(pod, context)
    give_tolerations(pod)


def _give_account(pod: Json, context: Context) -> None:
    spec, meta = pod["spec"], pod["metadata"]
    if _MIRROR in (meta.get("annotations") or {}):
        return
    name = spec.get("serviceAccountName") or "default"
    namespace = meta.get("namespace", "")
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    possible = not dns1123_subdomain_errors(name)
    account = context.service_account(namespace, name) if possible else None
    if account is None:
        raise RefusedError(
            f"error looking up service account {namespace}/{name}: "
            f'serviceaccount "{name}" not found'
        )
    if account.get("imagePullSecrets") and not spec.get("imagePullSecrets"):
        spec["imagePullSecrets"] = [dict(secret) for secret in account["imagePullSecrets"]]
    automount = spec.get("automountServiceAccountToken")
    if automount is None:
        automount = account.get("automountServiceAccountToken")
    if automount is not False:
        _mount_token(spec, context)


def _mount_token(spec: Json, context: Context) -> None:
    containers = (spec.get("initContainers") or []) + (spec.get("containers") or [])
    bare = [one for one in containers if not _has_token(one)]
    if not bare:
        return
    volumes = spec.setdefault("volumes", [])
    name = next((one["name"] for one in volumes if _is_token_volume(one)), "")
    if not name:
        name = f"kube-api-access-{context.random_suffix()}"
        volumes.append(_token_volume(name))
    mount = {"name": name, "readOnly": True, "mountPath": _TOKEN_PATH}
    for container in bare:
        container.setdefault("volumeMounts", []).append(dict(mount))


def _has_token(container: Json) -> bool:
    return any(one.get("mountPath") == _TOKEN_PATH for one in container.get("volumeMounts") or [])


def _is_token_volume(volume: Json) -> bool:
    return str(volume.get("name", "")).startswith("kube-api-access-") and bool(
        volume.get("projected")
    )


def _token_volume(name: str) -> Json:
    namespace = {
        "path": "namespace",
        "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
    }
    certificate = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    return {
        "name": name,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": certificate},
                {"downwardAPI": {"items": [namespace]}},
            ],
            "defaultMode": 420,
        },
    }


def _give_priority(pod: Json, context: Context) -> None:
    spec = pod["spec"]
    value, policy = 0, "PreemptLowerPriority"
    name = spec.get("priorityClassName")
    if name in _SYSTEM_PRIORITIES and context.priority_class(name) is None:
        value = _SYSTEM_PRIORITIES[name]
    elif name or (chosen := context.default_priority_class()) is not None:
        chosen = context.priority_class(name) if name else context.default_priority_class()
        if chosen is None:
            raise RefusedError(f"no PriorityClass with name {name} was found")
        spec["priorityClassName"] = chosen["metadata"]["name"]
        value = chosen.get("value", 0)
        policy = chosen.get("preemptionPolicy") or policy
    if spec.get("priority") is not None and spec["priority"] != value:
        raise RefusedError(
            f"the integer value of priority ({spec['priority']}) must not be provided in pod "
            "spec; priority admission controller computed "
            f"{value} from the given PriorityClass name"
        )
    spec["priority"] = value
    if spec.get("preemptionPolicy") not in (None, policy):
        raise RefusedError(
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be "
            f"provided in pod spec; priority admission controller computed {policy} from the "
            "given PriorityClass name"
        )
    spec["preemptionPolicy"] = policy


def give_tolerations(pod: Json) -> None:
    """A node that is away for five minutes loses its Pods, unless they say otherwise."""
    spec = pod["spec"]
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(_tolerates(one, key) for one in spec.get("tolerations") or []):
            spec.setdefault("tolerations", []).append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            )


def _tolerates(toleration: Json, key: str) -> bool:
    return toleration.get("key") in (None, "", key) and toleration.get("effect") in (
        None,
        "",
        "NoExecute",
    )
