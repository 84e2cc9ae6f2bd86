"""What a namespace must have before Pods can run in it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from manta.api.meta import Key
from manta.api.resources import CONFIG_MAPS, SERVICE_ACCOUNTS
from manta.api.well_known import ANNOTATION_DESCRIPTION
from manta.localplane.builtin.views import Namespace
from manta.reconcile.actions import Action, Create, Patch
from manta.reconcile.causes import ONLY_FAILURES, ActionCause
from manta.reconcile.plan import NOTHING, Plan, do

DEFAULT_ACCOUNT = "default"
ROOT_CA = "kube-root-ca.crt"
DESCRIPTION = "The certificates by which clients inside the cluster know the API server."


class Cause(ActionCause):
    ACCOUNT = ONLY_FAILURES, "the namespace has no default ServiceAccount"
    ROOT_CA = ONLY_FAILURES, "the namespace has no certificate of the cluster"


@dataclass(frozen=True, slots=True)
class AccountSnapshot:
    namespace: Namespace
    has_account: bool
    root_ca: Mapping[str, str] | None
    """The data of the ConfigMap; None when there is none."""
    wanted_ca: str


def plan(snapshot: AccountSnapshot) -> Plan:
    if snapshot.namespace.metadata.deletion_timestamp:
        return NOTHING
    name = snapshot.namespace.name
    actions: list[Action] = []
    if not snapshot.has_account:
        account = _object("ServiceAccount", name, DEFAULT_ACCOUNT)
        actions.append(Create(SERVICE_ACCOUNTS, account, Cause.ACCOUNT))
    data = {"ca.crt": snapshot.wanted_ca}
    if snapshot.root_ca is None:
        manifest = {**_object("ConfigMap", name, ROOT_CA), "data": data}
        manifest["metadata"]["annotations"] = {ANNOTATION_DESCRIPTION: DESCRIPTION}
        actions.append(Create(CONFIG_MAPS, manifest, Cause.ROOT_CA))
    elif dict(snapshot.root_ca) != data:
        actions.append(Patch(CONFIG_MAPS, Key(name, ROOT_CA), {"data": data}, Cause.ROOT_CA))
    return do(*actions, independent=True)


def _object(kind: str, namespace: str, name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}}
