"""The strategy of custom resources: everything follows from the schema of their definition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from manta.localplane.apiserver.builtin_kinds.context import Context
from manta.localplane.apiserver.builtin_kinds.nodes import node_of_custom
from manta.localplane.apiserver.custom_scale import scale_causes
from manta.localplane.apiserver.decoding import version_mismatch
from manta.localplane.apiserver.definitions import finish_removal
from manta.localplane.apiserver.patches import APPLY_PATCH, JSON_PATCH, MERGE_PATCH
from manta.localplane.apiserver.schema.causes import Cause
from manta.localplane.apiserver.schema.causes import invalid as invalid_value
from manta.localplane.apiserver.schema.compiled import CompiledSchema
from manta.localplane.apiserver.schema.node import Node
from manta.localplane.apiserver.status_errors import StatusError, invalid
from manta.localplane.apiserver.strategies.base import (
    GroupVersionKind,
    Object,
    ScalePaths,
    Strategy,
    value_at,
)
from manta.localplane.apiserver.tables.columns import NAME_AND_AGE, Table
from manta.localplane.store.objects import Record

if TYPE_CHECKING:
    from manta.localplane.apiserver.core import Core


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomStrategy(Strategy):
    gvk: GroupVersionKind
    definition: str
    """The name of the CustomResourceDefinition."""
    schema: CompiledSchema
    read_openapi: Callable[[], Mapping[str, Any]]
    """Reads the schema as the definition states it. It is large and rarely needed, so it is not kept."""
    table: Table = field(default=NAME_AND_AGE, compare=False)
    scale: ScalePaths | None = None
    has_status: bool = False
    is_storage_version: bool = True
    epoch: int = 0
    requires_type_meta = True
    patch_types = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
    status_changes_metadata = False
    repeats_metadata_errors = False
    reports_unknown_duplicates = True

    # ── decoding ─────────────────────────────────────────────────────────────────────────
    def check_type(self, obj: Mapping[str, Any]) -> None:
        version = str(obj.get("apiVersion"))
        if version != self.gvk.api_version:
            error = version_mismatch(version, self.gvk.api_version)
            # A version that is not served has no schema, so that every field is unknown.
            error.unknown = sorted(obj.keys() - {"apiVersion", "kind", "metadata"})
            raise error
        self.check_patched_type(obj)

    def check_patched_type(self, obj: Mapping[str, Any]) -> None:
        causes = [
            invalid_value(member, str(obj.get(member)), f"must be {wanted}")
            for member, wanted in (("apiVersion", self.gvk.api_version), ("kind", self.gvk.kind))
            if obj.get(member) != wanted
        ]
        if causes:
            group = str(obj.get("apiVersion")).rpartition("/")[0]
            meta = obj.get("metadata")
            name = str(meta.get("name") or "") if isinstance(meta, dict) else ""
            raise invalid(str(obj.get("kind")), group, name, causes)

    def patch_error(self, error: StatusError, shown: str) -> StatusError:
        return error

    def metadata_path(self, member: str) -> str:
        return member

    def unknown_field_label(self, name: str) -> str:
        return f"field label not supported: {name}"

    def canonicalize(self, obj: Object, unknown: list[str]) -> Object:
        return self.schema.prune(obj, unknown)

    # ── writing ──────────────────────────────────────────────────────────────────────────
    def default(self, obj: Object) -> Object:
        return self.schema.default(obj)

    def prepare_create(self, obj: Object, context: Context) -> Object:
        if self.has_status:
            obj.pop("status", None)
        return obj

    def prepare_update(
        self, old: Object, new: Object, context: Context, subresource: str
    ) -> Object:
        return new

    def validate(
        self, obj: Object, old: Object | None, subresource: str, earlier: list[Cause]
    ) -> list[Cause]:
        counts = list(scale_causes(self.scale, obj))
        return counts + self.schema.validate(obj, old, earlier=earlier)

    # ── field ownership ──────────────────────────────────────────────────────────────────
    def schema_node(self) -> Node | None:
        return node_of_custom(self.schema.root)

    def empty_object(self) -> Object:
        return {"apiVersion": self.gvk.api_version, "kind": self.gvk.kind}

    # ── storage ──────────────────────────────────────────────────────────────────────────
    def from_storage(self, obj: Object, epoch: int) -> Object:
        return obj if epoch == self.epoch else self.convert(obj)

    def convert(self, obj: Object) -> Object:
        return self.schema.default(self.schema.prune(obj))

    def after_delete(self, core: Core, record: Record) -> Record:
        finish_removal(core, self.definition)
        return record

    # ── presentation ─────────────────────────────────────────────────────────────────────
    def go_list_type(self) -> str:
        return "*unstructured.UnstructuredList"

    def openapi(self) -> Mapping[str, Any]:
        return self.read_openapi()

    # ── scale ────────────────────────────────────────────────────────────────────────────
    def scale_selector(self, obj: Object) -> str | None:
        path = self.scale.label_selector if self.scale else ()
        selector: str | None = value_at(obj, path) if path else None
        return selector

    def invalid_replicas(self, name: str, replicas: int) -> StatusError:
        cause = invalid_value(".spec.replicas", replicas, "should be a non-negative integer")
        return invalid(self.gvk.kind, self.gvk.group, name, [cause])
