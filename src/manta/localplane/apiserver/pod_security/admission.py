"""Pod Security Admission: refuses Pods, warns about Pod templates, checks the namespace labels.

`audit` has no effect: this API server has no audit log.
"""

from __future__ import annotations

from typing import Any, Final

from manta.localplane.apiserver.core import Call, Core
from manta.localplane.apiserver.pod_security.policy import Policy, Standard, policy_of
from manta.localplane.apiserver.pod_security.standards import Violation, violations
from manta.localplane.apiserver.schema.causes import invalid as invalid_value
from manta.localplane.apiserver.status_errors import forbidden, invalid

Object = dict[str, Any]

_MAX_PODS: Final = 3000


def check_pod_security(
    core: Core, call: Call, obj: Object, old: Object | None, subresource: str
) -> None:
    """Raises StatusError: 403 for a Pod that its namespace forbids, 422 for invalid labels."""
    resource = call.resource
    if subresource == "status":
        return
    if resource.group_resource == "namespaces" and not subresource:
        _check_namespace(core, call, obj, old)
    elif resource.group_resource == "pods":
        if old is None or _matters(obj, old):
            _check_pod(core, call, obj)
    elif resource.strategy.pod_template and not subresource:
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
    """Return whether images or containers changed: only then an update is checked."""
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
    for name in call.resource.strategy.pod_template:
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
            invalid_value(f"metadata.labels[{one.label}]", one.value, one.detail)
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
    """Warn about running Pods that a stricter namespace level would refuse."""
    pods = core.store.select("pods", namespace)
    reasons: dict[str, list[str]] = {}
    for record in pods[:_MAX_PODS]:
        pod = record.decode()
        found = violations(standard, pod["metadata"], pod.get("spec") or {})
        if found:
            text = ", ".join(dict.fromkeys(one.reason for one in found))
            reasons.setdefault(text, []).append(record.name)
    if len(pods) > _MAX_PODS:
        call.warn(
            f"new PodSecurity enforce level only checked against the first {_MAX_PODS} of "
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
