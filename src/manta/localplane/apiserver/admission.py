"""Admission: what the server itself demands before an object is stored, beyond its own validity."""

from __future__ import annotations

from typing import Any

from manta.localplane.apiserver import quotas
from manta.localplane.apiserver.auth.authorizer import Authorizer
from manta.localplane.apiserver.auth.escalation import check_escalation
from manta.localplane.apiserver.core import Call, Core
from manta.localplane.apiserver.schema.causes import Cause
from manta.localplane.apiserver.status_errors import forbidden, not_found

_OPEN_WHILE_TERMINATING = frozenset(("localsubjectaccessreviews",))


class Admission:
    def __init__(self, core: Core, authorizer: Authorizer) -> None:
        self._core = core
        self._authorizer = authorizer

    def check_namespace(self, call: Call, obj: dict[str, Any]) -> None:
        """New content needs a namespace that exists and is not going away."""
        served = call.served
        if not served.namespaced or served.plural in _OPEN_WHILE_TERMINATING:
            return
        namespace = obj["metadata"]["namespace"]
        record = self._core.store.get("namespaces", namespace)
        if record is None:
            raise not_found("namespaces", "", namespace)
        if b'"deletionTimestamp"' in record.raw and self._is_terminating(record.decode()):
            cause = Cause(
                "NamespaceTerminating",
                f"namespace {namespace} is being terminated",
                "metadata.namespace",
            )
            why = (
                f"unable to create new content in namespace {namespace} because it is being "
                "terminated"
            )
            name = obj["metadata"].get("name", "")
            raise forbidden(served.plural, served.group, name, why, [cause])

    @staticmethod
    def _is_terminating(namespace: dict[str, Any]) -> bool:
        return "deletionTimestamp" in namespace["metadata"]

    def admit(
        self,
        call: Call,
        obj: dict[str, Any],
        old: dict[str, Any] | None,
        subresource: str = "",
    ) -> dict[str, Any]:
        check_escalation(self._authorizer, call, obj, old)
        return obj

    def charge(
        self, call: Call, obj: dict[str, Any], old: dict[str, Any] | None, *, dry_run: bool
    ) -> None:
        """Quotas: the last question before an object is stored."""
        if old is None:
            quotas.charge(self._core, call, obj, dry_run=dry_run)
