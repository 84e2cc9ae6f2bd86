"""Routes HTTP requests to Services by the rules of Ingresses and HTTPRoutes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from manta.api.gateway import BackendRef, Gateway, HTTPRoute, HTTPRouteRule
from manta.api.meta import Key
from manta.api.networking import Ingress
from manta.api.well_known import ANNOTATION_REWRITE_TARGET
from manta.localplane.node.services.http_head import Head

PathKind = Literal["exact", "prefix", "pattern"]


@dataclass(frozen=True, slots=True)
class Destination:
    service: Key
    port: int | str
    weight: int = 1


@dataclass(frozen=True, slots=True)
class RequestChange:
    """How the request is changed before it is forwarded."""

    pattern: str = ""
    """The new path as in nginx's rewrite-target, with $1 for groups of the rule's pattern."""
    prefix: str | None = None
    """Replaces the matched prefix."""
    whole: str | None = None
    """Replaces the path."""
    put: Mapping[str, str] = field(default_factory=dict)
    add: Mapping[str, str] = field(default_factory=dict)
    remove: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Route:
    hosts: tuple[str, ...]
    """Empty: every host. `*.example.org` matches one or more labels."""
    kind: PathKind
    path: str
    destinations: tuple[Destination, ...]
    change: RequestChange = RequestChange()
    headers: Mapping[str, str] = field(default_factory=dict)
    method: str = ""

    def matches(self, head: Head) -> bool:
        return (
            _host_matches(self.hosts, head.host)
            and _path_matches(self.kind, self.path, head.path)
            and (not self.method or self.method == head.method)
            and all(head.header(name.lower()) == value for name, value in self.headers.items())
        )

    def rewrite(self, head: Head) -> Head:
        change = self.change
        path = head.path
        if change.pattern and (match := re.match(self.path, path)):
            path = re.sub(r"\$(\d+)", lambda group: match[int(group[1])] or "", change.pattern)
        elif change.whole is not None:
            path = change.whole
        elif change.prefix is not None:
            rest = path[len(self.path.rstrip("/")) :].lstrip("/")
            path = f"{change.prefix.rstrip('/')}/{rest}" if rest else change.prefix or "/"
        return head.with_path(path or "/").with_headers(change.put, change.add, change.remove)

    @property
    def rank(self) -> tuple[int, int, int]:
        """Exact paths before others, longer before shorter, with host before without."""
        return (self.kind == "exact", len(self.path), len(self.hosts) > 0)


def choose(routes: Sequence[Route], head: Head) -> Route | None:
    """The most specific route that matches, or None."""
    found = [route for route in routes if route.matches(head)]
    return max(found, key=lambda route: route.rank, default=None)


def _host_matches(hosts: Sequence[str], host: str) -> bool:
    if not hosts:
        return True
    return any(
        host == one or (one.startswith("*.") and host.endswith(one[1:]) and host != one[1:])
        for one in hosts
    )


def _path_matches(kind: PathKind, wanted: str, path: str) -> bool:
    match kind:
        case "exact":
            return path == wanted
        case "prefix":
            bare = wanted.rstrip("/")
            return path == bare or path.startswith(f"{bare}/") or not bare
        case "pattern":
            return re.match(wanted, path) is not None


# ── Ingresses ────────────────────────────────────────────────────────────────────────────
def routes_of_ingresses(ingresses: Iterable[Ingress]) -> tuple[Route, ...]:
    return tuple(route for ingress in ingresses for route in _routes_of(ingress))


def _routes_of(ingress: Ingress) -> Iterator[Route]:
    rewrite = ingress.metadata.annotations.get(ANNOTATION_REWRITE_TARGET, "")
    for rule in ingress.spec.rules:
        hosts = (rule["host"],) if rule.get("host") else ()
        for path in (rule.get("http") or {}).get("paths", ()):
            service = (path.get("backend") or {}).get("service")
            if service is None:
                continue
            port = service.get("port") or {}
            goal = Destination(
                Key(ingress.metadata.namespace, service["name"]),
                port.get("number") or port.get("name", ""),
            )
            wanted = path.get("path") or "/"
            kind: PathKind = "exact" if path.get("pathType") == "Exact" else "prefix"
            if rewrite or "(" in wanted:
                kind = "pattern"
            yield Route(hosts, kind, wanted, (goal,), RequestChange(pattern=rewrite))


# ── HTTPRoutes ───────────────────────────────────────────────────────────────────────────
def routes_of_gateway(gateway: Gateway, routes: Iterable[HTTPRoute]) -> tuple[Route, ...]:
    """The routes that belong to this Gateway."""
    return tuple(
        made
        for route in routes
        if is_parent(gateway, route)
        for rule in route.spec.rules
        for made in _routes_of_rule(route, rule)
    )


def is_parent(gateway: Gateway, route: HTTPRoute) -> bool:
    return any(
        parent.kind == "Gateway"
        and parent.name == gateway.metadata.name
        and (parent.namespace or route.metadata.namespace) == gateway.metadata.namespace
        for parent in route.spec.parent_refs
    )


def is_foreign(route: HTTPRoute, backend: BackendRef) -> bool:
    """Whether a backend is in another namespace; that needs a ReferenceGrant, which is not supported."""
    return backend.namespace not in ("", route.metadata.namespace)


def _routes_of_rule(route: HTTPRoute, rule: HTTPRouteRule) -> Iterator[Route]:
    goals = tuple(
        Destination(
            Key(backend.namespace or route.metadata.namespace, backend.name),
            backend.port or 80,
            backend.weight,
        )
        for backend in rule.backend_refs
        if not is_foreign(route, backend)
    )
    change = _change_of(rule.filters)
    for match in rule.matches or ({},):
        path = match.get("path") or {}
        kinds: Mapping[str, PathKind] = {"Exact": "exact", "RegularExpression": "pattern"}
        yield Route(
            route.spec.hostnames,
            kinds.get(path.get("type", ""), "prefix"),
            path.get("value", "/"),
            goals,
            change,
            {one["name"]: one["value"] for one in match.get("headers", ())},
            match.get("method", ""),
        )


def _change_of(filters: Iterable[Mapping[str, Any]]) -> RequestChange:
    put: dict[str, str] = {}
    add: dict[str, str] = {}
    remove: set[str] = set()
    prefix = whole = None
    for one in filters:
        headers = one.get("requestHeaderModifier") or {}
        put |= {pair["name"]: pair["value"] for pair in headers.get("set", ())}
        add |= {pair["name"]: pair["value"] for pair in headers.get("add", ())}
        remove |= set(headers.get("remove", ()))
        rewrite = one.get("urlRewrite") or {}
        if rewrite.get("hostname"):
            put["Host"] = rewrite["hostname"]
        path = rewrite.get("path") or {}
        prefix = path.get("replacePrefixMatch", prefix)
        whole = path.get("replaceFullPath", whole)
    return RequestChange(prefix=prefix, whole=whole, put=put, add=add, remove=frozenset(remove))


# ── weights ──────────────────────────────────────────────────────────────────────────────
class WeightedRoundRobin:
    """Smooth weighted round-robin over destinations.

    Each turn adds its weight to every destination's credit; the one with the most credit is chosen and
    pays the sum of all weights.
    """

    def __init__(self) -> None:
        self._credit: dict[tuple[Destination, ...], dict[Destination, int]] = {}

    def next(self, destinations: tuple[Destination, ...]) -> Destination | None:
        total = sum(one.weight for one in destinations)
        if total <= 0:
            return None
        credit = self._credit.setdefault(destinations, dict.fromkeys(destinations, 0))
        for one in destinations:
            credit[one] += one.weight
        chosen = max(destinations, key=lambda one: credit[one])
        credit[chosen] -= total
        return chosen
