"""Rules of the history collector: RC42 to RC48 for KubeRay's, and those of our sidecar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from manta.api.ray import names
from manta.api.ray.cluster import CollectorOptions, RayClusterSpec
from manta.rules.history import (
    HISTORY_BY_NODE,
    container_names,
    history_store,
    names_kuberays_collector,
    store_url_problem,
    without_credentials,
)
from manta.rules.settings import Settings
from manta.rules.traits import group_templates
from manta.rules.validation.violation import Violation

_OURS = (
    names.ENV_POD_IP,
    names.ENV_FQ_RAY_IP,
    names.ENV_CLUSTER_NAME,
    names.ENV_CLUSTER_NAMESPACE,
    names.ENV_RAY_ROLE,
    names.ENV_OWNER_KIND,
    names.ENV_OWNER_NAME,
    names.ENV_EVENTS_PORT,
)
# For each storage: sets of variables of which at least one must be set.
_NEEDED: dict[str, tuple[tuple[str, ...], ...]] = {
    "GCS": ((names.ENV_GCS_BUCKET,),),
    "S3": ((names.ENV_S3_REGION,),),
    "AZUREBLOB": ((names.ENV_AZURE_CONNECTION_STRING, names.ENV_AZURE_ACCOUNT_URL),),
    "ALIYUNOSS": ((names.ENV_OSS_BUCKET,), (names.ENV_OSS_ENDPOINT,), (names.ENV_OSS_REGION,)),
}
# A known Azure auth mode requires its own variable; other values mean no choice.
_NEEDED_BY_AZURE_MODE: dict[str, str] = {
    "connection_string": names.ENV_AZURE_CONNECTION_STRING,
    "workload_identity": names.ENV_AZURE_ACCOUNT_URL,
    "default": names.ENV_AZURE_ACCOUNT_URL,
}


def history_violations(spec: RayClusterSpec, settings: Settings, at: str) -> Iterator[Violation]:
    options = spec.history_server_options
    if options is None:
        return
    where = f"{at}.historyServerOptions"
    collector = options.collector_options
    if collector is not None and not names_kuberays_collector(collector, settings):
        yield from _sidecar(collector, spec, settings, f"{where}.collectorOptions")
        yield from _reserved_name(spec, at, names.CONTAINER_HISTORY)
        return
    if not settings.gates.ray_cluster_history_server:
        yield Violation(where, "set", "needs the feature gate RayClusterHistoryServer")
    if collector is None:
        yield Violation(f"{where}.collectorOptions", None, "must be set")
        return
    yield from _collector(collector, f"{where}.collectorOptions")
    yield from _reserved_name(spec, at, names.CONTAINER_COLLECTOR)


def _sidecar(
    options: CollectorOptions, spec: RayClusterSpec, settings: Settings, where: str
) -> Iterator[Violation]:
    yield from _set_by_operator(options, where)
    if settings.history_store == HISTORY_BY_NODE:
        return
    store = history_store(spec, settings)
    if not store:
        cure = f"must contain {names.ENV_HISTORY_STORE}: the operator has no --history-store"
        yield Violation(f"{where}.env", [one.get("name", "") for one in options.env], cure)
    elif problem := store_url_problem(store):
        value = f"{names.ENV_HISTORY_STORE}={without_credentials(store)}"
        yield Violation(f"{where}.env", value, problem)


def _set_by_operator(options: CollectorOptions, where: str) -> Iterator[Violation]:
    given = {one.get("name", "") for one in options.env}
    for name in _OURS:
        if name in given:
            yield Violation(f"{where}.env", name, "is set by the operator; remove it")


def _collector(options: CollectorOptions, where: str) -> Iterator[Violation]:
    if not options.image:
        cure = "must be set: there is no default image, as the operator has no --history-image"
        yield Violation(f"{where}.image", options.image, cure)
    yield from _set_by_operator(options, where)
    env = {one.get("name", ""): one for one in options.env}
    backend = _value(env, names.ENV_STORAGE_BACKEND)
    if not backend:
        cure = "must contain STORAGE_BACKEND with a plain value, such as S3 or GCS"
        yield Violation(f"{where}.env", list(env), cure)
    for choices in _needed(backend.upper(), env):
        if not any(_is_given(env, choice) for choice in choices):
            cure = f"must contain {' or '.join(choices)} for the storage {backend}"
            yield Violation(f"{where}.env", list(env), cure)


def _needed(backend: str, env: Mapping[str, Mapping[str, Any]]) -> tuple[tuple[str, ...], ...]:
    mode = _value(env, names.ENV_AZURE_AUTH_MODE).strip().lower()
    if backend == "AZUREBLOB" and mode in _NEEDED_BY_AZURE_MODE:
        return ((_NEEDED_BY_AZURE_MODE[mode],),)
    return _NEEDED.get(backend, ())


def _is_given(env: Mapping[str, Mapping[str, Any]], name: str) -> bool:
    """Whether it has a non-empty value, or a reference to one."""
    return bool(_value(env, name) or env.get(name, {}).get("valueFrom"))


def _value(env: Mapping[str, Mapping[str, Any]], name: str) -> str:
    return env.get(name, {}).get("value") or ""


def _reserved_name(spec: RayClusterSpec, at: str, name: str) -> Iterator[Violation]:
    for where, template in group_templates(spec, at).items():
        if name in container_names(template.get("spec") or {}):
            cure = "is the name of the container that the operator adds; choose another"
            yield Violation(f"{where}.template.spec.containers", name, cure)
