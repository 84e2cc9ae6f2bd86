"""C89: a cluster that lets Kubernetes check tokens has the rights that Ray needs for it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from support.rayoperator import Operated, operated
from support.virtual import virtually

EXAMPLE = Path(__file__).parents[2] / "examples" / "raycluster-token-kubernetes.yaml"
RESOURCES = {
    one.kind: one
    for one in (SERVICE_ACCOUNTS, CLUSTER_ROLE_BINDINGS, ROLES, ROLE_BINDINGS, RAY_CLUSTERS)
}
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
TOKEN_REVIEW = {"verb": "create", "group": "authentication.k8s.io", "resource": "tokenreviews"}
ACCESS_REVIEW = {
    "verb": "create",
    "group": "authorization.k8s.io",
    "resource": "subjectaccessreviews",
}
# What Ray asks about whoever shows a token: gcs_server and raylet of Ray 2.60.
WRITE = {
    "verb": "ray:write",
    "group": "ray.io",
    "resource": "rayclusters",
    "name": "delegated",
    "namespace": "default",
}


@asynccontextmanager
async def applied(**spec: Any) -> AsyncIterator[Operated]:
    async with operated() as op:
        for document in yaml.safe_load_all(EXAMPLE.read_text()):
            resource = RESOURCES[document["kind"]]
            if resource == RAY_CLUSTERS:
                document["spec"] |= spec
            await op.client.create(resource, "default" if resource.namespaced else "", document)
        await op.until_ready("delegated")
        yield op


async def may(op: Operated, account: str, attributes: dict[str, str]) -> bool:
    user = f"system:serviceaccount:default:{account}"
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": attributes},
    }
    answer = await op.client.send("POST", REVIEWS, body=json.dumps(body).encode())
    return bool(json.loads(answer.body)["status"]["allowed"])


@pytest.mark.parametrize("autoscaling", [False, True])
@virtually
async def test_c89_the_account_of_every_ray_pod_may_ask_and_is_let_in(autoscaling: bool) -> None:
    async with applied(enableInTreeAutoscaling=autoscaling) as op:
        pods = await op.pods("delegated")
        assert len(pods) == 2
        for pod in pods:
            account = pod["spec"]["serviceAccountName"]
            for right in (TOKEN_REVIEW, ACCESS_REVIEW, WRITE):
                assert await may(op, account, right), right
        if autoscaling:
            patch = {"verb": "patch", "group": "ray.io", "resource": "rayclusters"}
            assert await may(op, "delegated", patch | {"namespace": "default"})
        assert "delegated" not in await op.cluster.names(SECRETS)


@virtually
async def test_c89_nobody_else_is_let_in_and_the_account_may_no_more_than_that() -> None:
    async with applied() as op:
        assert not await may(op, "default", WRITE)
        assert not await may(op, "delegated", WRITE | {"name": "another"})
        assert not await may(op, "delegated", WRITE | {"namespace": "kube-system"})
        for verb in ("get", "patch", "delete"):
            assert not await may(op, "delegated", WRITE | {"verb": verb})
        secrets = {"verb": "get", "group": "", "resource": "secrets", "namespace": "default"}
        assert not await may(op, "delegated", secrets)


@virtually
async def test_c89_every_container_that_talks_to_ray_shows_the_token_of_its_account() -> None:
    async with applied(enableInTreeAutoscaling=True) as op:
        for pod in await op.pods("delegated"):
            for one in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())):
                env = {entry["name"]: entry.get("value") for entry in one["env"]}
                assert env["RAY_AUTH_MODE"] == "token"
                assert env["RAY_ENABLE_K8S_TOKEN_AUTH"] == "true"
                assert "RAY_AUTH_TOKEN" not in env
                [mount] = [m for m in one["volumeMounts"] if m["name"] == "ray-token"]
                assert mount["mountPath"] == "/var/run/secrets/ray.io/serviceaccount"
                assert mount["readOnly"] is True
            [volume] = [v for v in pod["spec"]["volumes"] if v["name"] == "ray-token"]
            [source] = volume["projected"]["sources"]
            assert source["serviceAccountToken"]["path"] == "token"
