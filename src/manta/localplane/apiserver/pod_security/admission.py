"""Pod Security Admission: Pods are refused, templates of Pods get a warning, labels are checked.

`audit` has nowhere to write to: this server keeps no audit log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from manta.localplane.apiserver.core import Call, Core
from manta.localplane.apiserver.pod_security.policy import Policy, Standard, policy_of
from manta.localplane.apiserver.pod_security.standards import Violation, violations
from manta.localplane.apiserver.schema.causes import invalid as invalid_value
from manta.localplane.apiserver.status_errors import forbidden, invalid

Object = dict[str, Any]

_TEMPLATES: Final[Mapping[str, tuple[str, ...]]] = {
    "ReplicationController": ("spec", "template"),
    "PodTemplate": ("template",),
    "ReplicaSet": ("spec", "template"),
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
_MOST_PODS: Final = 3000


def check_pod_security(
    core: Core, call: Call, obj: Object, old: Object | None, subresource: str
) -> None:
    """Raises a 403 for a Pod that its namespace does not allow, and a 422 for labels that mean nothing."""
    served = call.served
    if served.custom is not None or subresource == "status":
        return
    if served.kind == "Namespace" and not subresource:
        _check_namespace(core, call, obj, old)
    elif served.kind == "Pod":
        if old is None or _matters(obj, old):
            _check_pod(core, call, obj)
    elif served.kind in _TEMPLATES and not subresource:
        _warn_of_template(core, call, obj)


# ── Pods ─────────────────────────────────────────────────────────────────────────────────
def _policy(core: Core, obj: Object) -> Policy:
    record = core.store.get("namespaces", obj["metadata"].get("namespace", ""))
    return policy_of(record.labels) if record is not None else Policy()


def _check_pod(core: Core, call: Call, pod: Object) -> None:
    policy = _policy(core, pod)
    found = violations(policy.enforce, pod["metadata"], pod.get("spec") or {})
    if found:
        name = pod["metadata"].get("name", "")
        why = f'violates PodSecurity "{policy.enforce}": {_shown(found)}'
        raise forbidden("pods", "", name, why)
    _warn(call, policy.warn, pod["metadata"], pod.get("spec") or {})


def _matters(new: Object, old: Object) -> bool:
    """Another image or another container: then the whole Pod is looked at again."""
    return _images(new) != _images(old)


def _images(pod: Object) -> list[tuple[str, Any, Any]]:
    spec = pod.get("spec") or {}
    return [
        (member, container.get("name"), container.get("image"))
        for member in ("initContainers", "containers", "ephemeralContainers")
        for container in spec.get(member) or ()
    ]


def _shown(found: list[Violation]) -> str:
    return ", ".join(str(one) for one in found)


def _warn(call: Call, standard: Standard, metadata: Object, spec: Object) -> None:
    found = violations(standard, metadata, spec)
    if found:
        call.warn(f'would violate PodSecurity "{standard}": {_shown(found)}')


def _warn_of_template(core: Core, call: Call, obj: Object) -> None:
    template: Any = obj
    for name in _TEMPLATES[call.served.kind]:
        template = (template or {}).get(name)
    if template:
        metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
        _warn(call, _policy(core, obj).warn, metadata, spec)


# ── namespaces ───────────────────────────────────────────────────────────────────────────
def _check_namespace(core: Core, call: Call, obj: Object, old: Object | None) -> None:
    policy = policy_of(obj["metadata"].get("labels") or {})
    before = policy_of(((old or {}).get("metadata") or {}).get("labels") or {})
    if policy.problems and (old is None or policy.problems != before.problems):
        causes = [
            invalid_value(f"metadata.labels[{one.label}]", one.value, one.wish)
            for one in policy.problems
        ]
        raise invalid("Namespace", "", obj["metadata"].get("name", ""), causes)
    if old is not None and _is_stricter(policy.enforce, before.enforce):
        _warn_of_pods(core, call, obj["metadata"]["name"], policy.enforce)


def _is_stricter(new: Standard, old: Standard) -> bool:
    if new == old or new.level == "privileged":
        return False
    return new.minor != old.minor or new.rank > old.rank


def _warn_of_pods(core: Core, call: Call, namespace: str, standard: Standard) -> None:
    """What runs stays; whoever tightens a namespace hears what would not be let in again."""
    pods = core.store.select("pods", namespace)
    reasons: dict[str, list[str]] = {}
    for record in pods[:_MOST_PODS]:
        pod = record.decode()
        found = violations(standard, pod["metadata"], pod.get("spec") or {})
        if found:
            text = ", ".join(dict.fromkeys(one.reason for one in found))
            reasons.setdefault(text, []).append(record.name)
    if len(pods) > _MOST_PODS:
        call.warn(
            f"new PodSecurity enforce level only checked against the first {_MOST_PODS} of "
            f"{len(pods)} existing pods"
        )
    if reasons:
        call.warn(
            f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level '
            f'"{standard}"'
        )
    for line in sorted(f"{_named(names)}: {text}" for text, names in reasons.items()):
        call.warn(line)


def _named(names: list[str]) -> str:
    first, *others = sorted(names)
    if not others:
        return first
    return f"{first} (and {len(others)} other {'pod' if len(others) == 1 else 'pods'})"
