"""`builtin` declares a built-in resource with its strategy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any, Final, TypedDict, Unpack

from manta.localplane.apiserver.api_resources import ApiResource, Subresource
from manta.localplane.apiserver.builtin_kinds.checks.rules import Check
from manta.localplane.apiserver.builtin_kinds.context import Context
from manta.localplane.apiserver.strategies.base import GroupVersionKind, Object
from manta.localplane.apiserver.strategies.builtin import BuiltinStrategy
from manta.localplane.apiserver.tables.columns import Table

CONNECT: Final = ("create", "get")
ANY: Final = ("create", "delete", "get", "patch", "update")
VIEW: Final = ("view",)
EDIT: Final = ("edit",)
VIEW_AND_EDIT: Final = ("view", "edit")
ALL: Final = ("all",)
SCALE: Final = Subresource("scale", "Scale", group="autoscaling", version="v1")


class Options(TypedDict, total=False):
    """Fields of ApiResource and BuiltinStrategy; see those classes."""

    namespaced: bool
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    verbs: tuple[str, ...]
    subresources: tuple[Subresource, ...]
    generation: bool
    fields: tuple[str, ...]
    storage_name: str
    warning: str
    return_deleted_object: bool
    roles: tuple[str, ...]
    set_defaults: Callable[[Object], None]
    on_create: Callable[[Object, Context], None]
    on_update: Callable[[Object, Object, Context, str], None]
    check: Check
    subresource_checks: Mapping[str, Check]
    check_name: Callable[[str], tuple[str, ...]]
    warn: Callable[[Mapping[str, Any], Mapping[str, Any] | None], Iterator[str]]
    table: Table
    shallow: bool
    client_status: bool
    allow_unconditional_update: bool
    allow_create_on_update: bool
    default_propagation: str
    delete_warning: str
    annotations_count: bool
    pod_template: tuple[str, ...]
    selector_is_map: bool


_RESOURCE_FIELDS: Final = frozenset(one.name for one in fields(ApiResource))


def builtin(
    path: str,
    kind: str,
    strategy: type[BuiltinStrategy] = BuiltinStrategy,
    *,
    status: bool = False,
    **options: Unpack[Options],
) -> ApiResource:
    """A built-in resource at a path such as `apps/v1/deployments`; `status` adds that subresource."""
    *group_parts, version, plural = path.split("/")
    group = "".join(group_parts)
    rest: dict[str, Any] = dict(options)
    kwargs = {name: rest.pop(name) for name in _RESOURCE_FIELDS & rest.keys()}
    if status:
        kwargs["subresources"] = (*kwargs.get("subresources", ()), Subresource("status", kind))
    built = strategy(gvk=GroupVersionKind(group, version, kind), **rest)
    return ApiResource(group, version, plural, kind, strategy=built, **kwargs)
