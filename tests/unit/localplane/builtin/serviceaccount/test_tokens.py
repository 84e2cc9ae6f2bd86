"""Secrets that ask for a token."""

from __future__ import annotations

import msgspec

from manta.api.meta import ObjectMeta, Uid
from manta.api.well_known import ANNOTATION_SERVICE_ACCOUNT_NAME, ANNOTATION_SERVICE_ACCOUNT_UID
from manta.localplane.builtin.serviceaccount.tokens import FILL, TokenSecret, TokenSnapshot, plan
from manta.reconcile.actions import Call, Delete

ACCOUNT = ObjectMeta(name="robot", namespace="x", uid=Uid("u1"))


def a_secret(token: str = "", **annotations: str) -> TokenSecret:
    meta = {"name": "s", "namespace": "x", "uid": "us", "annotations": annotations}
    data = {"token": token} if token else None
    return msgspec.convert({"metadata": meta, "data": data}, TokenSecret)


def test_an_empty_secret_is_filled() -> None:
    [call] = plan(
        TokenSnapshot(a_secret(**{ANNOTATION_SERVICE_ACCOUNT_NAME: "robot"}), ACCOUNT)
    ).actions
    assert isinstance(call, Call)
    assert (call.verb, call.arguments) == (FILL, {"account": "robot", "account_uid": "u1"})


def test_a_full_secret_is_left_alone() -> None:
    secret = a_secret(
        "abc", **{ANNOTATION_SERVICE_ACCOUNT_NAME: "robot", ANNOTATION_SERVICE_ACCOUNT_UID: "u1"}
    )
    assert plan(TokenSnapshot(secret, ACCOUNT)).actions == ()


def test_a_secret_goes_with_its_account() -> None:
    secret = a_secret(
        "abc", **{ANNOTATION_SERVICE_ACCOUNT_NAME: "robot", ANNOTATION_SERVICE_ACCOUNT_UID: "u1"}
    )
    [delete] = plan(TokenSnapshot(secret, None)).actions
    assert isinstance(delete, Delete)


def test_the_token_of_an_account_of_the_same_name_is_not_kept() -> None:
    secret = a_secret(
        "abc", **{ANNOTATION_SERVICE_ACCOUNT_NAME: "robot", ANNOTATION_SERVICE_ACCOUNT_UID: "u0"}
    )
    [delete] = plan(TokenSnapshot(secret, ACCOUNT)).actions
    assert isinstance(delete, Delete)


def test_a_secret_that_names_no_account_is_somebody_elses() -> None:
    assert plan(TokenSnapshot(a_secret(), None)).actions == ()
