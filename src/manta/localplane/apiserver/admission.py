"""Admission: what the server itself demands before an object is stored, beyond its own validity."""

from __future__ import annotations

import asyncio
from typing import Any

from manta.localplane.apiserver import limits, quotas
from manta.localplane.apiserver.auth.authorizer import Authorizer
from manta.localplane.apiserver.auth.escalation import check_escalation
from manta.localplane.apiserver.core import Call, Core
from manta.localplane.apiserver.endpoint_addresses import check_endpoint_addresses
from manta.localplane.apiserver.pod_security.admission import check_pod_security
from manta.localplane.apiserver.schema.causes import Cause
from manta.localplane.apiserver.status_errors import forbidden, not_found
from manta.localplane.store.objects import key_of

ACCOUNT_PATIENCE = 2.0
_ACCOUNTS = "serviceaccounts"
_OPEN_WHILE_TERMINATING = frozenset(("localsubjectaccessreviews",))


class Admission:
    def __init__(self, core: Core, authorizer: Authorizer, *, demand_accounts: bool) -> None:
        self._core = core
        self._authorizer = authorizer
        self._demand_accounts = demand_accounts

    async def await_account(self, call: Call, pod: dict[str, Any]) -> None:
        """The default account of a new namespace comes a moment after it; wait that moment."""
        if not self._demand_accounts or call.served.group_resource != "pods":
            return
        name = (pod.get("spec") or {}).get("serviceAccountName") or "default"
        store, key = self._core.store, key_of(call.route.namespace, str(name))
        if name != "default" or store.get(_ACCOUNTS, key) is not None:
            return
        if store.get("namespaces", call.route.namespace) is None:
            return
        watcher = store.watch(_ACCOUNTS, store.revision)
        try:
            async with asyncio.timeout(ACCOUNT_PATIENCE):
                while store.get(_ACCOUNTS, key) is None and not watcher.closed:
                    await watcher.ready(None)
                    watcher.take()
        except TimeoutError:
            return
        finally:
            store.unwatch(watcher)

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
        check_endpoint_addresses(self._core, call, obj, old)
        check_pod_security(self._core, call, obj, old, subresource)
        return obj

    def fill_in(self, call: Call, obj: dict[str, Any]) -> dict[str, Any]:
        """What a namespace gives to new objects that do not say it themselves."""
        return limits.filled_in(self._core, call, obj)

    def check_bounds(
        self, call: Call, obj: dict[str, Any], old: dict[str, Any] | None, subresource: str = ""
    ) -> None:
        """Pods change what they ask for by resizing only; claims may grow."""
        changes = subresource == "resize" or (call.served.kind != "Pod" and not subresource)
        if old is None or (changes and obj.get("spec") != old.get("spec")):
            limits.check_bounds(self._core, call, obj)

    def charge(
        self, call: Call, obj: dict[str, Any], old: dict[str, Any] | None, *, dry_run: bool
    ) -> None:
        """Quotas: the last question before an object is stored."""
        quotas.charge(self._core, call, obj, old, dry_run=dry_run)
