"""One request after the other, from a seed: a valid one, then what a mutation makes of it."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any
from urllib.parse import quote

from fuzz.corpus import PATCHES, PROTECTED, Kind
from fuzz.values import TEXTS, damaged, mutated, nested, odd

NAMES = tuple(f"fz-{number}" for number in range(6))
NAMESPACE = "fuzz"
CONTENT_TYPES = (
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "text/plain",
    "",
    "application/json; charset=latin-1",
    *PATCHES,
)
ACCEPTS = (
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "*/*",
    "image/png",
    "application/json;q=x",
    "application/cbor",
)
PARAMETERS: dict[str, tuple[str, ...]] = {
    "limit": ("1", "-1", "0", "99999999999999999999", "x"),
    "continue": ("x", base64.b64encode(b'{"v":"meta.k8s.io/v1","rv":1,"start":"a"}').decode()),
    "resourceVersion": ("0", "1", "999999999999", "-1", "9" * 5000, "x"),
    "resourceVersionMatch": ("Exact", "NotOlderThan", "x"),
    "labelSelector": ("a=b", "a in (b,c)", "!a", "a notin", "=", "a=b," * 300, "\x00"),
    "fieldSelector": ("metadata.name=x", "spec.nodeName=y", "status.phase!=Running", "x.y=z", "="),
    "timeoutSeconds": ("1", "-1", "x"),
    "allowWatchBookmarks": ("true", "x"),
    "sendInitialEvents": ("true", "x"),
    "dryRun": ("All", "x"),
    "fieldManager": ("m", "", "x" * 200, "\n"),
    "fieldValidation": ("Strict", "Warn", "Ignore", "x"),
    "force": ("true", "x"),
    "pretty": ("true", "x"),
    "propagationPolicy": ("Background", "Foreground", "Orphan", "x"),
    "gracePeriodSeconds": ("0", "-1", "x", "9" * 40),
    "container": ("c", "nosuch", ""),
    "command": ("id", "\x00"),
    "stdin": ("true", "x"),
    "stdout": ("true",),
    "tty": ("true",),
    "ports": ("80", "0", "99999", "x"),
    "port": ("80", "-1"),
    "follow": ("x", "false"),
    "tailLines": ("1", "-1", "9" * 5000),
    "sinceTime": ("x", "2026-01-01T00:00:00Z", "9999-99-99"),
    "sinceSeconds": ("1", "-1", "9" * 40),
    "limitBytes": ("1", "-1", "0"),
    "path": ("x", "../y"),
}
PEOPLE: tuple[dict[str, str], ...] = (
    {"Impersonate-User": "tenant"},
    {"Impersonate-User": "tenant", "Impersonate-Group": "system:authenticated"},
    {"Impersonate-User": "system:serviceaccount:fuzz:default"},
    {"Impersonate-Uid": "x"},
    {"Impersonate-Extra-": "y"},
    {"Authorization": "Bearer " + "a.b.c"},
)
METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}


@dataclass(frozen=True)
class Request:
    """What goes over the wire, and what it was made from."""

    number: int
    verb: str
    kind: Kind
    method: str
    target: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def is_stream(self) -> bool:
        return "upgrade" in {name.lower() for name in self.headers} or self.kind.subresource in (
            *("exec", "attach", "portforward", "proxy", "log"),
        )

    def text(self) -> str:
        return f"#{self.number} {self.verb} {self.kind.plural}/{self.kind.subresource}: {self.method} {self.target[:300]} {self.headers} {self.body[:300]!r}"


def generate(seed: int, number: int, kinds: Sequence[Kind]) -> Request:
    """The request of this number in the run of this seed, whoever asks."""
    rng = Random(f"{seed}/{number}")
    kind = rng.choice(kinds)
    verb = rng.choice(kind.verbs or ("get",))
    name = rng.choice(NAMES)
    if verb not in ("create", "list") and rng.random() < 0.4 and "create" in kind.verbs:
        verb = "create"  # what is not there can be neither changed nor read
    if kind.plural == "customresourcedefinitions" and rng.random() < 0.9:
        name = "things.fuzz.example"
    method = METHODS.get(verb, "GET")
    collection = verb in ("list", "watch", "deletecollection") or (
        verb == "create" and not kind.subresource
    )
    if verb in ("delete", "deletecollection") and kind.plural in PROTECTED:
        verb, method, collection, name = "delete", "DELETE", False, rng.choice(NAMES)
    path = kind.path(NAMESPACE, "" if collection else name)
    query = _query(rng, verb)
    headers = {**(rng.choice(PEOPLE) if rng.random() < 0.15 else {})}
    headers["Accept"] = rng.choice(ACCEPTS) if rng.random() < 0.3 else "application/json"
    body = b""
    if method in ("POST", "PUT", "PATCH"):
        content_type, body = _body(rng, kind, verb, name)
        headers["Content-Type"] = content_type
    elif method == "DELETE" and rng.random() < 0.5:
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "x"}}
        body = _encoded(rng, mutated(rng, options, rng.randrange(3)))
        headers["Content-Type"] = "application/json"
    if rng.random() < 0.06:
        headers |= _upgrade(rng)
    if rng.random() < 0.04:
        path = _bent(rng, path)
    if rng.random() < 0.02:
        method = rng.choice(("HEAD", "OPTIONS", "TRACE", "CONNECT", "FOO", "get"))
    if rng.random() < 0.02:
        headers["X-Odd"] = rng.choice(TEXTS).replace("\r", "").replace("\n", "")[:3000]
    return Request(number, verb, kind, method, path + query, headers, body)


def _query(rng: Random, verb: str) -> str:
    chosen = rng.sample(sorted(PARAMETERS), rng.choice((0, 0, 0, 0, 0, 1, 1, 2, 4)))
    pairs = [f"{one}={quote(rng.choice(PARAMETERS[one]), safe='')}" for one in chosen]
    if verb == "watch" or rng.random() < 0.03:
        pairs = ["watch=true", *(one for one in pairs if "timeoutSeconds" not in one)]
        pairs.append("timeoutSeconds=1")
    return "?" + "&".join(pairs) if pairs else ""


def _body(rng: Random, kind: Kind, verb: str, name: str) -> tuple[str, bytes]:
    content_type = "application/json"
    value: Any = kind.body(name)
    if verb == "patch":
        content_type, change = rng.choice(sorted(PATCHES.items()))
        value = (
            change if content_type.startswith("application/json-patch") else _patch(kind, change)
        )
    if rng.random() < 0.95:
        value = mutated(rng, value, rng.choice((0, 0, 0, 1, 1, 2, 5)))
    elif rng.random() < 0.3:
        value = nested(rng)
    else:
        value = odd(rng)
    data = _encoded(rng, value)
    if rng.random() < 0.05:
        data = damaged(rng, data)
    if rng.random() < 0.05:
        content_type = rng.choice(CONTENT_TYPES)
    return content_type, data


def _patch(kind: Kind, change: Any) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.kind, **change}


def _encoded(rng: Random, value: Any) -> bytes:
    try:
        text = json.dumps(value)
    except (RecursionError, ValueError):
        depth = rng.choice((500, 20_000))
        text = "[" * depth + "]" * depth
    if rng.random() < 0.02:
        return b"a: &a [x,x,x]\nb: &b [*a,*a,*a]\nc: &c [*b,*b,*b]\nd: [*c,*c,*c]\n" + text.encode()
    return text.encode("utf-8", "surrogatepass")


def _upgrade(rng: Random) -> dict[str, str]:
    if rng.random() < 0.5:
        return {"Connection": "Upgrade", "Upgrade": rng.choice(("SPDY/3.1", "h2c", "x"))}
    return {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Key": rng.choice((base64.b64encode(b"x" * 16).decode(), "short")),
        "Sec-WebSocket-Version": rng.choice(("13", "8")),
        "Sec-WebSocket-Protocol": rng.choice(("v4.channel.k8s.io", "v5.channel.k8s.io", "x")),
    }


def _bent(rng: Random, path: str) -> str:
    match rng.randrange(6):
        case 0:
            return path.replace("/", "//", 1)
        case 1:
            return path + "/" + quote(rng.choice(TEXTS)[:200], safe="")
        case 2:
            return path + "/../" * 3
        case 3:
            return path + "%00"
        case 4:
            return "/" + quote(rng.choice(TEXTS)[:200], safe="")
        case _:
            return path + "/a" * rng.choice((5, 500))
