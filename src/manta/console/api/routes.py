"""Which requests are answered: one table, read by the handler, the OpenAPI document and the reference. Pure.

A path is split before it is percent-decoded, and the path that goes to Kubernetes is built from the checked parts:
no spelling of `..` or `/` reaches another object than the one that was checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from manta.api.ray.resources import RAY_RESOURCES
from manta.console.api.statuses import RefusedError

READS: Final = ("GET", "HEAD")
ALL: Final = (*READS, "POST", "PUT", "PATCH", "DELETE")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_SAFE: Final = ":@!$&'()*+,;=~"


class Action(Enum):
    FORWARD = "forward"
    """Send it to Kubernetes as it is."""
    FILL = "fill"
    """Put compute templates into it first."""
    EVENTS = "events"
    SERVICE = "service"
    LOG = "log"
    TEMPLATES = "templates"
    """Compute templates of a namespace, or of all: list and create."""
    TEMPLATE = "template"


@dataclass(frozen=True, slots=True)
class Route:
    methods: tuple[str, ...]
    path: str
    """`{name}` is one part, `{name...}` all that follow, none too."""
    action: Action
    summary: str
    kuberay: bool = True
    """Whether KubeRay's API server has it."""

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.path.strip("/").split("/"))


@dataclass(frozen=True, slots=True)
class Match:
    route: Route
    path: str
    """The path of the request to Kubernetes, percent-encoded."""
    values: Mapping[str, str]
    """Decoded parts by their name in the route."""


def _ray_routes() -> Iterator[Route]:
    for one in RAY_RESOURCES:
        own = one.kind == "RayCronJob"
        listed = f"/apis/ray.io/v1/namespaces/{{namespace}}/{one.plural}"
        summary = f"Create a {one.kind}; groups may name a compute template"
        yield Route(("POST",), listed, Action.FILL, summary, kuberay=not own)
        summary = f"Replace a {one.kind}; groups may name a compute template"
        yield Route(("PUT",), f"{listed}/{{name}}", Action.FILL, summary, kuberay=not own)


ROUTES: Final = (
    *_ray_routes(),
    Route(
        ALL,
        "/apis/ray.io/v1/{rest...}",
        Action.FORWARD,
        "Get, list, watch, create, update, patch, delete every Ray kind, with status and scale",
    ),
    Route(
        READS,
        "/apis/events.k8s.io/v1/namespaces/{namespace}/events",
        Action.EVENTS,
        "List or watch Events that are about Ray objects",
    ),
    Route(
        (*ALL, "OPTIONS"),
        "/api/v1/namespaces/{namespace}/services/{service}/proxy/{rest...}",
        Action.SERVICE,
        "A Service of Ray (`[scheme:]name[:port]`): dashboard, job submission, Serve; with a bearer token only",
    ),
    Route(
        READS,
        "/api/v1/namespaces/{namespace}/pods/{name}/log",
        Action.LOG,
        "The log of a Pod of Ray; `follow=true` streams it",
        kuberay=False,
    ),
    Route(
        ("GET", "POST"),
        "/apis/v1/namespaces/{namespace}/compute_templates",
        Action.TEMPLATES,
        "List or create compute templates: ConfigMaps",
    ),
    Route(("GET",), "/apis/v1/compute_templates", Action.TEMPLATES, "List all compute templates"),
    Route(
        ("GET", "DELETE"),
        "/apis/v1/namespaces/{namespace}/compute_templates/{name}",
        Action.TEMPLATE,
        "Read or delete a compute template",
    ),
)


def is_api_path(path: str) -> bool:
    return path.startswith(("/api/", "/apis/")) or path in ("/api", "/apis")


def match(method: str, raw_path: str) -> Match:
    """The route of a request, by its path as on the request line. Raises RefusedError."""
    parts = raw_path.split("/")[1:]
    fitting = [one for one in ROUTES if _fits(one, parts)]
    if not fitting:
        raise RefusedError(404, "the server could not find the requested resource")
    for route in fitting:
        if method in route.methods:
            return _matched(route, parts)
    raise RefusedError(405, "the server does not allow this method on the requested resource")


def _fits(route: Route, parts: list[str]) -> bool:
    wanted = route.parts
    if wanted[-1].endswith("...}"):
        wanted = wanted[:-1]
        if len(parts) < len(wanted):
            return False
    elif len(parts) != len(wanted):
        return False
    return all(one.startswith("{") or one == part for one, part in zip(wanted, parts, strict=False))


def _matched(route: Route, parts: list[str]) -> Match:
    wanted = route.parts
    open_ended = wanted[-1].endswith("...}")
    count = len(wanted) - 1 if open_ended else len(wanted)
    fixed = [_decoded(one) for one in parts[:count]]
    values = {
        name.strip("{}"): part for name, part in zip(wanted, fixed, strict=False) if name[0] == "{"
    }
    path = "/" + "/".join(quote(one, safe=_SAFE) for one in fixed)
    if open_ended and len(parts) > count:
        path += _rest(route, parts[count:])
    return Match(route, path, values)


def _rest(route: Route, parts: list[str]) -> str:
    if route.action is not Action.SERVICE:
        if parts[-1] == "":  # a trailing slash means the same
            parts = parts[:-1]
        return "".join("/" + quote(_decoded(one), safe=_SAFE) for one in parts)
    # What is behind the proxy has its own meaning of `%2F` and `//`; only a way out of it is refused.
    raw = "/".join(parts)
    text = _text(raw)
    if any(one in (".", "..") for one in re.split(r"[/\\]", text)):
        raise RefusedError(400, f"the path {raw!r} must not contain `.` or `..`")
    return "/" + quote(raw, safe=f"{_SAFE}/%")


def _decoded(part: str) -> str:
    text = _text(part)
    if text in ("", ".", "..") or "/" in text or "\\" in text or "%" in text:
        raise RefusedError(400, f"{part!r} cannot be a part of this path")
    return text


def _text(raw: str) -> str:
    try:
        text = unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise RefusedError(400, f"{raw!r} is not UTF-8") from None
    if _CONTROL.search(text):
        raise RefusedError(400, f"{raw!r} contains a control character")
    return text


# ── Services ─────────────────────────────────────────────────────────────────────────────

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_PORT: Final = re.compile(r"[-a-z0-9]{0,63}")


def service_name(text: str) -> str:
    """The name in `[scheme:]name[:port]`. Raises RefusedError."""
    match text.split(":"):
        case [name]:
            scheme, port = "", ""
        case [name, port]:
            scheme = ""
        case [scheme, name, port]:
            pass
        case _:
            scheme, name, port = "none", "", ""
    if (
        scheme not in ("", "http", "https")
        or not _NAME.fullmatch(name)
        or not _PORT.fullmatch(port)
    ):
        raise RefusedError(
            400, f"invalid service format: {text!r}; write [scheme:]name[:port], as http:demo:8265"
        )
    return name
