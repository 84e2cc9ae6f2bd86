"""Admission: permissions, namespaces, LimitRanges and quotas that are checked before an object is stored."""

from __future__ import annotations

import asyncio
from typing import Any

from manta.localplane.apiserver import limit_ranges, quotas
from manta.localplane.apiserver.auth.authorizer import Authorizer
from manta.localplane.apiserver.auth.escalation import check_escalation
from manta.localplane.apiserver.core import Call, Core
from manta.localplane.apiserver.endpoint_addresses import check_endpoint_addresses
from manta.localplane.apiserver.pod_security.admission import check_pod_security
from manta.localplane.apiserver.schema.causes import Cause
from manta.localplane.apiserver.status_errors import forbidden, not_found
from manta.localplane.store.objects import key_of

ACCOUNT_WAIT_SECONDS = 2.0
_SERVICE_ACCOUNTS = "serviceaccounts"
_ALLOWED_WHILE_TERMINATING = frozenset(("localsubjectaccessreviews",))


class Admission:
    def __init__(self, core: Core, authorizer: Authorizer, *, demand_accounts: bool) -> None:
        self._core = core
        self._authorizer = authorizer
        self._demand_accounts = demand_accounts

    async def wait_for_account(self, call: Call, pod: dict[str, Any]) -> None:
        """Wait for the default ServiceAccount of a new namespace, which a controller creates after it."""
        if not self._demand_accounts or call.resource.group_resource != "pods":
            return
        name = (pod.get("spec") or {}).get("serviceAccountName") or "default"
        store, key = self._core.store, key_of(call.route.namespace, str(name))
        if name != "default" or store.get(_SERVICE_ACCOUNTS, key) is not None:
            return
        if store.get("namespaces", call.route.namespace) is None:
            return
        watcher = store.watch(_SERVICE_ACCOUNTS, store.revision)
        try:
            async with asyncio.timeout(ACCOUNT_WAIT_SECONDS):
                while store.get(_SERVICE_ACCOUNTS, key) is None and not watcher.closed:
                    await watcher.ready(None)
                    watcher.take()
        except TimeoutError:
            return
        finally:
            store.unwatch(watcher)

    def check_namespace(self, call: Call, obj: dict[str, Any]) -> None:
        """Raise a 404 or 403 unless the namespace exists and is not being deleted."""
        resource = call.resource
        if not resource.namespaced or resource.plural in _ALLOWED_WHILE_TERMINATING:
            return
        namespace = obj["metadata"]["namespace"]
        record = self._core.store.get("namespaces", namespace)
        if record is None:
            raise not_found("namespaces", "", namespace)
        marked = b'"deletionTimestamp"' in record.raw  # decode only if it may be
        if marked and "deletionTimestamp" in record.decode()["metadata"]:
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
            raise forbidden(resource.plural, resource.group, name, why, [cause])

    def admit(
        self, call: Call, obj: dict[str, Any], old: dict[str, Any] | None, subresource: str = ""
    ) -> dict[str, Any]:
        check_escalation(self._authorizer, call, obj, old)
        check_endpoint_addresses(self._core, call, obj, old)
        check_pod_security(self._core, call, obj, old, subresource)
        return obj

    def apply_limit_defaults(self, call: Call, obj: dict[str, Any]) -> dict[str, Any]:
        """The new object with the default requests and limits of its namespace."""
        return limit_ranges.with_default_resources(self._core, call, obj)

    def check_bounds(
        self, call: Call, obj: dict[str, Any], old: dict[str, Any] | None, subresource: str = ""
    ) -> None:
        """Check the LimitRanges. Pods change their requests by `resize` only; claims may grow."""
        changes = subresource == "resize" or (call.resource.kind != "Pod" and not subresource)
        if old is None or (changes and obj.get("spec") != old.get("spec")):
            limit_ranges.check_bounds(self._core, call, obj)

    def charge(
        self, call: Call, obj: dict[str, Any], old: dict[str, Any] | None, *, dry_run: bool
    ) -> None:
        """Count the object in its ResourceQuotas. Raises a 403 if it does not fit."""
        quotas.charge(self._core, call, obj, old, dry_run=dry_run)
