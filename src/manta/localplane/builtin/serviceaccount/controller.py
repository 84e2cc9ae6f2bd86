"""The service-account controller: what it watches, and its phases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from manta.api.meta import Key, Object
from manta.api.resources import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS
from manta.localplane.builtin.serviceaccount.plan import (
    DEFAULT_ACCOUNT,
    ROOT_CA,
    AccountSnapshot,
    plan,
)
from manta.localplane.builtin.views import Namespace
from manta.reconcile.reconciler import Reconciler, Subject
from manta.reconcile.step import Step
from manta.runtime.cache import Named
from manta.runtime.controller import Watch, own_key
from manta.runtime.manager import Manager


class ConfigMap(Object, frozen=True, kw_only=True):
    data: dict[str, str] | None = None


def _namespace_key(old: Named | None, new: Named | None) -> Iterable[Key]:
    some = new if new is not None else old
    return (Key("", some.metadata.namespace),) if some is not None else ()


def _default_key(old: Named | None, new: Named | None) -> Iterable[Key]:
    some = new if new is not None else old
    is_default = some is not None and some.metadata.name == DEFAULT_ACCOUNT
    return _namespace_key(old, new) if is_default else ()


class ServiceAccountController(Reconciler[AccountSnapshot, Any]):
    name = "service-account-controller"
    workers = 2

    def __init__(self, manager: Manager, root_ca: str) -> None:
        self._root_ca = root_ca
        super().__init__(manager)

    def watches(self) -> Sequence[Watch[Any]]:
        informer = self.manager.informer
        self._namespaces = informer(NAMESPACES, Namespace)
        self._accounts = informer(SERVICE_ACCOUNTS, Object)
        self._certificates = informer(CONFIG_MAPS, ConfigMap, fields=f"metadata.name={ROOT_CA}")
        return (
            Watch(self._namespaces, own_key),
            Watch(self._accounts, _default_key),
            Watch(self._certificates, _namespace_key),
        )

    async def observe(self, key: Key) -> AccountSnapshot | None:
        namespace = self._namespaces.get(key)
        if namespace is None:
            return None
        certificate = self._certificates.get(Key(key.name, ROOT_CA))
        return AccountSnapshot(
            namespace,
            self._accounts.get(Key(key.name, DEFAULT_ACCOUNT)) is not None,
            (certificate.data or {}) if certificate else None,
            self._root_ca,
        )

    def plan(self, snapshot: AccountSnapshot) -> Step[Any]:
        return Step(plan(snapshot))

    def subject(self, snapshot: AccountSnapshot) -> Subject:
        return Subject(NAMESPACES, snapshot.namespace.metadata)
