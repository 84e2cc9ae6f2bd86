"""Pods, Pod templates, and changes of Pods."""

from __future__ import annotations

from typing import Any

from manta.localplane.apiserver.builtin_kinds.checks import rules
from manta.localplane.apiserver.builtin_kinds.checks.containers import (
    check_containers,
    check_host_ports,
    check_init_containers,
    check_mounts,
)
from manta.localplane.apiserver.builtin_kinds.checks.rules import MAX_INT32, Causes, Json, json_diff
from manta.localplane.apiserver.builtin_kinds.checks.volumes import check_volume_source
from manta.localplane.apiserver.builtin_kinds.defaults.pods import quality_of_service
from manta.localplane.apiserver.schema.causes import (
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_MUTABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def check_pod(pod: Json, old: Json | None) -> Causes:
    if old is not None and pod.get("spec") == old.get("spec"):
        return
    yield from check_pod_spec(pod.get("spec") or {}, "spec")
    if old is not None:
        yield from _check_change(pod.get("spec") or {}, old.get("spec") or {})
    elif (pod.get("spec") or {}).get("ephemeralContainers"):
        yield forbidden("spec.ephemeralContainers", "cannot be set on create")


def check_template(template: Json, path: str) -> Causes:
    meta = template.get("metadata") or {}
    yield from rules.labels(f"{path}.metadata.labels", meta.get("labels"))
    yield from check_pod_spec(template.get("spec") or {}, f"{path}.spec")


def check_pod_spec(spec: Json, path: str) -> Causes:
    volumes = spec.get("volumes") or []
    names: set[str] = set()
    yield from _check_volumes(volumes, f"{path}.volumes", names)
    known = frozenset(names)
    containers = spec.get("containers") or []
    if not containers:
        yield required(f"{path}.containers")
    yield from check_containers(containers, f"{path}.containers", known)
    yield from check_host_ports(containers, f"{path}.containers")
    taken = frozenset(container.get("name", "") for container in containers)
    inits = spec.get("initContainers") or []
    yield from check_init_containers(inits, f"{path}.initContainers", known, taken)
    yield from rules.one_of(
        f"{path}.restartPolicy", spec.get("restartPolicy", ""), _RESTART_POLICIES
    )
    yield from rules.one_of(f"{path}.dnsPolicy", spec.get("dnsPolicy", ""), _DNS_POLICIES)
    yield from rules.labels(f"{path}.nodeSelector", spec.get("nodeSelector"))
    yield from _check_security(spec.get("securityContext") or {}, f"{path}.securityContext")
    yield from _check_names(spec, path)
    yield from rules.not_negative(
        f"{path}.terminationGracePeriodSeconds", spec.get("terminationGracePeriodSeconds")
    )
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= MAX_INT32:
        detail = f"must be between 1 and {MAX_INT32}, inclusive"
        yield invalid(f"{path}.activeDeadlineSeconds", deadline, detail)
    yield from check_tolerations(spec.get("tolerations") or [], f"{path}.tolerations")


def _check_security(context: Json, path: str) -> Causes:
    for name in ("fsGroup", "runAsUser", "runAsGroup"):
        yield from rules.user_or_group(f"{path}.{name}", context.get(name))
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        yield from rules.user_or_group(f"{path}.supplementalGroups[{index}]", group)


def _check_names(spec: Json, path: str) -> Causes:
    for name in ("serviceAccountName", "nodeName", "priorityClassName"):
        if spec.get(name):
            yield from rules.subdomain(f"{path}.{name}", spec[name])
    for name in ("hostname", "subdomain"):
        if spec.get(name):
            yield from rules.label(f"{path}.{name}", spec[name])


def _check_volumes(volumes: list[Json], path: str, known: set[str]) -> Causes:
    """Add the names of valid volumes to `known`: only those can be mounted."""
    for index, volume in enumerate(volumes):
        found = list(_check_volume(volume, f"{path}[{index}]", known))
        if not found:
            known.add(volume["name"])
        yield from found


def _check_volume(volume: Json, field: str, known: set[str]) -> Causes:
    sources = [key for key, value in volume.items() if key != "name" and value is not None]
    for source in sources[:1]:
        yield from check_volume_source(source, volume[source], f"{field}.{source}")
    for source in sources[1:]:
        yield forbidden(f"{field}.{source}", "may not specify more than 1 volume type")
    name = volume.get("name", "")
    if not name:
        yield required(f"{field}.name")
    else:
        yield from rules.label(f"{field}.name", name)
    if name in known:
        yield duplicate(f"{field}.name", name)


def check_tolerations(tolerations: list[Json], path: str) -> Causes:
    for index, toleration in enumerate(tolerations):
        field = f"{path}[{index}]"
        key, operator = toleration.get("key", ""), toleration.get("operator") or "Equal"
        effect = toleration.get("effect", "")
        if not key and operator != "Exists":
            detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            yield invalid(f"{field}.operator", toleration.get("operator", ""), detail)
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield invalid(f"{field}.effect", effect, detail)
        if operator == "Exists" and toleration.get("value"):
            detail = "value must be empty when `operator` is 'Exists'"
            yield invalid(f"{field}.operator", toleration["value"], detail)
        elif operator not in {"Equal", "Exists"}:
            yield not_supported(f"{field}.operator", operator, ("Equal", "Exists"))
        if effect and effect not in _EFFECTS:
            yield not_supported(f"{field}.effect", effect, _EFFECTS)


# ── updates ──────────────────────────────────────────────────────────────────────────────
def _check_change(spec: Json, old: Json) -> Causes:
    for name in ("containers", "initContainers"):
        if len(spec.get(name) or []) != len(old.get(name) or []):
            yield forbidden(f"spec.{name}", "pod updates may not add or remove containers")
            return
    yield from _check_deadline(spec.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"))
    yield from _check_added_tolerations(spec.get("tolerations") or [], old.get("tolerations") or [])
    gates = {gate["name"] for gate in old.get("schedulingGates") or []}
    for index, gate in enumerate(spec.get("schedulingGates") or []):
        if gate["name"] not in gates:
            detail = "only deletion is allowed, but found new scheduling gate"
            yield forbidden(f"spec.schedulingGates[{index}]", f"{detail} '{gate['name']}'")
    munged = _munged(spec, old)
    if munged != old:
        yield forbidden(
            "spec",
            f"pod updates may not change fields other than {_MUTABLE}\n{json_diff(old, munged)}",
        )


def check_resize(pod: Json, old: Json | None) -> Causes:
    """The resize subresource changes the resources of containers only."""
    spec, before = pod.get("spec") or {}, (old or {}).get("spec") or {}
    yield from check_pod_spec(spec, "spec")
    munged = dict(spec)
    for name in ("containers", "initContainers"):
        if len(spec.get(name) or []) != len(before.get(name) or []):
            yield forbidden(f"spec.{name}", "pod resize may not add or remove containers")
            return
        if spec.get(name):
            munged[name] = [
                {**new, **{key: one[key] for key in _RESIZABLE if key in one}}
                for new, one in zip(spec[name], before[name], strict=True)
            ]
    if munged != before:
        yield forbidden("spec", "only cpu and memory resources are mutable")
    if quality_of_service(dict(spec)) != quality_of_service(before):
        detail = "Pod QOS Class may not change as a result of resizing"
        yield invalid("spec", quality_of_service(dict(spec)), detail)


_RESIZABLE = ("resources", "resizePolicy")


def check_ephemeral_containers(pod: Json, old: Json | None) -> Causes:
    """Ephemeral containers can be added, not changed or removed."""
    spec, before = pod.get("spec") or {}, (old or {}).get("spec") or {}
    new = {one["name"]: one for one in spec.get("ephemeralContainers") or []}
    known = frozenset(volume["name"] for volume in spec.get("volumes") or [])
    for index, container in enumerate(spec.get("ephemeralContainers") or []):
        field = f"spec.ephemeralContainers[{index}]"
        yield from rules.label(f"{field}.name", container.get("name", ""))
        if not container.get("image"):
            yield required(f"{field}.image")
        yield from _check_ephemeral_mounts(container, f"{field}.volumeMounts", known)
    for container in before.get("ephemeralContainers") or []:
        name = container["name"]
        if name not in new:
            detail = f'existing ephemeral containers "{name}" may not be removed'
            yield forbidden("spec.ephemeralContainers", detail + "\n")
        elif new[name] != container:
            detail = f'existing ephemeral containers "{name}" may not be changed'
            yield forbidden("spec.ephemeralContainers", detail + "\n")


def _check_ephemeral_mounts(container: Json, path: str, known: frozenset[str]) -> Causes:
    mounts = container.get("volumeMounts") or []
    yield from check_mounts(mounts, path, known)
    for index, mount in enumerate(mounts):
        for member in ("subPath", "subPathExpr"):
            if mount.get(member):
                detail = "cannot be set for an Ephemeral Container"
                yield forbidden(f"{path}[{index}].{member}", detail)


def _check_deadline(new: int | None, old: int | None) -> Causes:
    field = "spec.activeDeadlineSeconds"
    if new is not None and old is not None and old < new:
        yield invalid(field, new, "must be less than or equal to previous value")
    elif new is None and old is not None:
        yield invalid(field, None, "must not update from a positive integer to nil value")


def _check_added_tolerations(new: list[Json], old: list[Json]) -> Causes:
    """Existing tolerations may change their tolerationSeconds only."""

    def core(toleration: Json) -> dict[str, Any]:
        return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}

    kept = [core(toleration) for toleration in new]
    if any(core(toleration) not in kept for toleration in old):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden("spec.tolerations", detail)


def _munged(spec: Json, old: Json) -> dict[str, Any]:
    """The new spec, with the old values of all mutable fields."""
    munged = dict(spec)
    for name in ("containers", "initContainers"):
        if spec.get(name):
            munged[name] = [
                {**new, "image": before.get("image", "")}
                for new, before in zip(spec[name], old[name], strict=True)
            ]
    names = ["activeDeadlineSeconds", "schedulingGates", "tolerations"]
    if (
        old.get("terminationGracePeriodSeconds", 0) < 0
        and spec.get("terminationGracePeriodSeconds") == 1
    ):
        names.append("terminationGracePeriodSeconds")
    if old.get("schedulingGates"):
        names += ["nodeSelector", "affinity"]
    for name in names:
        munged.pop(name, None)
        if name in old:
            munged[name] = old[name]
    return munged
