"""Bodies and queries of the wrong types are refused with the field, never a 500 with a traceback."""

from __future__ import annotations

from typing import Any

import pytest

from support.sender import Sender
from support.tenants import OWN, Ask, Tenants

NAMESPACE = "/api/v1/namespaces/default"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
WRONG = [1, "x", [1], True, 1.5]
LONG = "1" * 5000
JSON_PATCH, MERGE = "application/json-patch+json", "application/merge-patch+json"


def pod(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i"} | (container or {})]
    return {
        "metadata": {"name": "p", "labels": {"a": "5"}},
        "spec": {"containers": containers} | spec,
    }


def deployment(**rolling: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
        },
    }


@pytest.fixture
async def objects(admin: Sender) -> None:
    await admin.send("POST", f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})
    assert (await admin.send("POST", f"{NAMESPACE}/pods", pod())).status == 201
    assert (await admin.send("POST", DEPLOYMENTS, deployment())).status == 201


@pytest.mark.usefixtures("objects")
@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize(
    ("subresource", "path"),
    [
        ("binding", ("target",)),
        ("binding", ("target", "name")),
        ("binding", ("metadata", "annotations")),
        ("eviction", ("deleteOptions",)),
        ("eviction", ("deleteOptions", "preconditions")),
        ("eviction", ("deleteOptions", "dryRun")),
        ("eviction", ("deleteOptions", "propagationPolicy")),
    ],
)
async def test_a_binding_or_eviction_of_wrong_types_is_a_bad_request(
    admin: Sender, subresource: str, path: tuple[str, ...], wrong: Any
) -> None:
    """X18: `'int' object has no attribute 'get'`."""
    if wrong == "x" and path[-1] in {"name", "propagationPolicy"}:
        wrong = {"a": 1}
    body: Any = wrong
    for name in reversed(path):
        body = {name: body}
    status, message = await admin.message(
        "POST", f"{NAMESPACE}/pods/p/{subresource}?dryRun=All", body
    )
    assert status == 400
    assert "cannot unmarshal" in message
    assert path[-1] in message


@pytest.mark.usefixtures("objects")
@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"spec": 1}, "spec"),
        ({"spec": [1]}, "spec"),
        ({"spec": {"replicas": "x"}}, "spec.replicas"),
        ({"spec": {"replicas": 1.5}}, "spec.replicas"),
        ({"spec": {"replicas": 2**40}}, "spec.replicas"),
        ({"metadata": {"resourceVersion": 1}}, "resourceVersion"),
        ({"metadata": "x"}, "metadata"),
    ],
)
async def test_a_scale_of_wrong_types_is_refused_with_its_field(
    admin: Sender, wrong: dict[str, Any], field: str
) -> None:
    """X18."""
    path = f"{DEPLOYMENTS}/d/scale"
    [(name, value)] = wrong.items()
    operation = {"op": "add", "path": f"/{name}", "value": value}
    for method, body, media in (
        ("PUT", wrong, "application/json"),
        ("PATCH", wrong, MERGE),
        ("PATCH", [operation], JSON_PATCH),
    ):
        status, message = await admin.message(method, path, body, media)
        assert status in (400, 422), message
        assert "cannot unmarshal" in message
        assert field in message


@pytest.mark.parametrize(
    "spec",
    [
        {"audiences": [1]},
        {"audiences": "x"},
        {"expirationSeconds": "x"},
        {"boundObjectRef": 1},
        {"boundObjectRef": {"kind": 1}},
        1,
        [1],
    ],
)
async def test_a_token_request_of_wrong_types_is_a_bad_request(tenants: Tenants, spec: Any) -> None:
    """X18, X19: `audiences: [1]` made a token."""
    ask = Ask("POST", f"{OWN}/serviceaccounts/default/token", {"spec": spec})
    answer = await tenants.ask(ask)
    assert answer.status == 400
    assert "cannot unmarshal" in answer.message


@pytest.mark.usefixtures("objects")
@pytest.mark.parametrize(
    "query",
    [
        f"resourceVersion={LONG}",
        f"limit={LONG}",
        "limit=1_0",
        f"timeoutSeconds={LONG}",
        f"labelSelector=a>{LONG}",
        f"labelSelector=a<{LONG}",
        "labelSelector=a>9223372036854775808",
        f"continue={LONG}",
    ],
)
async def test_a_number_of_5000_digits_in_a_query_is_a_bad_request(
    admin: Sender, query: str
) -> None:
    """X18: Python refuses to read more than 4,300 digits, and that was a 500."""
    status, message = await admin.message("GET", f"{NAMESPACE}/pods?{query}")
    assert status == 400, message


@pytest.mark.usefixtures("objects")
@pytest.mark.parametrize("number", [LONG, f"-{LONG}", "1" * 400, f"1e{LONG}"])
async def test_a_number_of_5000_digits_in_a_body_is_a_bad_request(
    admin: Sender, number: str
) -> None:
    """X18."""
    grace = f'{{"spec":{{"terminationGracePeriodSeconds":{number}}}}}'
    for method, path, media in (
        ("POST", f"{NAMESPACE}/pods", "application/json"),
        ("PATCH", f"{NAMESPACE}/pods/p", MERGE),
        ("PATCH", f"{NAMESPACE}/pods/p", "application/strategic-merge-patch+json"),
    ):
        assert (await admin.send(method, path, grace, media)).status == 400


@pytest.mark.usefixtures("objects")
async def test_a_resource_version_of_5000_digits_in_a_body_is_a_conflict(admin: Sender) -> None:
    """X18."""
    body = deployment() | {"metadata": {"name": "d", "resourceVersion": LONG}}
    answer = await admin.send("PUT", f"{DEPLOYMENTS}/d", body)
    assert answer.status in (400, 409, 422)


# ── values that no kind allows ───────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("[]", "a valid percent string"),
        ("", "a valid percent string"),
        ("5", "a valid percent string"),
        ("-1%", "a valid percent string"),
        ("1.5%", "a valid percent string"),
        ("\uff15%", "a valid percent string"),
        (-1, "greater than or equal to 0"),
        ("101%", "must not be greater than 100%"),
        (f"{LONG}%", "must not be greater than 100%"),
    ],
)
async def test_a_count_or_percentage_is_one(tenant: Sender, value: Any, fault: str) -> None:
    """X19: `maxUnavailable: "[]"` was stored."""
    spec = {"selector": {"matchLabels": {"a": "b"}}}
    for field in ("minAvailable", "maxUnavailable"):
        body = {"metadata": {"name": "b"}, "spec": spec | {field: value}}
        status, message = await tenant.message("POST", BUDGETS, body)
        assert status == 422
        assert f"spec.{field}: Invalid value" in message
        assert fault in message
    status, message = await tenant.message("POST", DEPLOYMENTS, deployment(maxUnavailable=value))
    assert status == 422
    assert "spec.strategy.rollingUpdate.maxUnavailable: Invalid value" in message


@pytest.mark.parametrize("value", [0, 3, "0%", "25%", "100%"])
async def test_a_good_count_or_percentage_is_taken(tenant: Sender, value: Any) -> None:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "maxUnavailable": value}
    made = await tenant.send("POST", BUDGETS, {"metadata": {"name": "b"}, "spec": spec})
    assert made.status == 201, made.body


@pytest.mark.parametrize("number", [-1, 2**31])
async def test_a_user_or_group_is_a_number_that_the_system_knows(
    admin: Sender, number: int
) -> None:
    """X19: `runAsUser: -1` was stored."""
    of_pod = {"runAsUser": number, "runAsGroup": number, "fsGroup": number}
    body = pod(
        {"securityContext": {"runAsUser": number, "runAsGroup": number}},
        securityContext=of_pod | {"supplementalGroups": [1, number]},
    )
    status, message = await admin.message("POST", f"{NAMESPACE}/pods", body)
    assert status == 422
    for field in (
        "spec.securityContext.runAsUser",
        "spec.securityContext.runAsGroup",
        "spec.securityContext.fsGroup",
        "spec.securityContext.supplementalGroups[1]",
        "spec.containers[0].securityContext.runAsUser",
        "spec.containers[0].securityContext.runAsGroup",
    ):
        assert f"{field}: Invalid value: {number}: must be between 0 and 2147483647" in message
