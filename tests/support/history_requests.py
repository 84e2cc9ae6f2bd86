"""Odd requests to the history server, from a seed: paths, ids, ranges and parameters that nobody should send."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from manta.history.index.queries import TASK_FILTERS
from manta.history.serve.answers import ENDPOINTS, ITEMS, UNAVAILABLE
from manta.httpserver.messages import HttpRequest
from support.history import FAILED_TASK, NODE, SESSION

_PATHS = [
    *ENDPOINTS,
    *UNAVAILABLE,
    "api/v0/logs/file",
    "api/v0/logs/stream",
    "",
    "index.html",
    "static",
]
_PARAMETERS = (
    "node_id", "node_ip", "filename", "task_id", "actor_id", "pid", "suffix", "lines", "attempt_number", "glob",
    "download_filename", "submission_id", "limit", "detail", "exclude_driver", "summary_by", "job_id", "view",
    "format", "filter_keys", "filter_predicates", "filter_values", "timeout", "interval", "token",
)  # fmt: skip
_WORDS = (
    "", "0", "1", "-1", "9" * 30, "-" + "9" * 30, "9" * 5000, "--5", "-5", "1e9", "0x10", "nan", "true", "latest", "live", "..", ".", "/", "//",
    "../" * 12 + "etc/passwd", "..\\..\\secret", "/etc/passwd", "%2e%2e%2f", "~root", "file:///etc/passwd", "*",
    "[" * 50, "**/" * 30, "?" * 60, "\0", "a\0b", "\r\nX-Evil: 1", "\u202e", "\ud800", "é" * 40, "x" * 5000, "' OR 1=1 --",
    '"; DROP TABLE tasks; --', "${jndi:x}", "{{7*7}}", "<script>alert(1)</script>", NODE, NODE.upper(), NODE[:-1],
    FAILED_TASK, "ff" * 24, "raylet.out", "worker-*.out", "events/*", "01000000", "02000000", "sub-1", "state", "=", "!=", ">",
    "FAILED", "name", "task_id", "lineage", "summary", "hostNameList", "err", "session.json", "SECRET", "\uffff", "٣", "²",
)  # fmt: skip
_RIGHT = (
    ("task_id", FAILED_TASK), ("node_id", NODE), ("filename", "raylet.out"), ("pid", "29268"), ("job_id", "02000000"),
    ("filter_keys", "attempt_number"), ("summary_by", "lineage"), ("submission_id", "sub-1"),
)  # fmt: skip
_METHODS = ("GET",) * 70 + ("HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "")
_KINDS = ("rayjob", "raycluster", "rayservice", "pods", "..")
_SESSIONS = (SESSION, "session_x", "latest", "live", "..", f"{SESSION}/..", f"session_{'a' * 300}")


def odd_requests(seed: int, count: int, token: str) -> Iterator[HttpRequest]:
    dice = random.Random(seed)
    for _ in range(count):
        yield HttpRequest(
            dice.choice(_METHODS), _path(dice), _query(dice), _headers(dice, token), _body(dice)
        )


def _path(dice: random.Random) -> str:
    if dice.random() < 0.05:
        return dice.choice(_WORDS) or "/"
    if dice.random() < 0.1:
        return f"/history/{dice.choice(('login', 'link', '', '.', '../'))}{dice.choice(_WORDS)}"
    right = dice.random() < 0.8
    place = ["default", "rayjob", "train", SESSION] if right else [
        dice.choice(("default", "secret", "gone", *_WORDS)), dice.choice(_KINDS),
        dice.choice(("train", "hidden", *_WORDS)), dice.choice(_SESSIONS),
    ]  # fmt: skip
    rest = dice.choice(_PATHS)
    if dice.random() < 0.3:
        rest = f"{dice.choice((*ITEMS, *_PATHS))}/{dice.choice(_WORDS)}"
    slashes = dice.choice(("", "", "", "/", "//"))
    return f"/history/{'/'.join(place)}/{rest}{slashes}"


def _query(dice: random.Random) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for _ in range(dice.choice((0, 1, 1, 2, 3, 8))):
        found.append((dice.choice(_PARAMETERS), dice.choice(_WORDS)))
    if dice.random() < 0.3:
        found.append(dice.choice(_RIGHT))
    if dice.random() < 0.3:
        key = dice.choice((*TASK_FILTERS, *_WORDS))
        predicate = dice.choice(("=", "!=", *_WORDS))
        found += [("filter_keys", key), ("filter_predicates", predicate), ("filter_values", dice.choice(_WORDS))]  # fmt: skip
    return tuple(found)


def _headers(dice: random.Random, token: str) -> dict[str, str]:
    if dice.random() < 0.85:
        return {"authorization": f"Bearer {token}"}
    odd: list[dict[str, Any]] = [
        {},
        {"authorization": dice.choice(_WORDS)},
        {"authorization": f"Bearer {dice.choice(_WORDS)}"},
        {"cookie": f"manta-history={dice.choice(_WORDS)}; {dice.choice(_WORDS)}=1"},
        {"accept": "text/html", "range": f"bytes={dice.choice(_WORDS)}"},
    ]
    return dice.choice(odd)


def _body(dice: random.Random) -> bytes:
    text = f"token={dice.choice(_WORDS)}" if dice.random() < 0.1 else ""
    return text.encode(errors="surrogatepass")
