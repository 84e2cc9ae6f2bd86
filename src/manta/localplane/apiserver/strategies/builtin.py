"""The strategy of built-in kinds. Functions that belong to one kind are handed in at its registration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from manta.api.names import dns1123_subdomain_errors
from manta.api.selectors import from_object
from manta.localplane.apiserver.builtin_kinds.checks.rules import Check
from manta.localplane.apiserver.builtin_kinds.context import Context
from manta.localplane.apiserver.builtin_kinds.messages import message_of
from manta.localplane.apiserver.builtin_kinds.nodes import node_of_kind
from manta.localplane.apiserver.builtin_kinds.reading import WrongTypeError, read_object
from manta.localplane.apiserver.decoding import escaped_json, not_registered, version_mismatch
from manta.localplane.apiserver.events import from_stored, to_stored
from manta.localplane.apiserver.patches import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from manta.localplane.apiserver.schema.causes import Cause
from manta.localplane.apiserver.schema.causes import invalid as invalid_value
from manta.localplane.apiserver.schema.defaulting import copy_json
from manta.localplane.apiserver.schema.node import Node
from manta.localplane.apiserver.status_errors import (
    StatusError,
    bad_request,
    invalid,
    invalid_patch,
)
from manta.localplane.apiserver.strategies.base import (
    GroupVersionKind,
    Object,
    ScalePaths,
    Strategy,
)
from manta.localplane.apiserver.tables.columns import NAME_AND_AGE, Table

_SCALE = ScalePaths(("spec", "replicas"), ("status", "replicas"))


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltinStrategy(Strategy):
    gvk: GroupVersionKind
    set_defaults: Callable[[Object], None] | None = None
    on_create: Callable[[Object, Context], None] | None = None
    """What the server adds to a new object. May raise AdmissionDeniedError."""
    on_update: Callable[[Object, Object, Context, str], None] | None = None
    """What the server adds to a changed object: (old, new, context, subresource)."""
    check: Check | None = None
    subresource_checks: Mapping[str, Check] = field(default_factory=dict)
    check_name: Callable[[str], tuple[str, ...]] = dns1123_subdomain_errors
    warn: Callable[[Mapping[str, Any], Mapping[str, Any] | None], Iterator[str]] | None = None
    table: Table = NAME_AND_AGE
    shallow: bool = False
    """No default reaches below the second level, so that objects need no deep copy."""
    client_status: bool = False
    """Clients set the status at creation, and defaults fill it: kubelets register Nodes this way."""
    allow_unconditional_update: bool = True
    allow_create_on_update: bool = False
    default_propagation: str = ""
    delete_warning: str = ""
    annotations_count: bool = False
    pod_template: tuple[str, ...] = ()
    selector_is_map: bool = False
    """`spec.selector` is a map of labels, as in a ReplicationController."""
    scale = _SCALE
    requires_type_meta = False
    patch_types = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
    status_changes_metadata = True
    repeats_metadata_errors = True
    reports_unknown_duplicates = False

    # ── decoding ─────────────────────────────────────────────────────────────────────────
    def check_type(self, obj: Mapping[str, Any]) -> None:
        kind, version = self._stated_type(obj)
        if (kind, version) == (self.gvk.kind, self.gvk.api_version):
            return
        if message_of(version, kind) is None:
            short = version.rpartition("/")[2]
            raise bad_request(
                f'{kind} in version "{short}" cannot be handled as a {self.gvk.kind}: '
                f"{not_registered(version, kind)}"
            )
        if version != self.gvk.api_version:
            raise version_mismatch(version, self.gvk.api_version)
        raise bad_request(
            f'{kind} in version "{self.gvk.version}" cannot be handled as a {self.gvk.kind}: '
            f"{self._no_conversion(kind)}"
        )

    def check_patched_type(self, obj: Mapping[str, Any]) -> None:
        kind, version = self._stated_type(obj)
        if (kind, version) == (self.gvk.kind, self.gvk.api_version):
            return
        known = message_of(version, kind) is not None
        why = self._no_conversion(kind) if known else not_registered(version, kind)
        raise invalid_patch(why, escaped_json(obj))

    def _stated_type(self, obj: Mapping[str, Any]) -> tuple[str, str]:
        version = str(obj.get("apiVersion") or self.gvk.api_version)
        return str(obj.get("kind") or self.gvk.kind), version

    def _no_conversion(self, kind: str) -> str:
        gvk = self.gvk
        group = gvk.group.partition(".")[0] or "core"
        return f"converting ({gvk.version}.{kind}) to ({group}.{gvk.kind}): unknown conversion"

    def patch_error(self, error: StatusError, shown: str) -> StatusError:
        why = error.message.partition(f"cannot be handled as a {self.gvk.kind}: ")[2]
        return invalid_patch(why, shown) if error.code == 400 and why else error

    def metadata_path(self, member: str) -> str:
        return f"metadata.{member}"

    def unknown_field_label(self, name: str) -> str:
        return f'"{name}" is not a known field selector: only "metadata.name", "metadata.namespace"'

    def canonicalize(self, obj: Object, unknown: list[str]) -> Object:
        gvk = self.gvk
        try:
            return read_object(gvk.api_version, gvk.kind, obj, unknown)
        except WrongTypeError as error:
            raise bad_request(
                f'{gvk.kind} in version "{gvk.version}" cannot be handled as a {gvk.kind}: {error}'
            ) from None

    # ── writing ──────────────────────────────────────────────────────────────────────────
    def default(self, obj: Object) -> Object:
        return self._printed(self._copy_with_defaults(obj))

    def prepare_create(self, obj: Object, context: Context) -> Object:
        new = self._copy_with_defaults(obj)
        if not self.client_status:
            new.pop("status", None)
        if self.on_create is not None:
            self.on_create(new, context)
        return self._printed(new)

    def prepare_update(
        self, old: Object, new: Object, context: Context, subresource: str = ""
    ) -> Object:
        if subresource == "status" and not self.client_status:  # the rest is as it was stored
            return self._printed(new)
        changed = self._copy_with_defaults(new)
        if self.on_update is not None:
            self.on_update(old, changed, context, subresource)
        return self._printed(changed)

    def _copy_with_defaults(self, obj: Object) -> Object:
        copied: Object
        if self.shallow:
            copied = {
                name: dict(part) if type(part) is dict else part for name, part in obj.items()
            }
        else:
            copied = copy_json(obj)
        if self.set_defaults is not None:
            self.set_defaults(copied)
        return copied

    def _printed(self, obj: Object) -> Object:
        return read_object(self.gvk.api_version, self.gvk.kind, obj)

    def validate(
        self,
        obj: Object,
        old: Object | None = None,
        subresource: str = "",
        earlier: list[Cause] | None = None,
    ) -> list[Cause]:
        if subresource == "status":
            return []
        check = self.subresource_checks.get(subresource, self.check)
        return list(check(obj, old)) if check is not None else []

    def name_errors(self, name: str) -> tuple[str, ...]:
        return self.check_name(name)

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        return list(self.warn(obj, old)) if self.warn is not None else []

    # ── field ownership ──────────────────────────────────────────────────────────────────
    def schema_node(self) -> Node | None:
        return node_of_kind(self.gvk.api_version, self.gvk.kind)

    def empty_object(self) -> Object:
        return _printed_empty(self.gvk.api_version, self.gvk.kind)

    # ── presentation ─────────────────────────────────────────────────────────────────────
    def go_list_type(self) -> str:
        return f"*{self.gvk.group.partition('.')[0] or 'core'}.{self.gvk.kind}List"

    # ── scale ────────────────────────────────────────────────────────────────────────────
    def scale_selector(self, obj: Object) -> str | None:
        selector = (obj.get("spec") or {}).get("selector")
        if self.selector_is_map:
            selector = {"matchLabels": selector}
        return str(from_object(selector)) if selector else None

    def invalid_replicas(self, name: str, replicas: int) -> StatusError:
        cause = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        return invalid("Scale", "autoscaling", name, [cause])


@cache
def _printed_empty(api_version: str, kind: str) -> Object:
    return read_object(api_version, kind, {})


class EventStrategy(BuiltinStrategy):
    """Events of `events.k8s.io/v1`, which are stored in the form of core `v1`."""

    __slots__ = ()

    def to_storage(self, body: Object) -> Object:
        return to_stored(body)

    def is_current(self, epoch: int) -> bool:
        return False

    def from_storage(self, obj: Object, epoch: int) -> Object:
        return from_stored(obj)
