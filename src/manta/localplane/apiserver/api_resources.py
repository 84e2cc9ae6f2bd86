"""An API resource: one plural in one version of one group, and how its objects behave."""

from __future__ import annotations

from dataclasses import dataclass, field

from manta.localplane.apiserver.strategies.base import Strategy

READ_WRITE = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Subresource:
    name: str
    kind: str
    verbs: tuple[str, ...] = ("get", "patch", "update")
    group: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class ApiResource:
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
    """Whether `metadata.generation` counts changes of the spec."""
    fields: tuple[str, ...] = ()
    """The field labels that selectors may use, besides metadata.name and metadata.namespace."""
    list_kind: str = ""
    storage_name: str = ""
    """The resource of the store; several versions, or two groups for Events, share one."""
    warning: str = ""
    """Sent as a Warning header with every answer."""
    return_deleted_object: bool = False
    """A DELETE answers with the object instead of a Status, as for Pods and Services."""
    roles: tuple[str, ...] = ()
    """The default ClusterRoles that grant it: `view` reads it, `edit` writes it."""
    strategy: Strategy = field(kw_only=True, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name, value in (
            ("singular", self.kind.lower()),
            ("list_kind", f"{self.kind}List"),
            ("storage_name", self.group_resource),
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
