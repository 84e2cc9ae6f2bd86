"""Parses the path of a request: resource, object, subresource, verb."""

from __future__ import annotations

from dataclasses import dataclass

VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}


@dataclass(frozen=True, slots=True)
class Route:
    """The parts of a path below /api or /apis; '' for parts that it does not have."""

    group: str
    version: str
    plural: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""
    """The path after the subresource, for proxy."""
    watch_prefix: bool = False

    def verb(self, method: str, *, watch: bool) -> str:
        """Return the verb for authorization and discovery."""
        verb = VERBS.get(method, method.lower())
        if self.subresource == "proxy":
            return verb
        if verb == "get" and not self.name:
            return "watch" if watch else "list"
        if verb == "get" and self.watch_prefix:
            return "watch"
        if verb == "delete" and not self.name:
            return "deletecollection"
        return verb


def parse_route(path: str) -> Route | None:
    """Return None for a path that is not below /api/VERSION or /apis/GROUP/VERSION."""
    parts = path.split("/")[1:]
    while parts and parts[-1] == "":
        parts.pop()
    if len(parts) >= 2 and parts[0] == "api":
        return _below(Route("", parts[1]), parts[2:])
    if len(parts) >= 3 and parts[0] == "apis":
        return _below(Route(parts[1], parts[2]), parts[3:])
    return None


def _below(root: Route, parts: list[str]) -> Route | None:
    watch = bool(parts) and parts[0] == "watch"
    if watch:
        parts = parts[1:]
    if not parts:
        return root
    if any(part == "" for part in parts[:4]):
        return None
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in ("status", "finalize"):
        namespace, parts = parts[1], parts[2:]
    plural, name, subresource = (*parts[:3], "", "", "")[:3]
    return Route(
        root.group, root.version, plural, namespace, name, subresource, "/".join(parts[3:]), watch
    )
