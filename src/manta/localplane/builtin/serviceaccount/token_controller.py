"""The controller of token Secrets tied to the API: it asks the server for the tokens."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from manta.api.meta import Key, Object, View
from manta.api.resources import SECRETS, SERVICE_ACCOUNTS
from manta.api.well_known import (
    ANNOTATION_SERVICE_ACCOUNT_NAME,
    ANNOTATION_SERVICE_ACCOUNT_UID,
    SECRET_SERVICE_ACCOUNT_TOKEN,
)
from manta.localplane.builtin.serviceaccount.tokens import FILL, TokenSecret, TokenSnapshot, plan
from manta.reconcile.actions import Call
from manta.reconcile.reconciler import Reconciler, Subject
from manta.reconcile.step import Step
from manta.runtime.controller import Watch, own_key
from manta.runtime.manager import Manager

TEN_YEARS = 10 * 365 * 24 * 3600


class IssuedStatus(View, frozen=True, kw_only=True):
    token: str = ""


class Issued(View, frozen=True, kw_only=True):
    status: IssuedStatus = IssuedStatus()


def _account_of(secret: TokenSecret) -> tuple[str, ...]:
    name = secret.metadata.annotations.get(ANNOTATION_SERVICE_ACCOUNT_NAME)
    return (f"{secret.metadata.namespace}/{name}",) if name else ()


class TokenController(Reconciler[TokenSnapshot, Any]):
    name = "tokens-controller"
    workers = 1

    def __init__(self, manager: Manager, root_ca: str) -> None:
        self._root_ca = root_ca
        super().__init__(manager)

    def watches(self) -> Sequence[Watch[Any]]:
        self._accounts = self.manager.informer(SERVICE_ACCOUNTS, Object)
        self._secrets = self.manager.informer(
            SECRETS,
            TokenSecret,
            fields=f"type={SECRET_SERVICE_ACCOUNT_TOKEN}",
            indexes={"account": _account_of},
        )
        return Watch(self._secrets, own_key), Watch(self._accounts, self._secrets_of)

    def _secrets_of(self, old: Object | None, new: Object | None) -> Iterable[Key]:
        if old is not None and new is not None:
            return ()
        [account] = own_key(old, new)
        return [one.metadata.key for one in self._secrets.by("account", str(account))]

    async def observe(self, key: Key) -> TokenSnapshot | None:
        secret = self._secrets.get(key)
        if secret is None:
            return None
        name = secret.metadata.annotations.get(ANNOTATION_SERVICE_ACCOUNT_NAME, "")
        account = self._accounts.get(Key(key.namespace, name))
        return TokenSnapshot(secret, account.metadata if account else None)

    def plan(self, snapshot: TokenSnapshot) -> Step[Any]:
        return Step(plan(snapshot))

    def subject(self, snapshot: TokenSnapshot) -> Subject:
        return Subject(SECRETS, snapshot.secret.metadata)

    async def call(self, snapshot: TokenSnapshot, action: Call) -> Mapping[str, Any]:
        if action.verb != FILL:
            return await super().call(snapshot, action)
        namespace, account = action.key.namespace, action.arguments["account"]
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": TEN_YEARS},
        }
        issued = await self.client.create(
            SERVICE_ACCOUNTS, namespace, request, into=Issued, subresource=(account, "token")
        )
        data = {"token": issued.status.token, "ca.crt": self._root_ca, "namespace": namespace}
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in data.items()}
        annotations = {ANNOTATION_SERVICE_ACCOUNT_UID: action.arguments["account_uid"]}
        body = {"metadata": {"annotations": annotations}, "data": encoded}
        await self.client.patch(SECRETS, action.key, body)
        return {}
