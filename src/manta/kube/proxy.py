"""Paths through the API server to a Service or a Pod (services/proxy and pods/proxy)."""

from __future__ import annotations

from manta.api.meta import Key
from manta.api.resources import PODS, SERVICES, Resource
from manta.kube import requests


def service_proxy_path(
    namespace: str, name: str, port: int | str, path: str = "", *, scheme: str = ""
) -> str:
    """`port` is a number or the name of a Service port; `path` may bring its own query."""
    return _proxy_path(SERVICES, Key(namespace, name), port, path, scheme)


def pod_proxy_path(
    namespace: str, name: str, port: int | str, path: str = "", *, scheme: str = ""
) -> str:
    return _proxy_path(PODS, Key(namespace, name), port, path, scheme)


def _proxy_path(resource: Resource, key: Key, port: int | str, path: str, scheme: str) -> str:
    target = f"{scheme}:{key.name}:{port}" if scheme else f"{key.name}:{port}"
    base = requests.object_path(resource, Key(key.namespace, target), "proxy")
    return f"{base}/{path.lstrip('/')}"
