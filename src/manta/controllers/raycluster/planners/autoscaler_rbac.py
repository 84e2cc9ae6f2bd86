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
from manta.controllers.raycluster.planners.ensure import ensure, is_ours, mend, metadata_drift
from manta.controllers.raycluster.planners.joining import join
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.rbac import (
    autoscaler_rules,
    build_role,
    build_role_binding,
    build_service_account,
)
from manta.reconcile.actions import Delete
from manta.reconcile.plan import NOTHING, Plan, Wait, do
from manta.rules.traits import autoscaling, names_own_service_account, service_account_name

MISSING_ACCOUNT_RETRY: Final = timedelta(seconds=30)


def plan_autoscaler_rbac(seen: ClusterSnapshot) -> Plan:
    if not autoscaling(seen.cluster.spec):
        return NOTHING
    return join([_account(seen), _role(seen), _binding(seen)])


def missing_account(seen: ClusterSnapshot) -> str:
    """The user's own account, if it is named but not there."""
    named = autoscaling(seen.cluster.spec) and names_own_service_account(seen.cluster)
    if named and seen.service_account is None:
        return service_account_name(seen.cluster)
    return ""


def _account(seen: ClusterSnapshot) -> Plan:
    missing = missing_account(seen)
    if missing:
        why = f"the head names ServiceAccount {missing}, which does not exist: create it"
        return Plan(wait=Wait(why, MISSING_ACCOUNT_RETRY))
    if names_own_service_account(seen.cluster):
        return NOTHING
    manifest = build_service_account(seen.cluster)
    return ensure(seen, SERVICE_ACCOUNTS, manifest, seen.service_account, Cause.AUTOSCALER_ACCOUNT)


def _role(seen: ClusterSnapshot) -> Plan:
    live, manifest = seen.role, build_role(seen.cluster)
    plan = ensure(seen, ROLES, manifest, live, Cause.AUTOSCALER_ROLE)
    if plan != NOTHING or live is None:
        return plan
    change = metadata_drift(manifest["metadata"], live.metadata)
    why = "its labels differed from what the RayCluster asks for"
    if missing := [rule for rule in autoscaler_rules() if not _allows(live.rules, rule)]:
        change["rules"] = [*(to_json(one) for one in live.rules), *missing]
        why = "it did not allow all that the autoscaler needs"
    return mend(seen, ROLES, live, change, Cause.AUTOSCALER_ROLE_DRIFT, why)


def _allows(rules: Sequence[PolicyRule], wanted: Mapping[str, Any]) -> bool:
    """Whether the rules together allow this one; what else they allow is the user's choice."""
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


def _binding(seen: ClusterSnapshot) -> Plan:
    live, manifest = seen.role_binding, build_role_binding(seen.cluster)
    plan = ensure(seen, ROLE_BINDINGS, manifest, live, Cause.AUTOSCALER_BINDING)
    if plan != NOTHING or live is None:
        return plan
    reference = manifest["roleRef"]
    if (live.role_ref.kind, live.role_ref.name) != (reference["kind"], reference["name"]):
        return _remake(seen, live)
    change = metadata_drift(manifest["metadata"], live.metadata)
    why = "its labels differed from what the RayCluster asks for"
    wanted = manifest["subjects"][0]
    subjects = [(one.kind, one.name, one.namespace) for one in live.subjects]
    if (wanted["kind"], wanted["name"], wanted["namespace"]) not in subjects:
        change["subjects"] = [*(to_json(one) for one in live.subjects), wanted]
        why = f"ServiceAccount {wanted['name']} was not among its subjects"
    return mend(seen, ROLE_BINDINGS, live, change, Cause.AUTOSCALER_BINDING_DRIFT, why)


def _remake(seen: ClusterSnapshot, live: RoleBinding) -> Plan:
    """To which Role a binding points cannot be changed: it goes, and is made anew. What nobody
    controls may be the user's own choice of a Role, and stays."""
    meta, why = live.metadata, "it points to another Role"
    if not is_ours(seen, live) or meta.deletion_timestamp is not None:
        return NOTHING
    return do(Delete(ROLE_BINDINGS, meta.key, meta.uid, Cause.AUTOSCALER_BINDING_DRIFT, why))
