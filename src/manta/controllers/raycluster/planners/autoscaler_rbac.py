"""Account, Role and RoleBinding of the autoscaler, made when autoscaling is on.

An account that the user named is theirs: never made, owned or deleted by us (C76). So are rules and
subjects that somebody added: what the autoscaler needs is added to them, and nothing is taken away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import product
from typing import Any, Final

from manta.api.codec import to_json
from manta.api.rbac import PolicyRule, RoleBinding
from manta.api.resources import ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.facts import is_ours, missing_account
from manta.controllers.raycluster.planners.ensure import correct, ensure, metadata_drift
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.rbac import (
    autoscaler_rules,
    build_role,
    build_role_binding,
    build_service_account,
)
from manta.reconcile.actions import Create, Delete, OnExists
from manta.reconcile.plan import NOTHING, Plan, Wait, do, merge
from manta.rules.traits import autoscaling, names_own_service_account

MISSING_ACCOUNT_RETRY: Final = timedelta(seconds=30)


def plan_autoscaler_rbac(snapshot: ClusterSnapshot) -> Plan:
    if not autoscaling(snapshot.cluster.spec):
        return NOTHING
    return merge([_account(snapshot), _role(snapshot), _binding(snapshot)])


def _account(snapshot: ClusterSnapshot) -> Plan:
    missing = missing_account(snapshot)
    if missing:
        why = f"the head names ServiceAccount {missing}, which does not exist: create it"
        return Plan(wait=Wait(why, MISSING_ACCOUNT_RETRY))
    if names_own_service_account(snapshot.cluster):
        return NOTHING
    manifest = build_service_account(snapshot.cluster)
    return ensure(
        snapshot,
        Create(SERVICE_ACCOUNTS, manifest, Cause.AUTOSCALER_ACCOUNT, on_exists=OnExists.USE),
        snapshot.service_account,
    )


def _role(snapshot: ClusterSnapshot) -> Plan:
    live, manifest = snapshot.role, build_role(snapshot.cluster)
    plan = ensure(
        snapshot,
        Create(
            ROLES, manifest, Cause.AUTOSCALER_ROLE, on_exists=OnExists.USE, cached_by_label=True
        ),
        live,
    )
    if plan != NOTHING or live is None:
        return plan
    change = metadata_drift(manifest["metadata"], live.metadata)
    why = "its labels differed from what the RayCluster asks for"
    if missing := [rule for rule in autoscaler_rules() if not _allows(live.rules, rule)]:
        change["rules"] = [*(to_json(one) for one in live.rules), *missing]
        why = "it did not allow all that the autoscaler needs"
    return correct(snapshot, ROLES, live, change, Cause.AUTOSCALER_ROLE_DRIFT, why)


def _allows(rules: Sequence[PolicyRule], wanted: Mapping[str, Any]) -> bool:
    """Whether the rules together allow everything that `wanted` does."""
    fields = (wanted["apiGroups"], wanted["resources"], wanted["verbs"])
    return all(
        any(
            not rule.resource_names
            and {group, "*"} & {*rule.api_groups}
            and {resource, "*"} & {*rule.resources}
            and {verb, "*"} & {*rule.verbs}
            for rule in rules
        )
        for group, resource, verb in product(*fields)
    )


def _binding(snapshot: ClusterSnapshot) -> Plan:
    live, manifest = snapshot.role_binding, build_role_binding(snapshot.cluster)
    plan = ensure(
        snapshot,
        Create(
            ROLE_BINDINGS,
            manifest,
            Cause.AUTOSCALER_BINDING,
            on_exists=OnExists.USE,
            cached_by_label=True,
        ),
        live,
    )
    if plan != NOTHING or live is None:
        return plan
    reference = manifest["roleRef"]
    if (live.role_ref.kind, live.role_ref.name) != (reference["kind"], reference["name"]):
        return _recreate(snapshot, live)
    change = metadata_drift(manifest["metadata"], live.metadata)
    why = "its labels differed from what the RayCluster asks for"
    wanted = manifest["subjects"][0]
    subjects = [(one.kind, one.name, one.namespace) for one in live.subjects]
    if (wanted["kind"], wanted["name"], wanted["namespace"]) not in subjects:
        change["subjects"] = [*(to_json(one) for one in live.subjects), wanted]
        why = f"ServiceAccount {wanted['name']} was not among its subjects"
    return correct(snapshot, ROLE_BINDINGS, live, change, Cause.AUTOSCALER_BINDING_DRIFT, why)


def _recreate(snapshot: ClusterSnapshot, live: RoleBinding) -> Plan:
    """The Role of a binding is immutable, so delete the binding; the next reconcile creates it again.
    A binding without controller is the user's, and stays."""
    meta, why = live.metadata, "it points to another Role"
    if not is_ours(snapshot, live) or meta.deletion_timestamp is not None:
        return NOTHING
    return do(Delete(ROLE_BINDINGS, meta.key, meta.uid, Cause.AUTOSCALER_BINDING_DRIFT, why))
