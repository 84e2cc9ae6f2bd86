"""What admission adds to new Pods: ServiceAccount and token, priority, tolerations.

Each step is an admission plugin of kube-apiserver, in the same order.
"""

from __future__ import annotations

from typing import Any

from manta.api.names import dns1123_subdomain_errors
from manta.api.well_known import ANNOTATION_MIRROR_POD, TAINT_NOT_READY, TAINT_UNREACHABLE
from manta.localplane.apiserver.builtin_kinds.context import AdmissionDeniedError, Context

Json = dict[str, Any]

_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path
_SYSTEM_PRIORITIES = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}


def admit_pod(pod: Json, context: Context) -> None:
    """Change the Pod. Raises AdmissionDeniedError."""
    _set_service_account(pod, context)
    _set_priority(pod, context)
    add_default_tolerations(pod)


def _set_service_account(pod: Json, context: Context) -> None:
    spec, meta = pod["spec"], pod["metadata"]
    if ANNOTATION_MIRROR_POD in (meta.get("annotations") or {}):
        return
    name = spec.get("serviceAccountName") or "default"
    namespace = meta.get("namespace", "")
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    valid = not dns1123_subdomain_errors(name)
    account = context.service_account(namespace, name) if valid else None
    if account is None:
        raise AdmissionDeniedError(
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
    without = [one for one in containers if not _has_token(one)]
    if not without:
        return
    volumes = spec.setdefault("volumes", [])
    name = next((one["name"] for one in volumes if _is_token_volume(one)), "")
    if not name:
        name = f"kube-api-access-{context.random_suffix()}"
        volumes.append(_token_volume(name))
    mount = {"name": name, "readOnly": True, "mountPath": _TOKEN_PATH}
    for container in without:
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


def _set_priority(pod: Json, context: Context) -> None:
    spec = pod["spec"]
    value, policy = 0, "PreemptLowerPriority"
    name = spec.get("priorityClassName")
    if name in _SYSTEM_PRIORITIES and context.priority_class(name) is None:
        value = _SYSTEM_PRIORITIES[name]
    elif name or (priority_class := context.default_priority_class()) is not None:
        priority_class = context.priority_class(name) if name else context.default_priority_class()
        if priority_class is None:
            raise AdmissionDeniedError(f"no PriorityClass with name {name} was found")
        spec["priorityClassName"] = priority_class["metadata"]["name"]
        value = priority_class.get("value", 0)
        policy = priority_class.get("preemptionPolicy") or policy
    if spec.get("priority") is not None and spec["priority"] != value:
        raise AdmissionDeniedError(
            f"the integer value of priority ({spec['priority']}) must not be provided in pod "
            "spec; priority admission controller computed "
            f"{value} from the given PriorityClass name"
        )
    spec["priority"] = value
    if spec.get("preemptionPolicy") not in (None, policy):
        raise AdmissionDeniedError(
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be "
            f"provided in pod spec; priority admission controller computed {policy} from the "
            "given PriorityClass name"
        )
    spec["preemptionPolicy"] = policy


def add_default_tolerations(pod: Json) -> None:
    """Pods leave an unreachable node after five minutes, unless their tolerations differ."""
    spec = pod["spec"]
    for key in (TAINT_NOT_READY, TAINT_UNREACHABLE):
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
