"""Discovery: the aggregated documents, and those for older clients.

The aggregated documents are cached until the registry changes, such as by a new CRD.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

from manta.httpserver.messages import HttpRequest, HttpResponse, json_response, text_response
from manta.localplane.apiserver.api_resources import ApiResource, Subresource
from manta.localplane.apiserver.negotiation import wants_aggregated_discovery
from manta.localplane.apiserver.registry import Registry

_GROUP_ORDER = (
    "",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
)


class Discovery:
    def __init__(self, registry: Registry, address: str = "127.0.0.1") -> None:
        self._registry = registry
        self._address = address
        self._cached_version = -1
        self._documents: dict[str, tuple[bytes, str]] = {}

    def answer(self, request: HttpRequest) -> HttpResponse | None:
        """The document at this path, or None for a path outside of discovery."""
        path = request.path.rstrip("/")
        if path in ("/api", "/apis"):
            version = wants_aggregated_discovery(request.headers.get("accept", ""))
            if version:
                return self._aggregated(request, path, version)
            return json_response(200, self._versions() if path == "/api" else self._groups())
        parts = path.split("/")[1:]
        if len(parts) == 2 and parts[0] == "apis":
            return self._group(parts[1])
        if len(parts) == 2 and parts[0] == "api":
            return self._resources("", parts[1])
        if len(parts) == 3 and parts[0] == "apis":
            return self._resources(parts[1], parts[2])
        return None

    # ── aggregated ───────────────────────────────────────────────────────────────────────
    def _aggregated(self, request: HttpRequest, path: str, version: str) -> HttpResponse:
        body, etag = self._document(path, version)
        headers = (("ETag", etag), ("Vary", "Accept"), ("Cache-Control", "public"))
        if request.headers.get("if-none-match") == etag:
            return HttpResponse(304, b"", headers)
        content_type = (
            f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
        )
        return HttpResponse(200, body, headers, content_type)

    def _document(self, path: str, version: str) -> tuple[bytes, str]:
        if self._cached_version != self._registry.version:
            self._documents.clear()
            self._cached_version = self._registry.version
        slot = f"{path} {version}"
        if slot not in self._documents:
            groups = self._grouped()
            selected = (
                {"": groups[""]}
                if path == "/api"
                else {name: versions for name, versions in groups.items() if name}
            )
            body = msgspec.json.encode(
                {
                    "kind": "APIGroupDiscoveryList",
                    "apiVersion": f"apidiscovery.k8s.io/{version}",
                    "metadata": {},
                    "items": [_group_entry(name, found) for name, found in selected.items()],
                }
            )
            etag = f'"{hashlib.sha256(body).hexdigest().upper()}"'
            self._documents[slot] = (body, etag)
        return self._documents[slot]

    def _grouped(self) -> dict[str, dict[str, list[ApiResource]]]:
        groups: dict[str, dict[str, list[ApiResource]]] = {name: {} for name in _GROUP_ORDER}
        for resource in self._registry.all():
            groups.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
        return {name: _by_stability(versions) for name, versions in groups.items() if versions}

    # ── for older clients ────────────────────────────────────────────────────────────────
    def _versions(self) -> dict[str, Any]:
        return {
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [
                {"clientCIDR": "0.0.0.0/0", "serverAddress": self._address}
            ],
        }

    def _groups(self) -> dict[str, Any]:
        groups = [
            _legacy_group(name, versions) for name, versions in self._grouped().items() if name
        ]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def _group(self, name: str) -> HttpResponse:
        versions = self._grouped().get(name)
        if not name or versions is None:
            return text_response(404, "404 page not found\n")
        return json_response(
            200, {"kind": "APIGroup", "apiVersion": "v1"} | _legacy_group(name, versions)
        )

    def _resources(self, group: str, version: str) -> HttpResponse:
        found = self._grouped().get(group, {}).get(version)
        if found is None:
            return text_response(404, "404 page not found\n")
        resources = [entry for resource in found for entry in _legacy_entries(resource)]
        body = {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{group}/{version}" if group else version,
            "resources": resources,
        }
        return json_response(200, body)


def _by_stability(versions: dict[str, list[ApiResource]]) -> dict[str, list[ApiResource]]:
    """Stable versions first, then beta, then alpha; newer before older."""

    def rank(name: str) -> tuple[int, list[int]]:
        level = 0 if "alpha" in name else 1 if "beta" in name else 2
        digits = "".join(sign if sign.isdigit() else " " for sign in name).split()
        return level, [int(number) for number in digits]

    return {name: versions[name] for name in sorted(versions, key=rank, reverse=True)}


def _group_entry(name: str, versions: dict[str, list[ApiResource]]) -> dict[str, Any]:
    return {
        "metadata": {"name": name} if name else {},
        "versions": [
            {
                "version": version,
                "resources": [_entry(resource) for resource in found],
                "freshness": "Current",
            }
            for version, found in versions.items()
        ],
    }


def _entry(resource: ApiResource) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": {
            "group": resource.group,
            "version": resource.version,
            "kind": resource.kind,
        },
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.subresources:
        entry["subresources"] = [_sub_entry(resource, sub) for sub in resource.subresources]
    return entry


def _sub_entry(resource: ApiResource, sub: Subresource) -> dict[str, Any]:
    group, version = (sub.group, sub.version) if sub.version else (resource.group, resource.version)
    return {
        "subresource": sub.name,
        "responseKind": {"group": group, "version": version, "kind": sub.kind},
        "verbs": list(sub.verbs),
    }


def _legacy_group(name: str, versions: Iterable[str]) -> dict[str, Any]:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _legacy_entries(resource: ApiResource) -> list[dict[str, Any]]:
    main: dict[str, Any] = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        main["shortNames"] = list(resource.short_names)
    if resource.categories:
        main["categories"] = list(resource.categories)
    entries = [main]
    for sub in resource.subresources:
        entry: dict[str, Any] = {
            "name": f"{resource.plural}/{sub.name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": sub.kind,
            "verbs": list(sub.verbs),
        }
        if sub.version:
            entry |= {"group": sub.group, "version": sub.version}
        entries.append(entry)
    return entries
