"""What every namespace must have."""

from __future__ import annotations

import msgspec

from manta.localplane.builtin.serviceaccount.plan import AccountSnapshot, plan
from manta.localplane.builtin.views import Namespace
from manta.reconcile.actions import Patch

NAMESPACE = msgspec.convert({"metadata": {"name": "x"}}, Namespace)


def test_a_new_namespace_gets_account_and_certificate() -> None:
    actions = plan(AccountSnapshot(NAMESPACE, False, None, "PEM")).actions
    assert [str(action.key) for action in actions] == ["x/default", "x/kube-root-ca.crt"]


def test_a_complete_namespace_is_left_alone() -> None:
    assert plan(AccountSnapshot(NAMESPACE, True, {"ca.crt": "PEM"}, "PEM")).actions == ()


def test_an_old_certificate_is_replaced() -> None:
    [patch] = plan(AccountSnapshot(NAMESPACE, True, {"ca.crt": "OLD"}, "PEM")).actions
    assert isinstance(patch, Patch)
    assert patch.patch == {"data": {"ca.crt": "PEM"}}


def test_nothing_is_put_into_a_namespace_on_its_way_out() -> None:
    body = {"metadata": {"name": "x", "deletionTimestamp": "2026-11-15T12:00:00Z"}}
    leaving = msgspec.convert(body, Namespace)
    assert plan(AccountSnapshot(leaving, False, None, "PEM")).actions == ()
