"""LimitRanges: their amounts must not contradict each other."""

from __future__ import annotations

from manta.api.names import qualified_name_errors
from manta.api.quantity import Quantity
from manta.localplane.apiserver.builtin_kinds.checks import rules
from manta.localplane.apiserver.builtin_kinds.checks.rules import Causes, Json
from manta.localplane.apiserver.schema.causes import duplicate, forbidden, invalid, required

_AMOUNTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_ORDER = (
    ("min", "max"),
    ("min", "defaultRequest"),
    ("defaultRequest", "max"),
    ("defaultRequest", "default"),
    ("default", "max"),
)
"""Pairs of fields: the first amount must not exceed the second."""


def check_limit_range(limit_range: Json, _: Json | None) -> Causes:
    seen: set[str] = set()
    for index, item in enumerate((limit_range.get("spec") or {}).get("limits") or []):
        field, kind = f"spec.limits[{index}]", item.get("type", "")
        if not kind:
            yield required(f"{field}.type")
        yield from rules.all_invalid(f"{field}.type", kind, qualified_name_errors(kind))
        if kind in seen:
            yield duplicate(f"{field}.type", kind)
        seen.add(kind)
        yield from _check_item(item, kind, field)


def _check_item(item: Json, kind: str, field: str) -> Causes:
    if kind == "Pod":
        for name in ("default", "defaultRequest"):
            if item.get(name):
                yield forbidden(f"{field}.{name}", "may not be specified when `type` is 'Pod'")
    if kind == "PersistentVolumeClaim" and not {"min", "max"} & _fields_with(item, "storage"):
        detail = "either minimum or maximum storage value is required, but neither was provided"
        yield required(f"{field}.limits", detail)
    amounts = {
        name: {key: Quantity.parse(text) for key, text in (item.get(name) or {}).items()}
        for name in _AMOUNTS
    }
    for key in sorted({key for one in amounts.values() for key in one}):
        yield from _check_order(amounts, key, field)


def _fields_with(item: Json, resource: str) -> set[str]:
    return {name for name in _AMOUNTS if resource in (item.get(name) or {})}


def _check_order(amounts: dict[str, dict[str, Quantity]], key: str, field: str) -> Causes:
    for less, more in _ORDER:
        low, high = amounts[less].get(key), amounts[more].get(key)
        if low is not None and high is not None and low > high:
            spelled = {"defaultRequest": "default request"}
            detail = (
                f"{spelled.get(less, less)} value {low} is greater than "
                f"{spelled.get(more, more)} value {high}"
            )
            yield invalid(f"{field}.{less}[{key}]", str(low), detail)
    ratio = amounts["maxLimitRequestRatio"].get(key)
    if ratio is not None and ratio < Quantity(10**9):
        detail = f"ratio {ratio} is less than 1"
        yield invalid(f"{field}.maxLimitRequestRatio[{key}]", str(ratio), detail)
