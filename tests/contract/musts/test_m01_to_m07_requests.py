"""M1 to M7: who asks, in which form, what is there, and the errors of ordinary writes.

Every answer is compared whole with the one of a real kube-apiserver (tests/contract/recorded).
"""

from __future__ import annotations

import base64
import json

import pytest

from manta.kube.cluster import User
from manta.kube.transport import HttpTransport
from support.contract import PARTIAL, TABLE, Api, Widgets, config_map, pod, widget
from support.protobuf import bytes_field, envelope, number_field, text_field
from support.recording import Recording

PROTOBUF = "application/vnd.kubernetes.protobuf"
REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


# ── M1: HTTPS, bearer tokens, client certificates ────────────────────────────────────────
def as_user(api: Api, user: User) -> Api:
    """The same server, asked by someone else."""
    transport = api.transport
    assert isinstance(transport, HttpTransport)
    cluster = transport.cluster
    changed = type(cluster)(cluster.server, user=user, ca=cluster.ca, origin="test")
    other = Api(HttpTransport(changed), embedded=api.embedded)
    other.namespace = api.namespace
    return other


@pytest.mark.parametrize("token", ["bad", "a.b.c", "eyJhbGciOiJub25lIn0.e30."])
async def test_m01_a_bad_token_is_unauthorized(cluster: Api, token: str) -> None:
    stranger = as_user(cluster, User("stranger", token=token))
    try:
        answer = await stranger.get("/api/v1/pods", headers={"Authorization": f"Bearer {token}"})
    finally:
        await stranger.transport.close()
    assert answer.status == 401
    assert answer.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }


async def test_m01_a_service_account_is_known_by_its_token(cluster: Api) -> None:
    body = {"spec": {"expirationSeconds": 600}}
    made = await cluster.made(cluster.path("serviceaccounts", "default", "token"), body)
    account = as_user(cluster, User("account", token=made["status"]["token"]))
    try:
        review = await account.create(REVIEW, {})
        refused = await account.get(cluster.path("pods"))
    finally:
        await account.transport.close()
    assert review.status == 201
    info = review.body["status"]["userInfo"]
    assert info["username"] == f"system:serviceaccount:{cluster.namespace}:default"
    assert sorted(info["groups"]) == [
        "system:authenticated",
        "system:serviceaccounts",
        f"system:serviceaccounts:{cluster.namespace}",
    ]
    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert refused.message == (
        f'pods is forbidden: User "{info["username"]}" cannot list resource "pods" in API group "" '
        f'in the namespace "{cluster.namespace}"'
    )


async def test_m01_tokens_are_requested(live_recording: Recording) -> None:
    where = live_recording.path("serviceaccounts", "default", "token")
    await live_recording.create(where, {"spec": {"expirationSeconds": 600}})
    await live_recording.create(where, {"spec": {"expirationSeconds": 10}})
    await live_recording.create(where, {"spec": {"expirationSeconds": 1 << 33}})
    await live_recording.create(
        live_recording.path("serviceaccounts", "nobody", "token"), {"spec": {}}
    )


# ── M2: protobuf requests ────────────────────────────────────────────────────────────────
async def test_m02_protobuf_bodies_are_read(recording: Recording) -> None:
    def meta(name: str) -> bytes:
        return bytes_field(1, text_field(1, name))

    def entry(key: str, value: bytes) -> bytes:
        return bytes_field(2, text_field(1, key) + bytes_field(2, value))

    sent = {"content_type": PROTOBUF, "accept": f"{PROTOBUF},application/json"}
    plain = {"content_type": PROTOBUF}
    body = envelope("v1", "ConfigMap", meta("p") + entry("k", b"v"))
    await recording.create(recording.path("configmaps"), body, **plain)
    assert (await recording.create(recording.path("configmaps"), body, **sent)).status == 409
    recording.exchanges.pop()  # there the real server answers in protobuf
    secret = envelope("v1", "Secret", meta("s") + entry("a", b"b") + text_field(3, "Opaque"))
    await recording.create(recording.path("secrets"), secret, **plain)
    container = bytes_field(2, text_field(1, "c") + text_field(2, "i"))
    await recording.create(
        recording.path("pods"),
        envelope("v1", "Pod", meta("p") + bytes_field(2, container)),
        **plain,
    )
    options = envelope("v1", "DeleteOptions", number_field(1, 0) + text_field(4, "Background"))
    await recording.delete(recording.path("secrets", "s"), options, **plain)
    wrong_uid = bytes_field(2, text_field(1, "nope"))
    await recording.delete(
        recording.path("configmaps", "p"), envelope("v1", "DeleteOptions", wrong_uid), **plain
    )


async def test_m02_pointers_to_zero_stay(recording: Recording) -> None:
    """`kubectl create deployment --replicas=0` must not become one replica."""
    labels = bytes_field(1, text_field(1, "a") + text_field(2, "b"))
    container = bytes_field(2, text_field(1, "c") + text_field(2, "i"))
    template = bytes_field(1, bytes_field(11, text_field(1, "a") + text_field(2, "b")))
    template += bytes_field(2, container)
    spec = number_field(1, 0) + bytes_field(2, labels) + bytes_field(3, template)
    body = bytes_field(1, text_field(1, "d")) + bytes_field(2, spec)
    where = recording.path("deployments", api="/apis/apps/v1")
    await recording.create(where, envelope("apps/v1", "Deployment", body), content_type=PROTOBUF)


# ── M3: content negotiation ──────────────────────────────────────────────────────────────
async def test_m03_answers_have_the_form_that_was_asked(recording: Recording) -> None:
    await recording.made(
        recording.path("secrets"), {"metadata": {"name": "a"}, "stringData": {"k": "v"}}
    )
    where = recording.path("secrets")
    for accept in (
        "application/json",
        "*/*",
        "application/*",
        TABLE,
        PARTIAL,
        "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
        f"{TABLE},application/json",
        "application/json;q=0.5, text/html",
        "application/xml",
        "application/json;as=Nonsense;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    ):
        await recording.get(where, accept=accept)
    one = recording.path("secrets", "a")
    await recording.get(one, accept=TABLE)
    await recording.get(one, accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
    await recording.get(one, accept="application/xml")
    await recording.get(one, accept="application/yaml")
    await recording.get(where, accept=TABLE, query={"includeObject": "None"})
    await recording.get(where, accept=TABLE, query={"includeObject": "Object"})
    await recording.get(where, accept=TABLE, query={"includeObject": "Nonsense"})


async def test_m03_bodies_have_a_form_that_is_known(recording: Recording) -> None:
    where = recording.path("configmaps")
    await recording.create(where, b"hello", content_type="text/plain")
    await recording.create(where, b"hello", content_type="application/xml")
    await recording.create(
        where, json.dumps(config_map("a")).encode(), content_type="application/json; charset=utf-8"
    )
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\ndata:\n  k: 'on'\n"
    await recording.create(where, text, content_type="application/yaml")
    await recording.patch(recording.path("configmaps", "a"), {}, "application/json")
    await recording.patch(recording.path("configmaps", "a"), {}, "application/nonsense")


# ── M4: discovery ────────────────────────────────────────────────────────────────────────
async def test_m04_the_documents_of_discovery(
    recording: Recording, recorded_widgets: Widgets
) -> None:
    await recording.get("/apis/t.example.com")
    answer = await recording.get("/apis/t.example.com/v1")
    assert any(one["name"] == recorded_widgets.plural for one in answer.body["resources"])
    await recording.get("/apis/nothing.example.com")
    await recording.get("/apis/nothing.example.com/v1")
    await recording.get("/apis/apps/v9")
    await recording.get("/nonexistent")


# ── M6: objects and their errors ─────────────────────────────────────────────────────────
async def test_m06_create_replace_and_their_errors(recording: Recording) -> None:
    where, one = recording.path("configmaps"), recording.path("configmaps", "a")
    made = await recording.made(where, config_map("a"))
    await recording.create(where, config_map("a"))
    await recording.get(recording.path("configmaps", "zz"))
    await recording.replace(one, made | {"data": {"k": "2"}})
    await recording.replace(one, made | {"data": {"k": "3"}})
    await recording.replace(one, config_map("a", {"k": "4"}))
    await recording.replace(one, config_map("a", uid="11111111-1111-1111-1111-111111111111"))
    await recording.replace(one, config_map("zz"))
    await recording.replace(recording.path("configmaps", "notthere"), config_map("notthere"))
    await recording.create("/api/v1/namespaces/nons/configmaps", config_map("a"))
    await recording.create(where, config_map("b", namespace="other"))
    await recording.create(where, pod("a"))
    await recording.create(where, config_map("b", resourceVersion="7"))
    await recording.create(where, {"metadata": {}})
    await recording.create(where, {"apiVersion": "v1", "kind": "ConfigMap"})
    await recording.replace(one, {})
    await recording.request("POST", one, config_map("a"))
    await recording.request("PUT", where, config_map("a"))


async def test_m06_metadata_is_checked(recording: Recording) -> None:
    where = recording.path("configmaps")
    await recording.create(where, config_map("Bad_Name"))
    await recording.create(where, config_map("a" * 254))
    await recording.create(where, config_map("lab", labels={"a": "b c"}))
    await recording.create(where, config_map("lab", labels={"-a": "b"}))
    await recording.create(where, config_map("lab", labels={"a": "x" * 64, "b/c/d": "1"}))
    await recording.create(where, config_map("ann", annotations={"no way": "b"}))
    await recording.create(where, config_map("fin", finalizers=["bad"]))
    await recording.create(where, config_map("fin", finalizers=["not valid/x"]))
    await recording.create(where, config_map("gen", generation=-1))
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "1", "controller": True}
    for owners in (
        [{**owner, "uid": ""}],
        [{**owner, "name": ""}],
        [{**owner, "kind": ""}],
        [{**owner, "apiVersion": ""}],
        [owner, {**owner, "name": "y", "uid": "2"}],
        [{**owner, "apiVersion": "v1", "kind": "Event"}],
    ):
        await recording.create(where, config_map("own", ownerReferences=owners))
    await recording.create(where, config_map("own", ownerReferences=[owner]))


async def test_m06_config_maps_and_secrets_are_checked(recording: Recording) -> None:
    where = recording.path("configmaps")
    await recording.create(where, config_map("a", {"not ok!": "1"}))
    await recording.create(where, config_map("a", {"both": "1"}) | {"binaryData": {"both": "MQ=="}})
    await recording.create(where, config_map("a") | {"binaryData": {"x": "not base64!"}})
    await recording.made(where, config_map("fixed") | {"immutable": True})
    await recording.patch(recording.path("configmaps", "fixed"), {"data": {"k": "2"}})
    await recording.patch(recording.path("configmaps", "fixed"), {"immutable": False})
    await recording.patch(
        recording.path("configmaps", "fixed"), {"metadata": {"labels": {"a": "b"}}}
    )
    secrets = recording.path("secrets")
    await recording.create(secrets, {"metadata": {"name": "a"}, "data": {"a": "not base64!"}})
    await recording.create(secrets, {"metadata": {"name": "a"}, "stringData": {"a": "b"}})
    await recording.patch(recording.path("secrets", "a"), {"type": "other"})
    await recording.patch(recording.path("secrets", "a"), {"stringData": {"c": "d"}})
    await recording.create(
        secrets, {"metadata": {"name": "tls"}, "type": "kubernetes.io/tls", "data": {}}
    )
    docker = base64.b64encode(b"not json").decode()
    await recording.create(
        secrets,
        {
            "metadata": {"name": "d"},
            "type": "kubernetes.io/dockerconfigjson",
            "data": {".dockerconfigjson": docker},
        },
    )


async def test_m06_wrong_types_name_the_field(
    recording: Recording, recorded_widgets: Widgets
) -> None:
    where = recording.path("configmaps")
    await recording.create(where, b"{bad")
    await recording.create(where, b"")
    await recording.create(where, b"[]")
    await recording.create(where, b"null")
    await recording.create(where, b'"text"')
    await recording.create(
        where, b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},}'
    )
    await recording.create(where, config_map("a") | {"data": {"k": 1}})
    await recording.create(where, config_map("a") | {"data": ["k"]})
    await recording.create(where, {"metadata": {"name": 7}})
    await recording.create(where, {"metadata": "a"})
    await recording.create(where, {"metadata": {"name": "a", "labels": {"a": 1}}})
    await recording.create(
        where, {"kind": "ConfigMap", "apiVersion": "v2", "metadata": {"name": "a"}}
    )
    await recording.create(where, {"kind": "Nope", "apiVersion": "v1", "metadata": {"name": "a"}})
    await recording.create(recording.path("pods"), pod("p", containers={"name": "c"}))
    await recording.create(recording.path("pods"), pod("p", terminationGracePeriodSeconds="soon"))
    await recording.create(recording.path("pods"), pod("p", containers=[{"name": "c", "image": 1}]))
    await recording.create(
        recorded_widgets.path(), widget("w") | {"metadata": {"name": "w", "labels": 1}}
    )
    await recording.create(recorded_widgets.path(), widget("w") | {"kind": "Other"})
    await recording.create(recorded_widgets.path(), b"{bad")
    await recording.create(recorded_widgets.path(), {"spec": {"mode": "a"}})
    await recording.create(recorded_widgets.path(), [])


async def test_m06_names_are_generated(recording: Recording) -> None:
    recording.expect_generated("gen-")
    recording.expect_generated("Not-")
    recording.expect_generated("x" * 58)
    body = {"metadata": {"generateName": "gen-"}}
    await recording.create(recording.path("secrets"), body)
    body = {"metadata": {"generateName": "x" * 70}}
    answer = await recording.create(recording.path("secrets"), body)
    assert len(answer.body["metadata"]["name"]) == 63
    await recording.create(recording.path("secrets"), {"metadata": {"generateName": "Not-"}})
    both = {"metadata": {"name": "chosen", "generateName": "gen-"}}
    await recording.create(recording.path("secrets"), both)


# ── M7: revisions ────────────────────────────────────────────────────────────────────────
async def test_m07_what_changes_nothing_keeps_the_revision(
    recording: Recording, recorded_widgets: Widgets
) -> None:
    made = await recording.made(recording.path("configmaps"), config_map("a"))
    where = recording.path("configmaps", "a")
    assert (await recording.replace(where, made)).version == made["metadata"]["resourceVersion"]
    assert (await recording.patch(where, {"data": {"k": "1"}})).version == (
        made["metadata"]["resourceVersion"]
    )
    thing = await recorded_widgets.made("w")
    assert (await recording.replace(recorded_widgets.path("w"), thing)).body == thing
    listed = await recording.get(recorded_widgets.path())
    assert int(listed.version) >= int(thing["metadata"]["resourceVersion"])
    other = await recording.made(recording.path("configmaps"), config_map("b"))
    listed = await recording.get(recorded_widgets.path())
    assert int(listed.version) >= int(other["metadata"]["resourceVersion"])
