"""Warnings for Pods that are allowed but probably not intended, in the words of kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from manta.api.quantity import Quantity

Json = Mapping[str, Any]

_WHOLE_BYTES = ("memory", "ephemeral-storage")


def pod_warnings(pod: Json, old: Json | None) -> Iterator[str]:
    """For a new Pod."""
    if old is None:
        yield from _spec_warnings(pod.get("spec") or {}, "spec")


def template_warnings(obj: Json, old: Json | None) -> Iterator[str]:
    """For a Pod template that is new or changes."""
    template = (obj.get("spec") or {}).get("template") or {}
    before = ((old or {}).get("spec") or {}).get("template") or {}
    if template != before:
        yield from _spec_warnings(template.get("spec") or {}, "spec.template.spec")


def _spec_warnings(spec: Json, path: str) -> Iterator[str]:
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or []):
        if constraint.get("labelSelector") is None:
            yield (
                f"{path}.topologySpreadConstraints[{index}].labelSelector: a null labelSelector "
                "results in matching no pod"
            )
    for member in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(member) or []):
            yield from _container_warnings(container, f"{path}.{member}[{index}]")


def _container_warnings(container: Json, path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, variable in enumerate(container.get("env") or []):
        name = variable.get("name", "")
        if name in seen:
            yield (
                f"{path}.env[{index}]: hides previous definition of {_quoted(name)}, which may be "
                "dropped when using apply"
            )
        seen.add(name)
    resources = container.get("resources") or {}
    for side in ("limits", "requests"):
        for name in _WHOLE_BYTES:
            amount = (resources.get(side) or {}).get(name)
            if amount is not None and Quantity.parse(amount).nano % 10**9:
                yield (
                    f"{path}.resources.{side}[{name}]: fractional byte value {_quoted(amount)} is "
                    "invalid, must be an integer"
                )


def _quoted(text: str) -> str:
    return f'"{text}"'
