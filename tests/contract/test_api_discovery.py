"""Discovery and OpenAPI: what clients ask before they ask for anything else."""

from __future__ import annotations

from support.contract import GROUP, Api, Widgets

AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


async def test_aggregated_discovery_shows_everything_at_once(api: Api, widgets: Widgets) -> None:
    core = await api.get("/api", accept=AGGREGATED)
    assert core.headers["content-type"] == (
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    )
    (version,) = core.body["items"][0]["versions"]
    pods = next(one for one in version["resources"] if one["resource"] == "pods")
    assert pods["shortNames"] == ["po"]
    assert {"log", "exec", "status", "binding"} <= {
        sub["subresource"] for sub in pods["subresources"]
    }
    groups = {
        one["metadata"]["name"]: one
        for one in (await api.get("/apis", accept=AGGREGATED)).body["items"]
    }
    assert {"apps", "batch", "events.k8s.io", "rbac.authorization.k8s.io"} <= groups.keys()
    resources = groups[GROUP]["versions"][0]["resources"]
    mine = next(one for one in resources if one["resource"] == widgets.plural)
    assert mine["responseKind"] == {"group": GROUP, "version": "v1", "kind": "Widget"}
    assert mine["scope"] == "Namespaced"


async def test_discovery_can_be_kept(api: Api) -> None:
    first = await api.get("/apis", accept=AGGREGATED)
    etag = first.headers["etag"]
    again = await api.get("/apis", accept=AGGREGATED, headers={"If-None-Match": etag})
    assert again.status == 304


async def test_the_old_documents_are_there_too(api: Api) -> None:
    assert (await api.get("/api")).body["versions"] == ["v1"]
    groups = (await api.get("/apis")).body["groups"]
    apps = next(one for one in groups if one["name"] == "apps")
    assert apps["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    listed = (await api.get("/apis/apps/v1")).body
    assert (listed["kind"], listed["groupVersion"]) == ("APIResourceList", "apps/v1")
    assert {"deployments", "deployments/scale"} <= {one["name"] for one in listed["resources"]}
    assert (await api.get("/apis/apps")).body["kind"] == "APIGroup"


async def test_openapi_has_a_document_for_every_version(api: Api, widgets: Widgets) -> None:
    index = (await api.get("/openapi/v3")).body["paths"]
    assert {"api/v1", "apis/apps/v1"} <= index.keys()
    address = index["api/v1"]["serverRelativeURL"]
    path, _, query = address.partition("?")
    document = await api.get(path, query={"hash": query.partition("=")[2]})
    operations = document.body["paths"]["/api/v1/namespaces/{namespace}/configmaps/{name}"]
    patch = operations["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {
        "group": "",
        "version": "v1",
        "kind": "ConfigMap",
    }
    assert "fieldValidation" in {one["name"] for one in patch["parameters"]}
