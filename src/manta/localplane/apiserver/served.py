"""A served resource: one plural in one version of one group, with everything a request needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from manta.localplane.apiserver.schema.compiled import CompiledSchema


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where a custom resource keeps what its `scale` subresource shows."""

    spec_replicas: tuple[str, ...]
    status_replicas: tuple[str, ...]
    label_selector: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """One printer column of a custom resource."""

    name: str
    type: str
    path: str
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class CustomVersion:
    """What a CustomResourceDefinition says about one version."""

    schema: CompiledSchema
    openapi: Callable[[], Mapping[str, Any]]
    """The schema as it was written: read again when asked, for it is large and rarely needed."""
    columns: tuple[Column, ...] = ()
    scale: ScalePaths | None = None
    storage: bool = True
    epoch: int = 0
    warning: str = ""


READ_WRITE = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


_CONDITIONAL = frozenset(
    (
        "apiservices.apiregistration.k8s.io",
        "customresourcedefinitions.apiextensions.k8s.io",
        "leases.coordination.k8s.io",
        "poddisruptionbudgets.policy",
        "runtimeclasses.node.k8s.io",
    )
)
_CREATED_BY_UPDATE = frozenset(
    (
        "clusterrolebindings.rbac.authorization.k8s.io",
        "clusterroles.rbac.authorization.k8s.io",
        "endpoints",
        "events",
        "events.events.k8s.io",
        "leases.coordination.k8s.io",
        "limitranges",
        "rolebindings.rbac.authorization.k8s.io",
        "roles.rbac.authorization.k8s.io",
        "runtimeclasses.node.k8s.io",
        "services",
    )
)


@dataclass(frozen=True, slots=True)
class Subresource:
    name: str
    kind: str
    verbs: tuple[str, ...] = ("get", "patch", "update")
    group: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Served:
    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = READ_WRITE
    subresources: tuple[Subresource, ...] = ()
    generation: bool = False
    """Whether changes of the spec are counted in `metadata.generation`."""
    fields: tuple[str, ...] = ()
    """What field selectors may name, beside metadata.name and metadata.namespace."""
    list_kind: str = ""
    shelf: str = ""
    """Where the objects lie; several versions, or two groups for Events, share one shelf."""
    custom: CustomVersion | None = field(default=None, compare=False)
    warning: str = ""
    """Told to everyone who uses it."""
    graceful: bool = False
    """Deleting answers with the object instead of a Status, as for Pods and Services."""

    def __post_init__(self) -> None:
        for name, value in (
            ("singular", self.kind.lower()),
            ("list_kind", f"{self.kind}List"),
            ("shelf", self.group_resource),
        ):
            if not getattr(self, name):
                object.__setattr__(self, name, value)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def has_status(self) -> bool:
        return any(sub.name == "status" for sub in self.subresources)

    def subresource(self, name: str) -> Subresource | None:
        return next((sub for sub in self.subresources if sub.name == name), None)

    def unconditional_update(self) -> bool:
        """Most built-in kinds may be replaced without a resourceVersion, custom ones may not."""
        return self.custom is None and self.group_resource not in _CONDITIONAL

    def created_by_update(self) -> bool:
        """Whether a PUT where nothing is makes the object."""
        return self.custom is None and self.group_resource in _CREATED_BY_UPDATE
