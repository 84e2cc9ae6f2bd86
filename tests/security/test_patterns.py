"""Patterns and rules of a CRD must not stop the server for others, whatever a tenant writes."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

from support.sender import Sender

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
EVIL = "^(a+)+$"


def crd(field: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"x": {"type": "string", "maxLength": 100} | field}}
    version = {"name": "v1", "served": True, "storage": True}
    return {
        "metadata": {"name": "evils.t.io"},
        "spec": {
            "group": "t.io",
            "names": {"plural": "evils", "kind": "Evil"},
            "scope": "Namespaced",
            "versions": [version | {"schema": {"openAPIV3Schema": schema}}],
        },
    }


@pytest.mark.skipif(find_spec("re2") is None, reason="there is no google-re2 wheel for this system")
@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "field",
    [
        {"pattern": EVIL},
        {"x-kubernetes-validations": [{"rule": f"self.matches('{EVIL}')", "message": "no"}]},
    ],
    ids=["pattern", "CEL"],
)
async def test_a_pattern_that_backtracks_is_judged_in_linear_time(
    admin: Sender, field: dict[str, Any]
) -> None:
    """P1: 29 characters froze the server for 11 s, each further one doubled that."""
    made = await admin.send("POST", CRDS, crd(field))
    assert made.status == 201, made.body
    body = {"apiVersion": "t.io/v1", "kind": "Evil", "metadata": {"name": "a"}}
    answer = await admin.send(
        "POST", "/apis/t.io/v1/namespaces/default/evils", body | {"x": "a" * 60 + "!"}
    )
    assert answer.status == 422, answer.body


@pytest.mark.parametrize(
    "rule", ["self.replace('', self) != ''", "self.split('').join(self) != ''"]
)
async def test_a_rule_that_multiplies_a_text_is_an_error_and_fills_no_memory(
    admin: Sender, rule: str
) -> None:
    """Found after P1: 50 KB of a tenant became 2.5 GB in a rule of the CRD."""
    field = {"maxLength": 60_000, "x-kubernetes-validations": [{"rule": rule, "message": "no"}]}
    made = await admin.send("POST", CRDS, crd(field))
    assert made.status == 201, made.body
    body = {"apiVersion": "t.io/v1", "kind": "Evil", "metadata": {"name": "a"}}
    path = "/apis/t.io/v1/namespaces/default/evils"
    assert (await admin.send("POST", path, body | {"x": "a"})).status == 201
    body["metadata"] = {"name": "b"}
    status, message = await admin.message("POST", path, body | {"x": "a" * 50_000})
    assert status == 422
    assert "at most 4194304 are made" in message
