"""managedFields: who owns which field after an update or an apply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from manta.localplane.apiserver.api_resources import ApiResource
from manta.localplane.apiserver.patches import status_error
from manta.localplane.apiserver.patching.apply import conflict_message, server_side_apply
from manta.localplane.apiserver.patching.errors import PatchError
from manta.localplane.apiserver.patching.managed_fields import Manager, read_entries, track_update
from manta.localplane.apiserver.status_errors import StatusError

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FieldManager:
    """Who writes, when, and through which subresource."""

    name: str
    now: str
    subresource: str = ""
    force: bool = False

    def update(self, resource: ApiResource, old: Object | None, new: Object) -> list[Object]:
        """managedFields after an update; `old` is None for a create."""
        strategy = resource.strategy
        if old is None:
            before = strategy.empty_object()
        else:
            owners = self._owners_before(old, new)
            if not owners:  # an object that was not tracked from its creation is never tracked
                return []
            before = old | {"metadata": old["metadata"] | {"managedFields": owners}}
        return track_update(
            before,
            new,
            manager=Manager(self.name, "Update", resource.api_version, self.subresource),
            now=self.now,
            node=strategy.schema_node(),
            reset=self._not_written(resource, new),
        )

    def apply(self, resource: ApiResource, live: Object | None, config: Object) -> Object:
        """The object that an apply patch makes, with its managedFields. Raises a 409 for conflicts."""
        try:
            result = server_side_apply(
                live,
                config,
                manager=Manager(self.name, "Apply", resource.api_version, self.subresource),
                force=self.force,
                node=resource.strategy.schema_node(),
                now=self.now,
                empty=resource.strategy.empty_object(),
                reset=self._not_written(resource, config),
            )
        except PatchError as error:
            raise status_error(error) from None
        if result.conflicts:
            causes = [conflict.cause.as_json() for conflict in result.conflicts]
            message = conflict_message(result.conflicts)
            raise StatusError(409, "Conflict", message, {"causes": causes})
        return result.object

    def _not_written(self, resource: ApiResource, obj: Object) -> frozenset[str]:
        """The top-level fields that this endpoint does not write, and so gives to no manager."""
        if self.subresource == "status":
            return frozenset(obj.keys() - {"status", "metadata"})
        return frozenset(("status",)) if resource.has_status else frozenset()

    def _owners_before(self, old: Object, new: Object) -> list[Object]:
        """The entries before this write. A client may send its own; `[{}]` removes all of them."""
        kept: list[Object] = old["metadata"].get("managedFields") or []
        sent = new["metadata"].get("managedFields")
        if not sent or self.subresource or sent is kept:
            return kept
        if sent == [{}]:
            return []
        return sent if len(read_entries(new)) == len(sent) else kept
