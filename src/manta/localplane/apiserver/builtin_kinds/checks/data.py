"""ConfigMaps, Secrets, claims, leases, events, quotas and other plain objects."""

from __future__ import annotations

import base64

from manta.api.documents import limits
from manta.api.documents.reader import read_json
from manta.api.names import qualified_name_errors
from manta.api.quantity import Quantity
from manta.api.well_known import (
    ANNOTATION_SERVICE_ACCOUNT_NAME,
    SECRET_BASIC_AUTH,
    SECRET_DOCKER_CONFIG_JSON,
    SECRET_DOCKERCFG,
    SECRET_SERVICE_ACCOUNT_TOKEN,
    SECRET_SSH_AUTH,
    SECRET_TLS,
)
from manta.localplane.apiserver.builtin_kinds.checks import rules
from manta.localplane.apiserver.builtin_kinds.checks.persistent_volumes import ACCESS_MODES
from manta.localplane.apiserver.builtin_kinds.checks.rules import Causes, Json, json_diff
from manta.localplane.apiserver.schema.causes import (
    Cause,
    compact_json,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)

MAX_DATA_BYTES = 1024 * 1024
_NEEDED_KEYS = {
    SECRET_DOCKERCFG: (".dockercfg",),
    SECRET_DOCKER_CONFIG_JSON: (".dockerconfigjson",),
    SECRET_SSH_AUTH: ("ssh-privatekey",),
    SECRET_TLS: ("tls.crt", "tls.key"),
}
_HIGHEST_USER_PRIORITY = 1_000_000_000


def check_config_map(config_map: Json, old: Json | None) -> Causes:
    if old is not None:
        yield from _check_frozen(config_map, old, ("data", "binaryData"))
    data, binary = config_map.get("data") or {}, config_map.get("binaryData") or {}
    size = 0
    for key, text in data.items():
        yield from rules.data_key("data", key)
        if key in binary:
            yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        size += len(text.encode()) if not text.isascii() else len(text)
    for key, text in binary.items():
        yield from rules.data_key("binaryData", key)
        size += _decoded_size(text)
    if size > MAX_DATA_BYTES:
        yield too_long("[]", MAX_DATA_BYTES)


def check_secret(secret: Json, old: Json | None) -> Causes:
    type_ = secret.get("type", "")
    if old is not None:
        yield from rules.immutable("type", type_, old.get("type", ""))
        yield from _check_frozen(secret, old, ("data",))
    data = secret.get("data") or {}
    for key in data:
        yield from rules.data_key("data", key)
    if sum(_decoded_size(text) for text in data.values()) > MAX_DATA_BYTES:
        yield too_long("data", MAX_DATA_BYTES)
    if type_ == SECRET_SERVICE_ACCOUNT_TOKEN:
        annotations = (secret.get("metadata") or {}).get("annotations") or {}
        if not annotations.get(ANNOTATION_SERVICE_ACCOUNT_NAME):
            yield required(f"metadata.annotations[{ANNOTATION_SERVICE_ACCOUNT_NAME}]")
    elif type_ == SECRET_BASIC_AUTH and not {"username", "password"} & data.keys():
        yield required("data[username]")
        yield required("data[password]")
    for key in _NEEDED_KEYS.get(type_, ()):
        yield from _check_content(type_, key, data)


def _check_content(type_: str, key: str, data: Json) -> Causes:
    if key not in data or (type_.endswith("ssh-auth") and not data[key]):
        yield required(f"data[{key}]")
    elif "docker" in type_:
        try:
            read_json(base64.b64decode(data[key]), limits.REQUEST)
        except ValueError as error:
            yield invalid(f"data[{key}]", "<secret contents redacted>", str(error))


def _check_frozen(new: Json, old: Json, names: tuple[str, ...]) -> Causes:
    if not old.get("immutable"):
        return
    for name in ("immutable", *names):
        if new.get(name) != old.get(name):
            yield forbidden(name, "field is immutable when `immutable` is set")


def _decoded_size(text: str) -> int:
    return len(text) * 3 // 4 - text.count("=", -2)


# ── storage ──────────────────────────────────────────────────────────────────────────────
def check_claim(claim: Json, old: Json | None) -> Causes:
    spec = claim.get("spec") or {}
    modes = spec.get("accessModes") or []
    if not modes:
        yield required("spec.accessModes", "at least 1 access mode is required")
    for mode in modes:
        if mode not in ACCESS_MODES:
            yield not_supported("spec.accessModes", mode, ACCESS_MODES)
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if storage is None:
        yield required("spec.resources[storage]")
    elif Quantity.parse(storage).nano <= 0:
        yield invalid("spec.resources[storage]", storage, "must be greater than zero")
    if old is not None:
        bound = (old.get("status") or {}).get("phase") == "Bound"
        yield from _check_claim_change(spec, old.get("spec") or {}, bound=bound)


def _check_claim_change(spec: Json, old: Json, *, bound: bool) -> Causes:
    """A claim may be bound, and a bound claim may grow; nothing else changes."""
    free = {"resources"} if bound else {"volumeName", "storageClassName"}
    changed = [
        name
        for name in spec.keys() | old.keys()
        if name not in free and spec.get(name) != old.get(name)
    ]
    if changed:
        yield forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and "
            f"volumeAttributesClassName for bound claims\n{json_diff(old, spec)}",
        )


# ── others ───────────────────────────────────────────────────────────────────────────────
def check_lease(lease: Json, _: Json | None) -> Causes:
    spec = lease.get("spec") or {}
    if spec.get("leaseDurationSeconds") is not None and spec["leaseDurationSeconds"] <= 0:
        field = "spec.leaseDurationSeconds"
        yield invalid(field, spec["leaseDurationSeconds"], "must be greater than 0")
    if spec.get("leaseTransitions") is not None and spec["leaseTransitions"] < 0:
        detail = "must be greater than or equal to 0"
        yield invalid("spec.leaseTransitions", spec["leaseTransitions"], detail)


def check_priority_class(priority_class: Json, old: Json | None) -> Causes:
    name = (priority_class.get("metadata") or {}).get("name", "")
    value = priority_class.get("value", 0)
    if name.startswith("system-"):
        known = name in {"system-node-critical", "system-cluster-critical"}
        if not known:
            detail = "priority class names with 'system-' prefix are reserved for system use only"
            error = f"{name} is not a known system priority class"
            yield forbidden("metadata.name", f"{detail}. error: {error}")
    elif value > _HIGHEST_USER_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {_HIGHEST_USER_PRIORITY}"
        yield forbidden("value", detail)
    if old is not None:
        if value != old.get("value", 0):
            yield forbidden("value", "may not be changed in an update.")
        policy = "preemptionPolicy"
        yield from rules.immutable(policy, priority_class.get(policy), old.get(policy))


def check_quota(quota: Json, old: Json | None) -> Causes:
    spec = quota.get("spec") or {}
    for name, amount in (spec.get("hard") or {}).items():
        yield from _check_hard(name, amount, f"spec.hard[{name}]")
    if any(scope not in _SCOPES for scope in spec.get("scopes") or ()):
        yield invalid("spec.scopes", spec["scopes"], "unsupported scope")
    if old is not None:
        scopes, before = ((one.get("spec") or {}).get("scopes") for one in (quota, old))
        yield from rules.immutable("spec.scopes", scopes, before)


def _check_hard(name: str, amount: str, field: str) -> Causes:
    yield from rules.all_invalid(field, name, qualified_name_errors(name))
    if "/" not in name and name not in QUOTA_RESOURCES and "hugepages-" not in name:
        yield invalid(field, name, "must be a standard resource type or fully qualified")
        yield invalid(field, name, "must be a standard resource for quota")
    quantity = Quantity.parse(amount)
    if quantity.nano < 0:
        yield invalid(field, amount, "must be greater than or equal to 0")
    if (name in _COUNTED or name.startswith("count/")) and quantity.nano % 10**9:
        yield invalid(field, amount, "must be an integer")


_COUNTED = frozenset(
    {
        "pods",
        "services",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_MEASURED = ("cpu", "memory", "ephemeral-storage")
QUOTA_RESOURCES = _COUNTED | {
    *_MEASURED,
    "storage",
    "requests.storage",
    *(f"{side}.{name}" for side in ("requests", "limits") for name in _MEASURED),
}
_SCOPES = frozenset(
    {
        "Terminating",
        "NotTerminating",
        "BestEffort",
        "NotBestEffort",
        "PriorityClass",
        "CrossNamespacePodAffinity",
        "VolumeAttributesClass",
    }
)


def check_budget(budget: Json, _: Json | None) -> Causes:
    spec = budget.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        # kube-apiserver shows its internal form of the spec here.
        shown = (
            f'{{"MinAvailable":{compact_json(spec["minAvailable"])},'
            f'"Selector":{compact_json(spec.get("selector"))},'
            f'"MaxUnavailable":{compact_json(spec["maxUnavailable"])},'
            f'"UnhealthyPodEvictionPolicy":{compact_json(spec.get("unhealthyPodEvictionPolicy"))}}}'
        )
        detail = "minAvailable and maxUnavailable cannot be both set"
        yield Cause("FieldValueInvalid", f"Invalid value: {shown}: {detail}", "spec")
    for name in ("minAvailable", "maxUnavailable"):
        yield from rules.count_or_percent(f"spec.{name}", spec.get(name))
    yield from rules.selector("spec.selector", spec.get("selector"))
