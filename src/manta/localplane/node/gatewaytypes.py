"""The Gateway API's kinds, as small as they can be: served so that routes can be written, and
replaced by the project's own definitions if somebody installs those. Pure."""

from __future__ import annotations

from typing import Any

GROUP = "gateway.networking.k8s.io"
CONTROLLER = "manta.dev/gateway"
_KINDS = (
    ("GatewayClass", "gatewayclasses", "Cluster", "gc"),
    ("Gateway", "gateways", "Namespaced", "gtw"),
    ("HTTPRoute", "httproutes", "Namespaced", None),
)


def definitions() -> list[dict[str, Any]]:
    return [_definition(*kind) for kind in _KINDS]


def _definition(kind: str, plural: str, scope: str, short: str | None) -> dict[str, Any]:
    open_object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": open_object, "status": open_object}}
    names: dict[str, Any] = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": plural,
        "singular": kind.lower(),
        "categories": ["gateway-api"],
    }
    if short:
        names["shortNames"] = [short]
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{GROUP}",
            "annotations": {
                "api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/gateway-api"
            },
        },
        "spec": {"group": GROUP, "scope": scope, "names": names, "versions": [version]},
    }


def gateway_class() -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "GatewayClass",
        "metadata": {"name": "manta"},
        "spec": {"controllerName": CONTROLLER, "description": "the HTTP proxy of this plane"},
    }
