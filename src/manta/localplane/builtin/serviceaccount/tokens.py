"""Tokens kept in Secrets: who creates a Secret of the right type gets a token put into it. Pure.

Pods get short-lived tokens without this; the Secrets are for programs outside that need one which
lasts. The token itself never appears in a plan.
"""

from __future__ import annotations

from dataclasses import dataclass

from manta.api.meta import Object, ObjectMeta
from manta.api.resources import SECRETS
from manta.api.well_known import ANNOTATION_SERVICE_ACCOUNT_NAME, ANNOTATION_SERVICE_ACCOUNT_UID
from manta.reconcile.actions import Call, Delete
from manta.reconcile.causes import ONLY_FAILURES, ActionCause
from manta.reconcile.plan import NOTHING, Plan, do

FILL = "put a token into a secret"


class Cause(ActionCause):
    FILL = ONLY_FAILURES, "the Secret asks for a token of a ServiceAccount"
    NO_ACCOUNT = ONLY_FAILURES, "the ServiceAccount of the Secret is gone"


class TokenSecret(Object, frozen=True, kw_only=True):
    data: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class TokenSnapshot:
    secret: TokenSecret
    account: ObjectMeta | None


def plan(snapshot: TokenSnapshot) -> Plan:
    meta = snapshot.secret.metadata
    name = meta.annotations.get(ANNOTATION_SERVICE_ACCOUNT_NAME)
    if not name or meta.deletion_timestamp:
        return NOTHING
    wanted = meta.annotations.get(ANNOTATION_SERVICE_ACCOUNT_UID)
    account = snapshot.account
    if account is None or (wanted and wanted != account.uid):
        return do(Delete(SECRETS, meta.key, meta.uid, Cause.NO_ACCOUNT))
    if wanted and (snapshot.secret.data or {}).get("token"):
        return NOTHING
    facts = {"account": name, "account_uid": account.uid}
    return do(Call(FILL, meta.key, Cause.FILL, arguments=facts))
