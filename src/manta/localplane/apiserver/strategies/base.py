"""The interface of a strategy, and the answers that most kinds share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from manta.api.names import dns1123_subdomain_errors
from manta.localplane.apiserver.builtin_kinds.context import Context
from manta.localplane.apiserver.schema.causes import Cause
from manta.localplane.apiserver.schema.node import Node
from manta.localplane.apiserver.status_errors import StatusError
from manta.localplane.apiserver.tables.columns import Table
from manta.localplane.store.objects import Record

if TYPE_CHECKING:
    from manta.localplane.apiserver.api_resources import ApiResource
    from manta.localplane.apiserver.core import Core

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class GroupVersionKind:
    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where an object keeps the fields that its `scale` subresource shows."""

    spec_replicas: tuple[str, ...]
    status_replicas: tuple[str, ...]
    label_selector: tuple[str, ...] = ()


def value_at(obj: Any, path: tuple[str, ...]) -> Any:
    """The value at a path of field names, or None."""
    for part in path:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(part)
    return obj


class Strategy(ABC):
    """How the objects of one kind are decoded, completed, checked, stored and shown.

    Methods that get an object do not change it, unless they say so.
    """

    __slots__ = ()

    gvk: GroupVersionKind
    table: Table
    """The columns of `kubectl get`, and the function that fills them."""
    scale: ScalePaths | None
    """None for a kind without the `scale` subresource."""
    epoch: int = 0
    """Identifies the schema under which records are stored. 0 for built-in kinds."""
    is_storage_version: bool = True
    allow_unconditional_update: bool = False
    """Whether a PUT needs no resourceVersion."""
    allow_create_on_update: bool = False
    """Whether a PUT creates an object that does not exist."""
    default_propagation: str = ""
    """The propagationPolicy of a DELETE that names none."""
    delete_warning: str = ""
    """The warning for a DELETE that names no propagationPolicy."""
    annotations_count: bool = False
    """Whether changed annotations are a new generation."""
    pod_template: tuple[str, ...] = ()
    """Where the kind keeps its Pod template; empty for kinds without one."""

    # Where kube-apiserver treats typed objects (built-in kinds) and Unstructured ones (custom resources)
    # differently:
    requires_type_meta: bool
    """Whether each object must state its kind and apiVersion, in a request and inside a list."""
    patch_types: tuple[str, ...]
    """The media types of the patches that are accepted."""
    status_changes_metadata: bool
    """Whether a write to `status` may change labels and annotations."""
    repeats_metadata_errors: bool
    """Whether an update reports each error of metadata once more."""
    reports_unknown_duplicates: bool
    """Whether a duplicate field is reported that is also unknown."""

    # ── decoding ─────────────────────────────────────────────────────────────────────────
    @abstractmethod
    def check_type(self, obj: Mapping[str, Any]) -> None:
        """Raise StatusError if the object states another kind or apiVersion."""

    @abstractmethod
    def check_patched_type(self, obj: Mapping[str, Any]) -> None:
        """Raise StatusError if a patch has changed kind or apiVersion."""

    @abstractmethod
    def patch_error(self, error: StatusError, shown: str) -> StatusError:
        """The error for a patch whose result cannot be decoded; `shown` is quoted in it."""

    @abstractmethod
    def metadata_path(self, member: str) -> str:
        """How a type error names a member of metadata."""

    @abstractmethod
    def unknown_field_label(self, name: str) -> str:
        """The error for a field selector on a kind that offers none."""

    @abstractmethod
    def canonicalize(self, obj: Object, unknown: list[str]) -> Object:
        """The object without unknown fields, values in their usual spelling.

        Paths of unknown fields are appended to `unknown`. Raises a 400 for a value of the wrong type.
        """

    # ── writing ──────────────────────────────────────────────────────────────────────────
    @abstractmethod
    def default(self, obj: Object) -> Object:
        """The object with the defaults of its fields: what a client owns in managedFields."""

    @abstractmethod
    def prepare_create(self, obj: Object, context: Context) -> Object:
        """A new object with what the server itself adds. Raises AdmissionDeniedError. May change `obj`."""

    @abstractmethod
    def prepare_update(
        self, old: Object, new: Object, context: Context, subresource: str
    ) -> Object:
        """A changed object with what the server itself adds."""

    @abstractmethod
    def validate(
        self, obj: Object, old: Object | None, subresource: str, earlier: list[Cause]
    ) -> list[Cause]:
        """The errors outside of metadata; `earlier` are those inside of it."""

    def name_errors(self, name: str) -> tuple[str, ...]:
        return dns1123_subdomain_errors(name)

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Texts for Warning headers: allowed, but probably not intended."""
        return []

    # ── field ownership ──────────────────────────────────────────────────────────────────
    @abstractmethod
    def schema_node(self) -> Node | None:
        """The schema that patches and managedFields follow."""

    @abstractmethod
    def empty_object(self) -> Object:
        """What an object without fields looks like. Shared: callers must not change it."""

    # ── storage ──────────────────────────────────────────────────────────────────────────
    def to_storage(self, body: Object) -> Object:
        """An object without kind and apiVersion, in its stored form."""
        return body

    def is_current(self, epoch: int) -> bool:
        """Whether a record of this epoch is stored in the form that clients read."""
        return epoch == self.epoch

    def from_storage(self, obj: Object, epoch: int) -> Object:
        """A stored object in the form that clients read."""
        return obj

    def convert(self, obj: Object) -> Object:
        """An object of another version of the same kind, as this version stores it."""
        return obj

    def begin_delete(self, core: Core, obj: Object) -> Object:
        """The object on which a DELETE is decided."""
        return obj

    def after_write(self, core: Core, record: Record) -> Record:
        """Called after an object is stored. Returns the record."""
        return record

    def after_mark(
        self, core: Core, record: Record, delete: Callable[[ApiResource, str], object]
    ) -> Record:
        """Called after an object got its deletionTimestamp; `delete` takes a resource and a key."""
        return record

    def after_delete(self, core: Core, record: Record) -> Record:
        """Called after an object is removed. Returns its last record."""
        return record

    # ── presentation ─────────────────────────────────────────────────────────────────────
    @abstractmethod
    def go_list_type(self) -> str:
        """The Go type of a list, which some errors name."""

    def openapi(self) -> Mapping[str, Any] | None:
        """The openAPIV3Schema of a custom resource; None for built-in kinds."""
        return None

    # ── scale ────────────────────────────────────────────────────────────────────────────
    @abstractmethod
    def scale_selector(self, obj: Object) -> str | None:
        """The label selector of the Pods, as text."""

    @abstractmethod
    def invalid_replicas(self, name: str, replicas: int) -> StatusError:
        """The error for a negative number of replicas."""
