"""Compute templates: CPU, memory, accelerators and tolerations by name, kept in ConfigMaps. Pure.

A group of a Ray object that has the string `computeTemplate` gets them before Kubernetes sees the object.
The layout of the ConfigMap and what is written where are KubeRay's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from manta.api.quantity import Quantity, QuantityError
from manta.api.ray.names import (
    CONFIG_TYPE_COMPUTE_TEMPLATE,
    LABEL_COMPUTE_TEMPLATE,
    LABEL_CONFIG_TYPE,
)
from manta.api.usage import InvalidValue, UsageError
from manta.api.well_known import RESOURCE_NVIDIA_GPU

FIELD: Final = "computeTemplate"
MAX_NAMED: Final = 16
"""Different templates in one object: each is one read."""
SELECTOR: Final = f"{LABEL_CONFIG_TYPE}={CONFIG_TYPE_COMPUTE_TEMPLATE}"
_CLUSTER_SPECS: Final = ("rayClusterSpec", "rayClusterConfig")
_UINT32: Final = 2**32

Json = dict[str, Any]
Group = tuple[Literal["head", "worker"], Json]


class Toleration(msgspec.Struct, frozen=True, omit_defaults=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class ComputeTemplate(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A compute template as KubeRay's clients send and read it."""

    name: str = ""
    namespace: str = ""
    cpu: int = 0
    memory: int = 0
    gpu: int = 0
    gpu_accelerator: str = ""
    tolerations: tuple[Toleration, ...] = ()
    extended_resources: dict[str, int] = {}
    memory_unit: str = ""


def sent_template(body: Mapping[str, Any], namespace: str) -> ComputeTemplate:
    """A template that a client sends; fields in camelCase or snake_case. Raises UsageError."""
    found = {_camel(name): value for name, value in body.items() if value is not None}
    try:
        template = msgspec.convert(found, ComputeTemplate)
    except msgspec.ValidationError as error:
        raise UsageError(f"the compute template is invalid: {error}") from None
    template = msgspec.structs.replace(
        template, namespace=namespace, memory_unit=template.memory_unit or "Gi"
    )
    if not template.name:
        raise InvalidValue("name", template.name, "give the compute template a name")
    _check(template)
    return template


def _camel(name: str) -> str:
    first, *more = name.split("_")
    return first + "".join(one.capitalize() for one in more)


def _check(template: ComputeTemplate) -> None:
    numbers = {"cpu": template.cpu, "memory": template.memory, "gpu": template.gpu}
    for name, value in (numbers | template.extended_resources).items():
        if not 0 <= value < _UINT32:
            raise InvalidValue(name, value, f"must be between 0 and {_UINT32 - 1}")
    for name in ("cpu", "memory"):
        if not numbers[name]:
            raise InvalidValue(name, numbers[name], "must be a whole number above 0")
    try:
        Quantity.parse(f"{template.memory}{template.memory_unit}")
    except QuantityError:
        raise InvalidValue(
            "memoryUnit", template.memory_unit, "must be a unit of Kubernetes, such as Gi or Mi"
        ) from None


def config_map(template: ComputeTemplate) -> Json:
    data = {
        "name": template.name,
        "namespace": template.namespace,
        "cpu": str(template.cpu),
        "memory": str(template.memory),
        "memory_unit": template.memory_unit,
        "gpu": str(template.gpu),
        "gpu_accelerator": template.gpu_accelerator,
        "extended_resources": _json(template.extended_resources),
    }
    if template.tolerations:
        data["tolerations"] = _json(template.tolerations)
    labels = {
        LABEL_CONFIG_TYPE: CONFIG_TYPE_COMPUTE_TEMPLATE,
        LABEL_COMPUTE_TEMPLATE: template.name,
    }
    meta = {"name": template.name, "namespace": template.namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def is_template(found: Mapping[str, Any]) -> bool:
    labels = (found.get("metadata") or {}).get("labels") or {}
    return bool(labels.get(LABEL_CONFIG_TYPE) == CONFIG_TYPE_COMPUTE_TEMPLATE)


def template_of(found: Mapping[str, Any]) -> ComputeTemplate:
    """The template in a ConfigMap. Raises UsageError, which names the key that is wrong."""
    meta, data = found["metadata"], found.get("data") or {}
    where = f"ConfigMap {meta['namespace']}/{meta['name']}"
    template = ComputeTemplate(
        name=meta["name"],
        namespace=meta["namespace"],
        cpu=_number(where, data, "cpu"),
        memory=_number(where, data, "memory"),
        gpu=_number(where, data, "gpu"),
        gpu_accelerator=data.get("gpu_accelerator", ""),
        tolerations=_read(where, data, "tolerations", tuple[Toleration, ...]) or (),
        extended_resources=_read(where, data, "extended_resources", dict[str, int]) or {},
        memory_unit=data.get("memory_unit", "") or "Gi",
    )
    try:
        _check(template)
    except InvalidValue as error:
        raise UsageError(f"{where}: {error}") from None
    return template


def _number(where: str, data: Mapping[str, str], name: str) -> int:
    text = data.get(name, "") or "0"
    if not (text.isascii() and text.isdigit() and len(text) < 11):
        raise UsageError(f"{where}: {name}={text[:40]!r}: must be a whole number")
    return int(text)


def _read(where: str, data: Mapping[str, str], name: str, kind: Any) -> Any:
    text = data.get(name, "")
    try:
        return msgspec.json.decode(text, type=kind | None) if text else None
    except msgspec.MsgspecError as error:
        raise UsageError(f"{where}: {name} is invalid JSON: {error}") from None


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


# ── putting them in ──────────────────────────────────────────────────────────────────────


def groups_with_template(document: Any) -> Iterator[Group]:
    """The groups of a Ray object that name a template."""
    for kind, group in _groups(_cluster_spec(document)):
        if isinstance(group, dict) and isinstance(group.get(FIELD), str):
            yield kind, group


def _cluster_spec(document: Any) -> Any:
    spec = document.get("spec") if isinstance(document, dict) else None
    if isinstance(spec, dict) and isinstance(spec.get("jobTemplate"), dict):
        spec = spec["jobTemplate"]  # of a RayCronJob
    for name in _CLUSTER_SPECS:
        if isinstance(spec, dict) and isinstance(spec.get(name), dict):
            return spec[name]
    return spec


def _groups(spec: Any) -> Iterator[tuple[Literal["head", "worker"], Any]]:
    if not isinstance(spec, dict):
        return
    yield "head", spec.get("headGroupSpec")
    workers = spec.get("workerGroupSpecs")
    for group in workers if isinstance(workers, list) else ():
        yield "worker", group


def put_in(template: ComputeTemplate, kind: str, group: Json) -> None:
    """Change the group as the template says; the name of the template is kept as an annotation."""
    del group[FIELD]
    pod = group.get("template")
    if not isinstance(pod, dict):
        return
    _inner(_inner(pod, "metadata"), "annotations")[LABEL_COMPUTE_TEMPLATE] = template.name
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return
    containers = spec.get("containers")
    for one in containers if isinstance(containers, list) else ():
        if isinstance(one, dict):
            _put_resources(template, one, accelerators=one.get("name") == f"ray-{kind}")
    if template.tolerations:
        known = spec.get("tolerations")
        added = [msgspec.structs.asdict(one) for one in template.tolerations]
        spec["tolerations"] = [*(known if isinstance(known, list) else ()), *added]


def _put_resources(template: ComputeTemplate, container: Json, *, accelerators: bool) -> None:
    amounts: Json = {"cpu": str(template.cpu), "memory": f"{template.memory}{template.memory_unit}"}
    if accelerators:
        if template.gpu:
            amounts[template.gpu_accelerator or RESOURCE_NVIDIA_GPU] = template.gpu
        amounts |= template.extended_resources
    resources = _inner(container, "resources")
    for name in ("limits", "requests"):
        _inner(resources, name).update(amounts)


def _inner(outer: Json, name: str) -> Json:
    found = outer.get(name)
    if not isinstance(found, dict):
        found = outer[name] = {}
    return found
