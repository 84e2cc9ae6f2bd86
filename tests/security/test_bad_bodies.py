"""Bad bodies for every verb, kind and subresource: a 4xx with a Status, and nothing changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fuzz.corpus import BODIES, LABELS, PATCHES, TEMPLATE, Kind
from manta.kube.client import Client
from manta.kube.transport import Response
from manta.localplane.apiserver.registry import Registry
from manta.localplane.inprocess import InProcessTransport
from support.raycrds import ray_crds
from support.sender import Sender
from support.tenants import app_of

NAMESPACE = "default"
JSON, YAML = "application/json", "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
STREAMS = frozenset(("attach", "exec", "log", "portforward", "proxy"))
"""Their bodies belong to the process in the Pod: see test_streams.py."""

CLUSTER = {"headGroupSpec": {"rayStartParams": {}, "template": TEMPLATE}}
JOB = {"entrypoint": "python x.py", "rayClusterSpec": CLUSTER}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
VALID: dict[str, dict[str, Any]] = BODIES | {
    "RayCluster": {"spec": CLUSTER},
    "RayJob": {"spec": JOB},
    "RayService": {"spec": {"rayClusterConfig": CLUSTER}},
    "RayCronJob": {"spec": {"schedule": "* * * * *", "jobTemplate": JOB}},
    "ReplicationController": {"spec": {"selector": LABELS, "template": TEMPLATE}},
    "ControllerRevision": {"revision": 1, "data": {"a": "b"}},
    "HorizontalPodAutoscaler": {"spec": {"maxReplicas": 2, "scaleTargetRef": TARGET}},
    "IngressClass": {"spec": {"controller": "example.com/none"}},
    "RuntimeClass": {"handler": "none"},
    "Event": {
        "reason": "R",
        "action": "a",
        "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingInstance": "z",
    },
}
ABOUT = {"kind": "Pod", "name": "p", "namespace": NAMESPACE}
EVENTS: dict[str, dict[str, Any]] = {
    "v1": {"involvedObject": ABOUT, "reportingComponent": "x/y"},
    "events.k8s.io/v1": {"regarding": ABOUT, "reportingController": "x/y"},
}

HARMLESS = frozenset(("nothing", "null", "a NUL in a label"))
"""Some requests ask for nothing, and some pass labels over: what matters is that nothing is stored."""
UNREAD = frozenset(("an unknown version", "an unknown kind"))
"""What a strategic merge patch says about its type is not read, here and in kube-apiserver."""
STRATEGIC = "application/strategic-merge-patch+json"
NO_TARGET = "target.name: Required value"
"""kube-apiserver answers 500 to a Binding without a target, in these words; so does this server."""


@cache
def kinds() -> dict[str, Kind]:
    registry = Registry()
    for crd in ray_crds():
        registry.establish(crd["metadata"]["name"], json.dumps(crd).encode())
    found = {}
    for one in registry.all():
        where = (one.api_version, one.plural, one.kind, one.namespaced)
        found[f"{one.api_version}/{one.plural}"] = Kind(*where, one.verbs)
        for sub in one.subresources:
            if sub.name not in STREAMS:
                name = f"{one.api_version}/{one.plural}/{sub.name}"
                found[name] = Kind(*where, sub.verbs, sub.name, sub.kind)
    return found


def name_of(kind: Kind) -> str:
    return "things.fuzz.example" if kind.kind == "CustomResourceDefinition" else "bad"


OTHER_VERSIONS = {
    "Scale": "autoscaling/v1",
    "Eviction": "policy/v1",
    "TokenRequest": "authentication.k8s.io/v1",
}


def good(kind: Kind) -> dict[str, Any]:
    own = kind.subresource_kind or kind.kind
    return {
        "apiVersion": OTHER_VERSIONS.get(own, kind.api_version),
        "kind": own,
        "metadata": {"name": name_of(kind), "labels": LABELS},
        **VALID.get(own, VALID.get(kind.kind, {})),
        **(EVENTS[kind.api_version] if own == "Event" else {}),
    }


def bad(body: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    text = json.dumps(body)
    open_end = f"{text[:-1]},"
    yield "nothing", b""
    yield "null", b"null"
    yield "a list", b"[1]"
    yield "a number", b"7"
    yield "a string", b'"x"'
    yield "true", b"true"
    yield "200 levels", b'{"a":' * 200 + b"1" + b"}" * 200
    yield "a raw NUL", text.replace("metadata", "meta\0data", 1).encode()
    yield "a NUL in a label", f'{open_end}"metadata":{{"labels":{{"a":"\\u0000"}}}}}}'.encode()
    yield "a lone surrogate", f'{open_end}"metadata":{{"labels":{{"a":"\\ud800"}}}}}}'.encode()
    yield "5,000 digits", f'{open_end}"metadata":{{"generation":{"1" * 5000}}}}}'.encode()
    yield "an infinite number", f'{open_end}"metadata":{{"generation":1e999}}}}'.encode()
    yield "metadata of a wrong type", f'{open_end}"metadata":[1]}}'.encode()
    yield "an unknown version", json.dumps(body | {"apiVersion": "none.example/v9"}).encode()
    yield "an unknown kind", json.dumps(body | {"kind": "Nothing"}).encode()
    yield "a kind that is a list", json.dumps(body | {"kind": [1]}).encode()
    yield "no UTF-8", text.encode().replace(b"metadata", b"meta\xff\xfedata", 1)
    yield "half of it", text[: len(text) // 2].encode()
    yield "a brace too many", f"{text}}}".encode()


def requests(kind: Kind) -> Iterator[tuple[str, str, str, str]]:
    """Verb, method, path and content type."""
    name = name_of(kind)
    itself = f"{kind.path(NAMESPACE, name)}?dryRun=All&fieldManager=bad"
    several = f"{kind.path(NAMESPACE, name if kind.subresource else '')}?dryRun=All"
    if "create" in kind.verbs:
        yield from (("create", "POST", several, media) for media in (JSON, YAML, PROTOBUF))
    if "update" in kind.verbs:
        yield from (("update", "PUT", itself, media) for media in (JSON, YAML, PROTOBUF))
    if "patch" in kind.verbs:
        yield from (("patch", "PATCH", itself, media) for media in PATCHES)
    if "delete" in kind.verbs:
        yield "delete", "DELETE", itself, JSON
    if "deletecollection" in kind.verbs:
        yield "deletecollection", "DELETE", several, JSON


async def server(directory: Path, kind: Kind) -> Sender:
    """A server that has one good object of the kind."""
    app = app_of(directory)
    for crd in ray_crds():
        if crd["spec"]["names"]["plural"] == kind.plural:
            app.put("apiextensions.k8s.io/v1", "CustomResourceDefinition", dict(crd))
    admin = Sender(Client(InProcessTransport(app)))
    account = {"metadata": {"name": "default"}}
    await admin.send("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", account)
    return admin


async def make(admin: Sender, kind: Kind) -> str:
    """The path of a good object; of kinds that are not stored, the namespace's."""
    if not kind.subresource and "get" not in kind.verbs:
        return f"/api/v1/namespaces/{NAMESPACE}"
    itself = Kind(kind.api_version, kind.plural, kind.kind, kind.namespaced, ())
    made = await admin.send("POST", itself.path(NAMESPACE), good(itself))
    assert made.status == 201, made.body
    return itself.path(NAMESPACE, name_of(kind))


def fault(media: str, shape: str, answer: Response) -> str:
    """What is wrong with an answer; empty if nothing is."""
    harmless = shape in HARMLESS or (media == STRATEGIC and shape in UNREAD)
    if harmless and answer.status < 400:
        return ""
    reported = json.loads(answer.body)
    if reported["kind"] != "Status" or not reported.get("message"):
        return f"{answer.status}, no Status that says why: {answer.body[:200]!r}"
    if 400 <= answer.status < 500 or (shape in HARMLESS and reported["message"] == NO_TARGET):
        return ""
    return f"{answer.status}: {reported['message'][:200]}"


@pytest.mark.parametrize("name", kinds())
async def test_a_bad_body_is_refused_with_a_status_and_changes_nothing(
    tmp_path: Path, name: str
) -> None:
    """X18: 500s with tracebacks; a Scale, Binding or Eviction of another kind was obeyed."""
    kind = kinds()[name]
    admin = await server(tmp_path, kind)
    itself = await make(admin, kind)
    before = (await admin.send("GET", itself)).body
    faults = {}
    for verb, method, path, media in requests(kind):
        for shape, body in bad(good(kind)):
            wrong = fault(media, shape, await admin.send(method, path, body, media))
            if wrong:
                faults[verb, media, shape] = wrong
    assert faults == {}
    assert (await admin.send("GET", itself)).body == before


@pytest.mark.parametrize("name", kinds())
async def test_the_same_body_without_the_fault_is_read(tmp_path: Path, name: str) -> None:
    """Otherwise the refusals above would say nothing about the fault."""
    kind = kinds()[name]
    admin = await server(tmp_path, kind)
    await make(admin, kind)
    verb, method, path, media = next(requests(kind))
    body = good(kind)
    if verb == "create" and not kind.subresource:
        body["metadata"] = {"name": name_of(kind).replace("bad", "another")}
    answer = await admin.send(method, path, body, media)
    assert b"unrecognized" not in answer.body
    assert b"cannot be handled" not in answer.body
    unbound = (404,) if kind.kind == "Binding" else ()  # of a Pod that is not there
    assert answer.status in (200, 201, 409, 422, *unbound), answer.body
