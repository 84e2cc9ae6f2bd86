"""The compiled schema of one version of a custom resource."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from manta.localplane.apiserver.schema import causes
from manta.localplane.apiserver.schema.causes import BLOCKING, Cause
from manta.localplane.apiserver.schema.compilation import compile_node
from manta.localplane.apiserver.schema.defaulting import fill_defaults
from manta.localplane.apiserver.schema.list_types import check_embedded, check_unique
from manta.localplane.apiserver.schema.node import Node
from manta.localplane.apiserver.schema.pruning import prune_root
from manta.localplane.apiserver.schema.rules import check_rules
from manta.localplane.apiserver.schema.validation import ABSENT, check_node

_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


@dataclass(frozen=True, slots=True)
class CompiledSchema:
    root: Node
    """The graph of nodes; server-side apply reads list types from it."""

    def prune(self, obj: dict[str, Any], unknown: list[str] | None = None) -> dict[str, Any]:
        """Return the object without unknown fields; their paths are added to `unknown`."""
        return prune_root(self.root, obj, unknown)

    def default(self, obj: dict[str, Any]) -> dict[str, Any]:
        filled: dict[str, Any] = fill_defaults(self.root, obj)
        return filled

    def validate(
        self,
        obj: dict[str, Any],
        old: dict[str, Any] | None = None,
        *,
        earlier: Iterable[Cause] = (),
    ) -> list[Cause]:
        """Return what is invalid, in the order of kube-apiserver.

        `earlier` are causes that the caller found already (in the metadata, say): some of them
        keep the rules from being run.
        """
        found: list[Cause] = []
        check_node(self.root, obj, ABSENT if old is None else old, None, found)
        check_embedded(self.root, obj, None, found)
        found.extend(self._duplicates(obj, old))
        if self.root.rules_below:
            if any(cause.reason in BLOCKING for cause in (*earlier, *found)):
                found.append(causes.invalid("<nil>", None, _NOT_CHECKED))
            else:
                check_rules(self.root, obj, old, found)
        return found

    def _duplicates(self, obj: dict[str, Any], old: dict[str, Any] | None) -> list[Cause]:
        """Return duplicates in lists, unless the stored object has some already."""
        found: list[Cause] = []
        check_unique(self.root, obj, None, found)
        if found and old is not None:
            before: list[Cause] = []
            check_unique(self.root, old, None, before)
            return [] if before else found
        return found


def compile_schema(openapi_v3_schema: Mapping[str, Any]) -> CompiledSchema:
    return CompiledSchema(compile_node(openapi_v3_schema))
