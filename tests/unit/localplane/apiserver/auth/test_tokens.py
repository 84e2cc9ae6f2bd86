"""Service account tokens: issued, believed, and no longer believed."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta

import pytest

from manta.api.meta import Key
from manta.api.resources import PODS, SERVICE_ACCOUNTS
from manta.kube.client import Client
from manta.kube.errors import BadRequest, Invalid, NotFound
from manta.localplane.apiserver.app import App
from manta.localplane.apiserver.bootstrap import bootstrap
from manta.localplane.certificates import Authority
from manta.localplane.inprocess import InProcessTransport
from manta.localplane.store.store import Store

START = datetime(2026, 11, 15, 8, tzinfo=UTC)


class Served:
    def __init__(self, directory) -> None:
        self.now = START
        self.authority = Authority(directory, START)
        self.app = App(
            Store(),
            clock=lambda: self.now,
            random=random.Random(1),
            token_key=self.authority.token_key(),
        )
        bootstrap(self.app)
        self.client = Client(InProcessTransport(self.app))

    async def token(self, name="robot", **spec):
        path = f"/api/v1/namespaces/default/serviceaccounts/{name}/token"
        body = json.dumps({"spec": spec}).encode()
        headers = {"Content-Type": "application/json"}
        answer = await self.client.send("POST", path, body=body, headers=headers)
        return json.loads(answer.body)["status"]["token"]

    def user(self, token):
        return self.app.authenticator.by_token(token)


@pytest.fixture
async def served(tmp_path):
    one = Served(tmp_path)
    await one.client.create(SERVICE_ACCOUNTS, "default", {"metadata": {"name": "robot"}})
    return one


async def test_a_token_is_its_account(served) -> None:
    user = served.user(await served.token())
    assert user.name == "system:serviceaccount:default:robot"
    assert user.groups == (
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    )


async def test_a_token_ends(served) -> None:
    token = await served.token(expirationSeconds=600)
    served.now = START + timedelta(seconds=599)
    assert served.user(token) is not None
    served.now = START + timedelta(seconds=600)
    assert served.user(token) is None


async def test_a_token_ends_with_its_account(served) -> None:
    token = await served.token()
    await served.client.delete(SERVICE_ACCOUNTS, Key("default", "robot"))
    assert served.user(token) is None
    await served.client.create(SERVICE_ACCOUNTS, "default", {"metadata": {"name": "robot"}})
    assert served.user(token) is None


async def test_a_token_ends_with_the_pod_it_is_bound_to(served) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    await served.client.create(PODS, "default", {"metadata": {"name": "p"}, "spec": spec})
    token = await served.token(boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p"})
    assert served.user(token).extra["authentication.kubernetes.io/pod-name"] == ("p",)
    await served.client.delete(PODS, Key("default", "p"))
    assert served.user(token) is None


async def test_another_audience_is_another_door(served) -> None:
    assert served.user(await served.token(audiences=["elsewhere"])) is None


async def test_a_changed_token_is_not_believed(served, tmp_path) -> None:
    token = await served.token()
    head, body, signature = token.split(".")
    assert served.user(f"{head}.{body}.{signature[:-4]}AAAA") is None
    assert served.user(f"{head}.{body[:-2]}AA.{signature}") is None
    assert served.user(f"{head}.{body}.") is None
    assert served.user("a.b.c") is None
    other = Served(tmp_path / "other")
    await other.client.create(SERVICE_ACCOUNTS, "default", {"metadata": {"name": "robot"}})
    assert served.user(await other.token()) is None


async def test_requests_for_tokens_are_checked(served) -> None:
    with pytest.raises(Invalid, match="less than 10 minutes"):
        await served.token(expirationSeconds=5)
    with pytest.raises(NotFound):
        await served.token("nobody")
    with pytest.raises(NotFound):
        await served.token(boundObjectRef={"kind": "Pod", "name": "absent"})
    with pytest.raises(BadRequest):
        await served.token(boundObjectRef={"kind": "Service", "name": "x"})


async def test_the_public_key_can_be_read(served) -> None:
    keys = json.loads((await served.client.send("GET", "/openid/v1/jwks")).body)["keys"]
    assert (keys[0]["kty"], keys[0]["alg"]) == ("EC", "ES256")
