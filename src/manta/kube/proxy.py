"""Paths of services/proxy and pods/proxy: HTTP to a Service or Pod through the API server."""

from __future__ import annotations

from manta.api.meta import Key
from manta.api.names import dns1123_subdomain_errors
from manta.api.resources import PODS, SERVICES, Resource
from manta.kube import requests
from manta.kube.errors import MantaError


class ProxyNameError(MantaError):
    """No Service or Pod can have this name: its path would lead elsewhere on the API server."""


def service_proxy_path(
    namespace: str, name: str, port: int | str, path: str = "", *, scheme: str = ""
) -> str:
    """The path of a Service's proxy. `port` is a number or a port's name; `path` may have a query.

    Raises ProxyNameError: a cluster's author chooses the name of the head Service, and its status says it.
    """
    return _proxy_path(SERVICES, Key(namespace, name), port, path, scheme)


def pod_proxy_path(
    namespace: str, name: str, port: int | str, path: str = "", *, scheme: str = ""
) -> str:
    """The path of a Pod's proxy; the parameters are those of `service_proxy_path`. Raises ProxyNameError."""
    return _proxy_path(PODS, Key(namespace, name), port, path, scheme)


def _proxy_path(resource: Resource, key: Key, port: int | str, path: str, scheme: str) -> str:
    if dns1123_subdomain_errors(key.name):
        raise ProxyNameError(
            f"{key.name[:80]!r} cannot be the name of one of the {resource.plural}"
        )
    target = f"{scheme}:{key.name}:{port}" if scheme else f"{key.name}:{port}"
    base = requests.object_path(resource, Key(key.namespace, target), "proxy")
    return f"{base}/{path.lstrip('/')}"
