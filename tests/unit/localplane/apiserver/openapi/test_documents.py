from __future__ import annotations

import json
from typing import Any

from manta.localplane.apiserver.api_resources import ApiResource
from manta.localplane.apiserver.builtin_resources import builtin_resources
from manta.localplane.apiserver.custom_resources import Schemas, defined_resources
from manta.localplane.apiserver.openapi.documents import (
    document,
    document_hash,
    group_version_path,
    index,
)

SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "A widget.",
    "properties": {
        "metadata": {"type": "object"},
        "spec": {"type": "object", "properties": {"mode": {"type": "string"}}},
    },
}
[DEPLOYMENTS] = [one for one in builtin_resources() if one.plural == "deployments"]


def widgets(schema: dict[str, Any]) -> ApiResource:
    version = {"name": "v1", "served": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "widgets", "kind": "Widget"}
    spec = {"group": "t.example.com", "names": names, "scope": "Namespaced", "versions": [version]}
    [resource] = defined_resources(json.dumps({"spec": spec}).encode(), Schemas())
    return resource


WIDGETS = widgets(SCHEMA)


def test_the_patch_operation_says_what_kubectl_looks_for() -> None:
    paths = document([WIDGETS], "v1.35.4")["paths"]
    patch = paths["/apis/t.example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {
        "group": "t.example.com",
        "version": "v1",
        "kind": "Widget",
    }
    assert "fieldValidation" in {parameter["name"] for parameter in patch["parameters"]}
    assert "application/strategic-merge-patch+json" not in patch["requestBody"]["content"]


def test_built_in_kinds_accept_strategic_patches_and_say_how_lists_merge() -> None:
    made = document([DEPLOYMENTS], "v1.35.4")
    path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
    content = made["paths"][path]["patch"]["requestBody"]["content"]
    assert "application/strategic-merge-patch+json" in content
    pod_spec = made["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]
    containers = pod_spec["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-patch-strategy"] == "merge"
    assert containers["x-kubernetes-list-type"] == "map"
    assert f"{path}/status" in made["paths"]


def test_a_schema_names_its_kind_and_keeps_its_descriptions() -> None:
    schemas = document([WIDGETS], "v1.35.4")["components"]["schemas"]
    widget = schemas["com.example.t.v1.Widget"]
    assert widget["x-kubernetes-group-version-kind"] == [
        {"group": "t.example.com", "version": "v1", "kind": "Widget"}
    ]
    assert widget["description"] == "A widget."
    assert widget["properties"]["metadata"]["$ref"].endswith(".ObjectMeta")
    assert schemas["com.example.t.v1.WidgetList"]["properties"]["items"]["items"]["$ref"].endswith(
        "com.example.t.v1.Widget"
    )


def test_everything_that_is_mentioned_is_there() -> None:
    made = document([DEPLOYMENTS, WIDGETS], "v1.35.4")
    schemas = made["components"]["schemas"]
    text = str(made)
    mentioned = {part.split("'")[0] for part in text.split("#/components/schemas/")[1:]}
    assert mentioned <= set(schemas)
    kind = schemas["io.k8s.api.apps.v1.Deployment"]
    assert kind["x-kubernetes-group-version-kind"] == [
        {"group": "apps", "version": "v1", "kind": "Deployment"}
    ]
    assert {"apiVersion", "kind", "metadata", "spec", "status"} <= set(kind["properties"])


def test_the_index_changes_with_the_document() -> None:
    path = group_version_path("t.example.com", "v1")
    before, after = document_hash([WIDGETS]), document_hash([DEPLOYMENTS])
    assert path == "apis/t.example.com/v1"
    assert group_version_path("", "v1") == "api/v1"
    assert before != after
    assert index({path: before}) == {
        "paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={before}"}}
    }
