"""Odd requests to the console, from a seed: addresses, forms and cookies that no browser should send."""

from __future__ import annotations

import random
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

from manta.console.pages.actions import BY_WORD
from manta.console.pages.parts import KINDS
from manta.httpserver.messages import HttpRequest

SCRIPT = "<script>alert('odd')</script>"
_WORDS = (
    "", "0", "-1", "2147483648", "9" * 400, "1e9", "nan", "٣", "..", "../" * 12 + "etc/passwd", "%2e%2e%2f", "/etc/passwd", "\0",
    "\r\nX-Evil: 1", "\u202e", "\ufffd", "é" * 40, "x" * 5000, SCRIPT, "\"'><img src=x onerror=alert(1)>", "{{7*7}}", "default", "demo", "RayCluster",
    "workers", "Warning", "true", "rayclusters/default/demo", "javascript:alert(1)", "//evil.example", "a: &a [*a]", "{" * 500, "[" * 5000,
)  # fmt: skip
_YAMLS = (
    "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: demo, namespace: default}\nspec: {headGroupSpec: 3}\n",
    "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: [], namespace: {}}\n", "apiVersion: [1]\nkind: {a: b}\nmetadata: {name: x}\n",
    "kind: RayCluster\nmetadata: {name: demo}\n", "- 1\n- 2\n", "a: &a [1]\nb: [*a, *a]\n" * 3, "!!python/object:os.system x", "---\n" * 2000,
    "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: 7}\nspec: []\n", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n", "\t", "kind: [",
    "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata:\n  name: odd\n  labels: {x: \"<script>alert('odd')</script>\"}\nspec: {headGroupSpec: 3}\n",
)  # fmt: skip
_API = (
    "/apis/ray.io/v1/{}", "/apis/ray.io/v1/namespaces/{}/rayclusters", "/apis/ray.io/v1/namespaces/default/rayclusters/{}/{}",
    "/apis/events.k8s.io/v1/namespaces/{}/events", "/api/v1/namespaces/{}/services/{}/proxy/", "/api/v1/namespaces/default/pods/{}/log",
    "/apis/v1/namespaces/{}/compute_templates", "/apis/v1/namespaces/default/compute_templates/{}", "/openapi.json", "/swagger-ui/", "/metrics",
)  # fmt: skip
_FIELDS = (
    "yaml",
    "do",
    "group",
    "replicas",
    "namespaces",
    "token",
    "type",
    "object",
    "page",
    "done",
    "sort",
    "filter",
    "kind",
    "download",
    "uid",
    "generation",
    "planned",
    "image",
    "version",
    "name",
    "seen",
    "shape",
    "follow",
    "container",
)
_METHODS = (
    ("GET",) * 50 + ("POST",) * 40 + ("HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "")
)


def odd_requests(seed: int, count: int, host: str, cookie: str) -> Iterator[HttpRequest]:
    dice = random.Random(seed)
    for _ in range(count):
        method, fields = dice.choice(_METHODS), _fields(dice)
        body = b"" if method in ("GET", "HEAD") else _body(dice, fields)
        yield HttpRequest(method, _path(dice), tuple(fields), _headers(dice, host, cookie), body)


def _path(dice: random.Random) -> str:
    if dice.random() < 0.1:
        return f"/{dice.choice(_WORDS)}"
    if dice.random() < 0.3:
        return dice.choice(
            (
                "/",
                "/events",
                "/plan",
                "/stream",
                "/login",
                "/logout",
                "/static/console.css",
                "/healthz",
            )
        )
    if dice.random() < 0.3:
        return dice.choice(_API).format(quote(dice.choice(_WORDS), safe="/%"), dice.choice(_WORDS))
    kind = dice.choice((*KINDS, "pods", dice.choice(_WORDS)))
    place = (
        ["default", "demo"] if dice.random() < 0.7 else [dice.choice(_WORDS), dice.choice(_WORDS)]
    )
    last = dice.choice(("", "/log", *(f"/{word}" for word in BY_WORD), f"/{dice.choice(_WORDS)}"))
    return f"/{kind}/{'/'.join(place)}{last}"


def _fields(dice: random.Random) -> list[tuple[str, str]]:
    found = [(dice.choice(_FIELDS), dice.choice(_WORDS)) for _ in range(dice.choice((0, 1, 2, 5)))]
    if dice.random() < 0.3:
        found.append(("yaml", dice.choice(_YAMLS)))
    return found


def _body(dice: random.Random, fields: list[tuple[str, str]]) -> bytes:
    if dice.random() < 0.1:
        return dice.randbytes(dice.choice((0, 1, 200, 20_000)))
    return "&".join(
        f"{name}={quote_plus(value, errors='replace')}" for name, value in fields
    ).encode()


def _headers(dice: random.Random, host: str, cookie: str) -> dict[str, str]:
    usual = {"host": host, "cookie": cookie, "sec-fetch-site": "same-origin"}
    if dice.random() < 0.8:
        return usual
    name = dice.choice(("host", "cookie", "sec-fetch-site", "origin", "authorization", "accept"))
    return {**usual, name: dice.choice(_WORDS)}
